"""Whose turn it is: which events may be Started together."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation
from forewarn.core.turns import _Ahead, _order, earliest_start, takes_turns
from forewarn.simulator.words import read_time
from tests.core.harness import NOON, FleetHarness

FREEZE = Event(
    id="one",
    type=EventType.FREEZE,
    source=EventSource.PLATFORM,
    group="web",
    resources=("web-0",),
    status=EventStatus.SCHEDULED,
    not_before=NOON,
    announced_at=NOON,
    operation=Operation.HOST_FREEZE,
)
OTHER = replace(FREEZE, id="other", resources=("web-1",))


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (FREEZE, OTHER, True),
        (FREEZE, replace(OTHER, update_domain=1), False),
        (FREEZE, replace(OTHER, fault_domain=1), False),
        (FREEZE, replace(OTHER, fault_domain=None), False),
        (replace(FREEZE, fault_domain=None), replace(OTHER, fault_domain=None), False),
        (FREEZE, replace(OTHER, resources=("web-0", "web-1")), False),
        (FREEZE, replace(OTHER, update_domain=1, source=EventSource.USER), True),
        (FREEZE, replace(OTHER, update_domain=1, type=EventType.PREEMPT), True),
        (FREEZE, replace(OTHER, update_domain=1, operation=Operation.HOST_DEGRADE, type=EventType.REDEPLOY), False),
        (FREEZE, replace(OTHER, resources=("web-0", "web-1"), gone=("web-0",)), True),
    ],
)
def test_who_may_run_together(one: Event, other: Event, *, together: bool) -> None:
    """Maintenance shares both domains or takes turns; nothing shares a VM; it is the same both ways."""
    for first, second in ((one, other), (other, one)):
        ahead = _Ahead()
        ahead.add(first)

        assert (ahead.blocker_of(second) is None) is together


@pytest.mark.parametrize("operation", [Operation.HOST_FAIL, Operation.VM_FAIL])
def test_a_failure_waits_for_nobody_and_maintenance_waits_for_it(operation: str) -> None:
    """Else maintenance would take down a second domain while the first is down; within one it may go on."""
    failure = replace(OTHER, update_domain=1, operation=operation, type=EventType.REDEPLOY)
    ahead = _Ahead()
    ahead.add(failure)

    assert ahead.blocker_of(FREEZE) is failure
    assert ahead.blocker_of(replace(FREEZE, update_domain=1)) is None
    assert ahead.blocker_of(replace(failure, id="another", resources=("web-2",), update_domain=2)) is None


@pytest.mark.parametrize("type_", [EventType.PREEMPT, EventType.TERMINATE])
def test_what_ends_a_vm_takes_no_turns(type_: EventType) -> None:
    """Evictions and deletes are no maintenance."""
    assert not takes_turns(replace(FREEZE, type=type_))


def test_what_starts_first() -> None:
    """Preempt starts before Terminate, Terminate before user operations, those before platform maintenance."""
    later = NOON + timedelta(hours=1)
    maintenance = FREEZE
    restart = replace(FREEZE, type=EventType.REBOOT, source=EventSource.USER, operation=Operation.VM_RESTART)
    terminate = replace(restart, type=EventType.TERMINATE, not_before=later)
    preempt = replace(FREEZE, type=EventType.PREEMPT, not_before=later)

    late = replace(restart, not_before=later)

    ordered = sorted([maintenance, late, restart, terminate, preempt], key=_order)

    assert ordered == [preempt, terminate, restart, late, maintenance]


QUIET = "ann declares: host h1; group web availability-set quiet_hours=22:00-06:00; vm web-0 in web on h1"


@pytest.mark.parametrize(
    ("not_before", "now", "start"),
    [
        ("23:00:00", "12:00:00", "Tue 06:00:00"),
        ("21:00:00", "12:00:00", None),
        ("21:00:00", "23:00:00", "Tue 06:00:00"),
    ],
    ids=["announced into them", "announced before them", "waits in them"],
)
def test_quiet_hours_say_when_maintenance_can_start(not_before: str, now: str, start: str | None) -> None:
    """By the later of NotBefore and now."""
    harness = FleetHarness(QUIET, f"ann freezes web-0 not before {not_before}")
    (event,) = harness.fleet.events.values()

    assert earliest_start(harness.fleet, event, read_time(now)) == (read_time(start) if start else None)


def test_quiet_hours_say_nothing_of_what_has_started_or_takes_no_turns() -> None:
    """Nor of a group that is gone."""
    harness = FleetHarness(QUIET, "ann freezes web-0 not before 23:00:00")
    (event,) = harness.fleet.events.values()
    others = [
        replace(event, status=EventStatus.STARTED),
        replace(event, source=EventSource.USER),
        replace(event, group="gone"),
    ]

    assert [earliest_start(harness.fleet, other, NOON) for other in others] == [None] * 3


def test_an_event_that_is_not_ready_any_more_does_not_wait_for_the_end_of_quiet_hours() -> None:
    """Here its approval is no longer enough."""
    harness = FleetHarness(f"{QUIET}; vm web-1 in web on h1", "ann freezes host h1 not before 23:30:00")
    harness.say("web-0 approves E1", "23:00:00")
    assert harness.fleet.events[harness.id("E1")].waits_until is not None

    harness.say("ann sets web approval=all", "23:00:00")
    assert harness.fleet.events[harness.id("E1")].waits_until is None
