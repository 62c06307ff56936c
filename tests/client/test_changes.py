"""What became of events between two documents."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.changes import Change, ChangeKind, Ending, changes
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.document import Document, ScheduledEvent, UnreadableEvent

SCHEDULED = ScheduledEvent(id="a", type=EventType.FREEZE, status=EventStatus.SCHEDULED, resources=("web-0",))
STARTED = msgspec.structs.replace(SCHEDULED, status=EventStatus.STARTED)
OTHER = msgspec.structs.replace(SCHEDULED, id="b")


def kinds(before: Document | None, after: Document) -> list[tuple[ChangeKind, Ending | None]]:
    return [(change.kind, change.ending) for change in changes(before, after)]


def test_the_first_document_has_news_only() -> None:
    """Whatever is there is new, started or not."""
    assert changes(None, Document(5, (SCHEDULED, OTHER))) == (
        Change(ChangeKind.NEW, SCHEDULED),
        Change(ChangeKind.NEW, OTHER),
    )
    assert kinds(None, Document(5, (STARTED,))) == [(ChangeKind.NEW, None)]


def test_an_event_that_starts_has_started() -> None:
    """Its NotBefore goes in the same step; that is no second change."""
    assert changes(Document(1, (SCHEDULED,)), Document(2, (STARTED,))) == (
        Change(ChangeKind.STARTED, STARTED, SCHEDULED),
    )


def test_an_event_that_differs_otherwise_has_changed() -> None:
    """A description that was rewritten, more time that was given."""
    result = msgspec.structs.replace(SCHEDULED, description="Host server is undergoing maintenance.")

    assert changes(Document(1, (SCHEDULED,)), Document(2, (result,))) == (
        Change(ChangeKind.CHANGED, result, SCHEDULED),
    )


def test_what_was_seen_started_is_completed() -> None:
    """However the incarnation moved meanwhile."""
    for incarnation in (2, 9, 1, 0):
        assert kinds(Document(1, (STARTED,)), Document(incarnation, ())) == [(ChangeKind.GONE, Ending.COMPLETED)]


def test_what_vanishes_in_one_step_was_canceled() -> None:
    """To start and to end would have been two."""
    assert kinds(Document(1, (SCHEDULED,)), Document(2, ())) == [(ChangeKind.GONE, Ending.CANCELED)]


def test_what_vanishes_in_two_steps_may_have_started_between() -> None:
    """Azure was recorded to go from 2 to 4 while a reboot began and ended unseen."""
    assert kinds(Document(2, (SCHEDULED,)), Document(4, ())) == [(ChangeKind.GONE, Ending.UNKNOWN)]


def test_steps_that_others_explain_prove_nothing_against_a_cancellation() -> None:
    """One event came, one went: two steps, and none is left for a start."""
    assert kinds(Document(1, (SCHEDULED,)), Document(3, (OTHER,))) == [
        (ChangeKind.GONE, Ending.CANCELED),
        (ChangeKind.NEW, None),
    ]


def test_an_incarnation_that_began_anew_tells_nothing() -> None:
    """Nor does one that stood still."""
    for incarnation in (0, 1, 7):
        assert kinds(Document(7, (SCHEDULED,)), Document(incarnation, ())) == [(ChangeKind.GONE, Ending.UNKNOWN)]


events = st.builds(
    ScheduledEvent,
    id=st.sampled_from("abcde"),
    type=st.sampled_from(EventType),
    status=st.sampled_from([EventStatus.SCHEDULED, EventStatus.STARTED]),
    resources=st.just(("web-0",)),
    description=st.sampled_from(["", "why"]),
)
documents = st.builds(
    Document,
    incarnation=st.integers(0, 9),
    events=st.lists(events, max_size=5, unique_by=lambda event: event.id).map(tuple),
)


@given(documents, documents)
def test_changes_lead_from_one_document_to_the_other(before: Document, after: Document) -> None:
    """Played onto the old events they give the new ones; each event has one change at most, and none for nothing."""
    result = changes(before, after)
    events = {event.id: event for event in before.events}
    for change in result:
        assert change.before == events.get(change.event.id)
        assert (change.ending is not None) == (change.kind is ChangeKind.GONE)
        if change.kind is ChangeKind.GONE:
            del events[change.event.id]
        else:
            assert change.before != change.event
            events[change.event.id] = change.event

    assert events == {event.id: event for event in after.events}
    assert len({change.event.id for change in result}) == len(result)


@given(st.lists(st.sampled_from(["announce", "start", "complete", "cancel", "look"]), max_size=30))
def test_canceled_is_said_only_of_what_never_started(steps: list[str]) -> None:
    """Whatever path a service takes, who looks now and then never calls canceled what had its impact."""
    lives: dict[str, str] = {}
    incarnation, number = 1, 0
    seen = Document(1, ())
    for step in steps:
        living = [each for each, life in lives.items() if life in {"scheduled", "started"}]
        if step == "look":
            shown = tuple(
                msgspec.structs.replace(SCHEDULED, id=each, status=EventStatus(lives[each])) for each in living
            )
            document = Document(incarnation, shown)
            for change in changes(seen, document):
                if change.ending is Ending.CANCELED:
                    assert lives[change.event.id] == "canceled"
                if change.ending is Ending.COMPLETED:
                    assert lives[change.event.id] == "completed"
            seen = document
        elif step == "announce":
            number += 1
            incarnation += 1
            lives[str(number)] = "scheduled"
        else:
            needed, becomes = {
                "start": ("scheduled", "started"),
                "complete": ("started", "completed"),
                "cancel": ("scheduled", "canceled"),
            }[step]
            for each in living:
                if lives[each] == needed:
                    lives[each] = becomes
                    incarnation += 1
                    break


def test_nothing_is_certain_of_an_ending_beside_what_cannot_be_read() -> None:
    """The event may have started while it could not be read."""
    unread = (UnreadableEvent("a", "no"),)
    whole, partly = Document(2, (SCHEDULED,)), Document(2, (SCHEDULED,), unread)

    assert kinds(whole, Document(3, ())) == [(ChangeKind.GONE, Ending.CANCELED)]
    assert kinds(partly, Document(3, ())) == [(ChangeKind.GONE, Ending.UNKNOWN)]
    assert kinds(whole, Document(3, (), (UnreadableEvent("b", "no"),))) == [(ChangeKind.GONE, Ending.UNKNOWN)]
