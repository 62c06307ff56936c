"""An event's story, from its announcement to its end."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args
from uuid import uuid4

import msgspec
import pytest

from forewarn.audit import timeline
from forewarn.audit.timeline import Timeline
from forewarn.control.bodies import TermsBody, VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.core import lifecycle
from forewarn.core.commands import Approve, ImpactResult, Postponement, ReportImpact
from forewarn.core.facts import Announced, Entry, EventChanged, Started, Waiting
from forewarn.core.model import (
    NODE,
    ApprovalRule,
    Caller,
    CallerKind,
    Event,
    EventSource,
    EventStatus,
    EventType,
    Operation,
)
from tests.core.harness import FleetHarness
from tests.harness import ApiHarness

SECOND = timedelta(seconds=1)
EVENT = Event(
    id="8a3c9f3e-0b1f-4c53-9a52-61bb3b8f4f6e",
    type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    group="web",
    resources=("web-0",),
    status=EventStatus.SCHEDULED,
    not_before=datetime(2026, 1, 1, tzinfo=UTC),
    announced_at=datetime(2026, 1, 1, tzinfo=UTC),
    operation=Operation.VM_FREEZE,
)


def announce(client: ControlClient, operation: Literal["restart", "freeze"], vm: str) -> str:
    return client.operate_vm(vm, VmOperationBody(operation=operation)).announcements[0].event.id


def tell(client: ControlClient, event: str) -> Timeline:
    return client.timeline(event)


def steps(result: Timeline) -> list[tuple[str, str]]:
    return [(step.what, step.by) for step in result.steps]


def approve(harness: ApiHarness, event: str, vm: str) -> None:
    harness.do(Approve(id=uuid4().hex, by=Caller(CallerKind.VM, vm), events=(event.lower(),)))


def test_a_story_tells_everything_in_order(harness: ApiHarness, client: ControlClient) -> None:
    """Scheduled, fetched, approved, started, attempted, completed: by whom, when and how long each took."""
    harness.enrol("web", "web-1")
    event = announce(client, "restart", "web-0")
    harness.clock.advance(2 * SECOND)
    harness.show(event.lower(), "web-1")
    harness.clock.advance(2 * SECOND)
    approve(harness, event, "web-1")
    harness.clock.advance(2 * SECOND)
    harness.finish(event.lower())

    result = tell(client, event)

    assert [what for what, _ in steps(result)] == [
        "Scheduled",
        "fetched",
        "approved",
        "Started",
        "attempted",
        "Completed",
    ]
    assert result.steps[0].detail == "vm restart, not before 2026-01-01T00:15:00Z (15m of notice)"
    assert [result.steps[number].by for number in (1, 2)] == ["web-1", "web-1"]
    assert result.steps[3].detail == "approved by web-1"
    assert result.seconds == {
        "until_fetched": 2,
        "until_approved": 4,
        "until_started": 4,
        "impact": 2,
        "whole": 6,
    }
    assert (result.status, result.source, result.operation, result.group) == (
        "Completed",
        "User",
        "vm restart",
        "web",
    )


def test_fetches_stand_where_they_happened_not_where_they_were_noted(
    harness: ApiHarness, client: ControlClient
) -> None:
    """Notes come in batches, later than what they tell of."""
    harness.enrol("web", "web-0")
    event = announce(client, "restart", "web-0")
    seen_at = harness.clock.now() + SECOND
    harness.clock.advance(5 * SECOND)
    approve(harness, event, "web-0")
    harness.show(event.lower(), "web-0", seen_at)

    assert [what for what, _ in steps(tell(client, event))] == ["Scheduled", "fetched", "approved", "Started"]


def test_a_fetch_is_told_also_when_it_was_noted_after_the_end(harness: ApiHarness, client: ControlClient) -> None:
    """An event may be over before the next batch of notes is written."""
    harness.enrol("web", "web-0")
    event = announce(client, "restart", "web-0")
    seen_at = harness.clock.now() + SECOND
    harness.clock.advance(5 * SECOND)
    approve(harness, event, "web-0")
    harness.finish(event.lower())
    harness.show(event.lower(), "web-0", seen_at)

    assert ("fetched", "web-0") in steps(tell(client, event))


def test_an_approval_that_does_not_count_is_told_as_such(harness: ApiHarness, client: ControlClient) -> None:
    """Where every VM must approve for itself, a neighbour's word is recorded and starts nothing."""
    client.set_terms("web", TermsBody(approval=ApprovalRule.ALL))
    harness.enrol("web", "web-1")
    event = announce(client, "restart", "web-0")

    approve(harness, event, "web-1")

    result = tell(client, event)
    assert result.steps[-1].what == "approved"
    assert "does not count" in result.steps[-1].detail
    assert result.status == "Scheduled"


def test_waiting_names_the_event_that_is_waited_for(client: ControlClient) -> None:
    """An event that may start but has no turn yet says behind whom it stands."""
    first, second = announce(client, "freeze", "web-0"), announce(client, "freeze", "web-1")
    client.approve(first)

    result = client.approve(second)

    assert result.announcements[0].waits_for == first
    assert tell(client, second).steps[-1].detail == f"until event {first} has ended"


def test_a_postponement_is_told_with_its_reason(harness: ApiHarness, client: ControlClient) -> None:
    """Who asked for more time, and until when it has it now."""
    client.set_terms("web", TermsBody(postpone_limit=600))
    harness.enrol("web", "web-0")
    event = announce(client, "restart", "web-0")
    more = Postponement(event.lower(), 300, "a backup runs")

    harness.do(Approve(id=uuid4().hex, by=Caller(CallerKind.VM, "web-0"), postponements=(more,)))

    result = tell(client, event)
    assert result.steps[-1].what == "postponed"
    assert result.steps[-1].detail == "now not before 2026-01-01T00:20:00Z: a backup runs"
    assert result.not_before == harness.clock.now() + timedelta(minutes=20)


def test_quiet_hours_that_are_waited_for_are_told(harness: ApiHarness, client: ControlClient) -> None:
    """With the time at which they are over."""
    client.set_terms("web", TermsBody(quiet_hours=("22:00-06:00",)))
    event = announce(client, "freeze", "web-0")

    result = client.approve(event)

    assert result.announcements[0].waits_until == harness.clock.now() + timedelta(hours=6)
    assert tell(client, event).steps[-1].detail == "until 2026-01-01T06:00:00Z, when the group's quiet hours are over"


def test_a_window_that_is_waited_for_names_its_rollout() -> None:
    """An event of a rollout may wait for quiet hours or for a window."""
    now, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    event = msgspec.structs.replace(EVENT, rollout="kernel")
    entries = [Entry(1, now, "c", NODE, (Announced(event), Waiting(event.id, now, "", until=later)))]

    result = timeline.build_timeline(event.id, entries)

    assert result is not None
    window = (
        "until 2026-01-02T00:00:00Z, when the group's quiet hours are over, and a window of rollout kernel is open"
    )
    assert result.steps[-1].detail == window


def test_an_event_born_started_says_why(client: ControlClient) -> None:
    """No notice was owed, and the story tells the reason."""
    result = tell(client, announce(client, "restart", "web-0"))

    assert [what for what, _ in steps(result)] == ["Scheduled", "Started"]
    assert result.steps[1].detail == "at once: the group is off: none of its VMs asks"


def test_a_failure_and_a_cancellation_are_told_with_their_reasons(harness: ApiHarness, client: ControlClient) -> None:
    """How it ended, in the words of who ended it."""
    failed = announce(client, "restart", "web-0")
    report = ReportImpact(
        id=uuid4().hex, by=NODE, event=failed.lower(), result=ImpactResult.FAILED, detail="no power"
    )
    harness.attempt(failed.lower())
    harness.do(report)
    canceled = announce(client, "freeze", "web-1")
    client.cancel(canceled)

    assert tell(client, failed).steps[-1].detail == "no power"
    assert "canceled by" in tell(client, canceled).steps[-1].detail
    assert (tell(client, failed).status, tell(client, canceled).status) == ("Failed", "Canceled")


def test_a_second_attempt_is_told_as_such(harness: ApiHarness, client: ControlClient) -> None:
    """After a crash the driver may be called again."""
    event = announce(client, "restart", "web-0")
    harness.attempt(event.lower())
    harness.attempt(event.lower())

    assert [step.detail for step in tell(client, event).steps[-2:]] == [
        "the driver was called",
        "the driver was called, attempt 2",
    ]


def test_an_attempt_names_its_leader(harness: ApiHarness, client: ControlClient) -> None:
    """Where several nodes share the journal, the record tells which of them called the driver."""
    event = announce(client, "restart", "web-0")
    harness.attempt(event.lower(), 3, "n1")
    harness.attempt(event.lower(), 4, "n2")

    assert [step.detail for step in tell(client, event).steps[-2:]] == [
        "the driver was called by node n1 in term 3",
        "the driver was called by node n2 in term 4, attempt 2",
    ]


def test_a_story_whose_beginning_is_gone_is_not_told() -> None:
    """What the journal no longer holds cannot be made up."""
    assert timeline.build_timeline("8a3c9f3e-0b1f-4c53-9a52-61bb3b8f4f6e", []) is None


def test_facts_of_other_events_are_left_out(harness: ApiHarness, client: ControlClient) -> None:
    """One entry may hold the facts of many."""
    first, second = announce(client, "freeze", "web-0"), announce(client, "freeze", "web-1")
    both = (first.lower(), second.lower())
    harness.do(Approve(id=uuid4().hex, by=Caller(CallerKind.OPERATOR, "ada"), events=both))

    assert [what for what, _ in steps(tell(client, first))] == ["Scheduled", "approved", "Started"]
    assert [what for what, _ in steps(tell(client, second))] == ["Scheduled", "approved", "waiting"]


@pytest.mark.parametrize("kind", get_args(EventChanged), ids=lambda kind: kind.__name__)
def test_every_fact_of_an_events_life_is_a_step_of_its_story(kind: type[EventChanged]) -> None:
    """A fact that is added to the rules is not forgotten here."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    known: dict[str, Any] = {"event": EVENT.id, "at": now, "not_before": now, "by": NODE, "seconds": 1}
    fields = {field.name: known.get(field.name, "") for field in msgspec.structs.fields(kind) if field.required}
    is_of_started = lifecycle.allows(EventStatus.STARTED, kind)
    before = (Announced(EVENT), *((Started(EVENT.id, now, "due"),) if is_of_started else ()))
    entries = [
        Entry(1, now, "command", NODE, before),
        Entry(2, now, "command", NODE, (kind(**fields),)),
    ]

    result = timeline.build_timeline(EVENT.id, entries)

    assert result is not None
    assert len(result.steps) == len(before) + 1


def test_a_story_tells_how_far_the_impact_is(harness: ApiHarness, client: ControlClient) -> None:
    """What the driver says is told as long as it is true."""
    event = announce(client, "restart", "web-0")
    harness.node.progress[event.lower()] = "shutting down"
    assert tell(client, event).progress == "shutting down"

    harness.node.progress.clear()
    assert tell(client, event).progress == ""


def test_a_move_names_its_target() -> None:
    """It is known before it has ended."""
    harness = FleetHarness("ann declares: host h1; host h2; group web availability-set; vm web-0 in web on h1")
    facts = harness.say("ann moves web-0 to h2 live")
    (event,) = harness.fleet.events.values()
    result = timeline.build_timeline(event.id, [Entry(1, event.announced_at, "c", NODE, facts)])

    assert result is not None
    assert (result.host, result.target) == ("h1", event.target)
    assert event.target
