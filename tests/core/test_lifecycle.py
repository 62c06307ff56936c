"""One event's life: what each fact makes of it, and which steps are refused."""

import re
from datetime import timedelta
from typing import get_args

import pytest
from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.errors import IllegalTransition, Refused
from forewarn.core.facts import (
    Announced,
    Approved,
    Attempted,
    BroughtForward,
    Canceled,
    ClockStepped,
    Completed,
    EventChanged,
    EventFact,
    Failed,
    Fetch,
    Postponed,
    Started,
    StartedAtOnce,
    Waiting,
)
from forewarn.core.model import NODE, Caller, CallerKind, Event, EventSource, EventStatus, EventType, Operation
from tests.core.harness import ANN, NOON

SCHEDULED = Event(
    id="e",
    type=EventType.REBOOT,
    source=EventSource.USER,
    group="web",
    resources=("web-0",),
    status=EventStatus.SCHEDULED,
    not_before=NOON,
    announced_at=NOON,
    operation=Operation.VM_RESTART,
)


def started() -> Event:
    return lifecycle.after(SCHEDULED, Started("e", NOON, "due"))


def test_a_start_ends_the_waiting() -> None:
    """A Started event waits for nobody."""
    waiting = lifecycle.after(SCHEDULED, lifecycle.wait(SCHEDULED, NOON, behind=SCHEDULED))
    event = lifecycle.after(waiting, Started("e", NOON, "due"))

    assert (event.status, event.started_at, event.waits_for) == (EventStatus.STARTED, NOON, "")


def test_every_attempt_is_counted() -> None:
    """After a crash the record tells whether the driver may have been called."""
    event = lifecycle.after(started(), Attempted("e", NOON))
    again = lifecycle.after(event, Attempted("e", NOON))

    assert again.attempts == 2


CHANGES: tuple[EventChanged, ...] = (
    Approved("e", NOON, NODE),
    Waiting("e", NOON, "f"),
    Postponed("e", NOON, NODE, 60, NOON),
    BroughtForward("e", NOON, NOON),
    Started("e", NOON, "due"),
    Attempted("e", NOON),
    Completed("e", NOON),
    Failed("e", NOON, "why"),
    Canceled("e", NOON, "why"),
)


def drawn() -> set[tuple[str, str, str]]:
    """Read the arrows off the drawing: from which status, by which fact, to which status."""
    lines = (lifecycle.__doc__ or "").splitlines()
    arrows = set()
    for number, line in enumerate(lines):
        words = re.split(r" --(?=[A-Z])|\+--(?=[A-Z])|--> ", line)
        if "-->" not in line:
            continue
        if not words[0].strip(" |"):  # a branch: what it comes from stands above the +
            column = line.index("+")
            above = next(each for each in reversed(lines[:number]) if each[column] not in "|+")
            words[0] = next(word[0] for word in re.finditer(r"\w+", above) if word.start() <= column < word.end())
        for before, names, after in zip(words[::2], words[1::2], words[2::2], strict=False):
            arrows |= {(before.strip(), name, after.strip()) for name in names.split(" | ")}
    return arrows


def test_the_drawing_shows_the_table() -> None:
    """The docstring draws all legal transitions, and no other."""
    table = {
        ((before or "new").lower(), fact.__name__, after) for (before, fact), after in lifecycle.TRANSITIONS.items()
    }

    assert {(before.lower(), name, after.lower()) for before, name, after in drawn()} == table


def test_every_fact_about_an_event_has_a_row() -> None:
    """A new kind of fact is not forgotten in the table."""
    assert {fact for _, fact in lifecycle.TRANSITIONS} == set(get_args(EventFact))


@pytest.mark.parametrize("fact", CHANGES, ids=lambda fact: type(fact).__name__)
@pytest.mark.parametrize("status", EventStatus)
def test_a_step_is_taken_as_the_table_says_or_raises(status: EventStatus, fact: EventChanged) -> None:
    """A step that the table does not have is an error, whatever recorded it."""
    event = replace(SCHEDULED, status=status)

    if (status, type(fact)) in lifecycle.TRANSITIONS:
        assert lifecycle.after(event, fact).status is lifecycle.TRANSITIONS[status, type(fact)]
    else:
        with pytest.raises(IllegalTransition, match=f"event e is {status}; the fact {type(fact).__name__} cannot"):
            lifecycle.after(event, fact)


def test_an_event_begins_with_the_status_of_the_fact_that_begins_it() -> None:
    """What is announced is Scheduled; what needs no notice is Started."""
    assert lifecycle.begin(Announced(SCHEDULED)) is SCHEDULED
    assert lifecycle.begin(lifecycle.start_at_once(SCHEDULED, NOON)).status is EventStatus.STARTED
    with pytest.raises(IllegalTransition):
        lifecycle.begin(StartedAtOnce(SCHEDULED))


def test_three_statuses_end_an_event() -> None:
    """The ends are the statuses from which no arrow leads."""
    assert set(lifecycle.ENDS) == {EventStatus.COMPLETED, EventStatus.FAILED, EventStatus.CANCELED}


def test_waiting_approvals_and_attempts_are_not_visible() -> None:
    """All other facts about an event raise the incarnation."""
    assert set(lifecycle.VISIBLE) == set(get_args(EventFact)) - {Approved, Waiting, Attempted}


def test_only_what_has_started_is_attempted() -> None:
    """No driver is called for a Scheduled event."""
    with pytest.raises(Refused, match="has not started"):
        lifecycle.attempt(SCHEDULED, NOON, 0, "")


def test_only_what_is_scheduled_is_canceled() -> None:
    """What has started runs to its end."""
    with pytest.raises(Refused, match="can no longer be canceled"):
        lifecycle.cancel(started(), NOON, "why")


def test_every_fact_about_an_event_names_its_group() -> None:
    """Whoever reads the fact need not know the event."""
    running = started()
    facts: list[EventChanged] = [
        lifecycle.start(SCHEDULED, NOON, "due"),
        lifecycle.wait(SCHEDULED, NOON, behind=SCHEDULED),
        lifecycle.keep_quiet(SCHEDULED, NOON, NOON),
        lifecycle.stop_waiting(SCHEDULED, NOON),
        lifecycle.bring_forward(SCHEDULED, NOON, NOON),
        lifecycle.cancel(SCHEDULED, NOON, "taken back"),
        lifecycle.attempt(running, NOON, 0, ""),
        lifecycle.complete(running, NOON),
        lifecycle.fail(running, NOON, "no power"),
    ]

    assert {(fact.event, fact.group) for fact in facts} == {("e", "web")}


def test_an_event_read_from_a_later_fleet_stays_as_it_is() -> None:
    """What is read of the past is in it already, and cannot follow again."""
    started = replace(SCHEDULED, status=EventStatus.STARTED)

    assert lifecycle.follow(started, Started("e", NOON, "due")) is started
    assert lifecycle.follow(None, Started("e", NOON, "due")) is None


def test_an_event_that_is_born_started_has_started_now() -> None:
    """As one that was Scheduled before."""
    event = lifecycle.begin(lifecycle.start_at_once(SCHEDULED, NOON))

    assert (event.status, event.started_at) == (EventStatus.STARTED, NOON)


@pytest.mark.parametrize(
    ("shift", "back", "left"),
    [
        (10, 9, 0),
        (10, 10, 0),
        (10, 11, -1),
        (10 + 30 * 24 * 3600, 10, 30 * 24 * 3600),
        (9 + 30 * 24 * 3600, 10, 0),
    ],
)
def test_a_clock_that_is_set_back_is_right_again(shift: int, back: int, left: int) -> None:
    """What remains of the shift is time in which no service ran, unless it is longer than any absence."""
    step = ClockStepped(NOON, NOON + timedelta(seconds=back))

    assert lifecycle.after_step(replace(SCHEDULED, clock_shift=shift), step).clock_shift == left


def test_who_approved_saw_and_left_is_kept_of_all() -> None:
    """Each name is added to those before."""
    event = replace(SCHEDULED, resources=("a", "b", "c"))
    for vm in ("x", "y"):
        event = lifecycle.after(event, Approved("e", NOON, Caller(CallerKind.VM, vm), counts=False))
    for vm in ("a", "b"):
        event = lifecycle.after(event, Approved("e", NOON, Caller(CallerKind.VM, vm)))
        event = lifecycle.fetched(event, Fetch("e", vm, NOON))
        event = lifecycle.without(event, vm)

    assert (event.neighbours, event.approvals, event.fetched_by) == (("x", "y"), ("a", "b"), ("a", "b"))
    assert (event.gone, event.vms) == (("a", "b"), ("c",))


def test_an_attempt_tells_when_it_began() -> None:
    """The last one."""
    later = NOON + timedelta(seconds=1)
    event = lifecycle.after(lifecycle.after(started(), Attempted("e", NOON)), Attempted("e", later))

    assert (event.attempts, event.attempted_at) == (2, later)


def test_an_event_knows_who_attempted_it_last_and_in_which_term() -> None:
    """After a change of leader this tells whether the driver may be called."""
    first = lifecycle.after(started(), lifecycle.attempt(started(), NOON, 3, "n1"))
    second = lifecycle.after(first, lifecycle.attempt(first, NOON, 4, "n2"))

    assert (first.attempt_term, first.attempt_node) == (3, "n1")
    assert (second.attempt_term, second.attempt_node) == (4, "n2")


def test_what_is_postponed_or_starts_waits_until_nothing() -> None:
    """Its turn is looked at again."""
    waiting = lifecycle.after(SCHEDULED, Waiting("e", NOON, "", until=NOON + timedelta(hours=1)))
    postponed = lifecycle.after(waiting, Postponed("e", NOON, ANN, 60, NOON + timedelta(seconds=60), ""))

    assert waiting.waits_until
    assert (postponed.waits_until, lifecycle.after(waiting, Started("e", NOON, "due")).waits_until) == (None, None)


@pytest.mark.parametrize(("seconds_left", "left"), [(1, 10), (0, 0), (-1, 0)])
def test_a_postponed_event_keeps_the_shift_of_the_clock_while_it_is_not_due(seconds_left: int, left: int) -> None:
    """The clock was ahead when it was announced; once it is due, the new time is the clock's own."""
    event = replace(SCHEDULED, clock_shift=10, not_before=NOON + timedelta(seconds=seconds_left))
    fact = Postponed("e", NOON, ANN, 60, NOON + timedelta(seconds=60), "")

    assert lifecycle.after(event, fact).clock_shift == left


def test_a_clock_that_is_set_forward_shifts_an_event() -> None:
    """By as much."""
    step = ClockStepped(NOON + timedelta(seconds=10), NOON)

    assert lifecycle.after_step(replace(SCHEDULED, clock_shift=5), step).clock_shift == 15
