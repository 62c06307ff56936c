"""What operators do to VMs and hosts: times, ids and limits at their edges."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.commands import (
    HostOperation,
    ImpactResult,
    OperateHost,
    OperateVm,
    ReportPowerSwitch,
    VmOperation,
)
from forewarn.core.errors import LimitReached, Refused
from forewarn.core.facts import Announced, AnyFact, VmDeallocated, VmSwitched
from forewarn.core.model import NODE, Event, EventStatus
from forewarn.core.notice import Rules
from forewarn.core.operations import derive_id
from tests.core.harness import ANN, NOON, FleetHarness, kinds

FLEET = (
    "ann declares: host h1; group web availability-set; "
    "vm web-1 in web on h1 ud=1; vm web-0 in web on h1 ud=0; vm web-2 in web on h1 ud=0"
)
ID = str(UUID(int=77))


def freeze(
    not_before: datetime | None = None, duration: int | None = None, description: str | None = None
) -> OperateVm:
    return OperateVm(
        id=ID,
        by=ANN,
        operation=VmOperation.FREEZE,
        vm="web-0",
        not_before=not_before,
        duration=duration,
        description=description,
    )


def announced(facts: tuple[AnyFact, ...]) -> list[Event]:
    return [fact.event for fact in facts if isinstance(fact, Announced)]


def test_ids_come_from_the_command() -> None:
    """Event n of a command is uuid5(command id, n); the rules draw nothing."""
    command = OperateHost(id=ID, by=ANN, operation=HostOperation.FREEZE, host="h1")
    events = announced(FleetHarness(FLEET).give(command))

    assert [event.id for event in events] == [str(uuid5(UUID(ID), "0")), str(uuid5(UUID(ID), "1"))]
    assert [event.resources for event in events] == [("web-0", "web-2"), ("web-1",)]


def test_a_time_in_another_zone_is_kept_in_utc() -> None:
    """NotBefore is shown as GMT, so it must be that."""
    berlin = timezone(timedelta(hours=1))
    (event,) = announced(FleetHarness(FLEET).give(freeze((NOON + timedelta(hours=2)).astimezone(berlin))))

    assert event.not_before == NOON + timedelta(hours=2)
    assert event.not_before.tzinfo is UTC


@pytest.mark.parametrize(
    "time",
    [
        datetime(9999, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_a_time_beyond_the_calendar_is_refused(time: datetime) -> None:
    """Rounding it up, or moving it to UTC, would end beyond the last year."""
    with pytest.raises(Refused, match="too late"):
        FleetHarness(FLEET).give(freeze(time))


def test_a_time_before_the_calendar_is_refused() -> None:
    """The earliest of all times is too early, not an accident."""
    with pytest.raises(Refused, match="too early"):
        FleetHarness(FLEET).give(freeze(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))))


@pytest.mark.parametrize("duration", [-2, 7 * 24 * 3600 + 1])
def test_a_duration_that_makes_no_sense_is_refused(duration: int) -> None:
    """Seconds of interruption: none to a week, or unknown."""
    with pytest.raises(Refused, match="is not a valid duration"):
        FleetHarness(FLEET).give(freeze(duration=duration))


def test_what_is_given_stands_in_place_of_the_table() -> None:
    """Duration and description may be chosen; an empty description too."""
    (event,) = announced(FleetHarness(FLEET).give(freeze(duration=-1, description="")))

    assert (event.duration, event.description) == (-1, "")


def test_deallocated_vms_hear_nothing_of_their_host() -> None:
    """There is nothing to interrupt."""
    harness = FleetHarness(FLEET, "ann deallocates web-0", "ann deallocates web-1", "ann deallocates web-2")

    assert harness.say("ann freezes host h1") == ()


def test_a_deallocated_vm_can_still_be_deleted() -> None:
    """Every other operation asks for it to be started first."""
    harness = FleetHarness(FLEET, "ann deallocates web-0")

    for verb in ("restarts", "redeploys", "freezes", "evicts"):
        with pytest.raises(Refused, match="start it first"):
            harness.say(f"ann {verb} web-0")
    assert kinds(harness.say("ann deletes web-0")) == ["StartedAtOnce"]


def test_what_has_started_keeps_its_vm() -> None:
    """A VM is not deallocated while it is being impacted."""
    harness = FleetHarness(FLEET, "ann restarts web-0")

    with pytest.raises(Refused, match="which has started"):
        harness.say("ann deallocates web-0")


def test_the_limit_is_an_error_of_its_own() -> None:
    """The command line tells a reached limit from other refusals."""
    harness = FleetHarness(FLEET, "web-0 asks", "ann restarts web-0", rules=Rules(user_operation_limit=1))

    with pytest.raises(LimitReached):
        harness.say("ann restarts web-1")


def test_spot_vms_that_are_reclaimed_lose_their_other_events() -> None:
    """Each of them is canceled once."""
    harness = FleetHarness(
        "ann declares: group pool scale-set; vm pool-0 in pool spot", "ann freezes pool-0", "ann reclaims 1 spot VMs"
    )

    assert [event.operation.verb for event in harness.fleet.events.values()] == ["evict"]


@given(st.uuids(), st.integers(0, 10_000))
def test_an_event_has_the_id_that_follows_from_its_command(command: UUID, number: int) -> None:
    """It is the UUID of version 5 by RFC 9562, in the namespace of the command."""
    assert derive_id(str(command), number) == derive_id(command.hex, number) == str(uuid5(command, str(number)))


def test_an_event_is_described_by_the_table_unless_words_are_given() -> None:
    """They are one line."""
    (event,) = announced(FleetHarness(FLEET).give(freeze()))
    (given,) = announced(FleetHarness(FLEET).give(freeze(description="with care")))

    assert event.description == "Host server is undergoing maintenance."
    assert given.description == "with care"
    with pytest.raises(Refused, match="description"):
        FleetHarness(FLEET).give(freeze(description="two\nlines"))


def test_the_last_time_that_can_be_given() -> None:
    """A day later is refused."""
    last = datetime(9000, 1, 1, tzinfo=UTC)
    (event,) = announced(FleetHarness(FLEET).give(freeze(last)))

    assert event.not_before == last
    with pytest.raises(Refused):
        FleetHarness(FLEET).give(freeze(last + timedelta(seconds=1)))


def report(harness: FleetHarness, asked: str, result: ImpactResult, detail: str = "") -> tuple[AnyFact, ...]:
    return harness.give(ReportPowerSwitch(id="r", by=NODE, vm="web-0", asked=asked, result=result, detail=detail))


def test_what_the_driver_says_of_a_switch_is_recorded() -> None:
    """Also that it gave no reason; what it says of an earlier request is passed over."""
    harness = FleetHarness(FLEET, "ann deallocates web-0 by driver")
    asked = harness.fleet.power_requests["web-0"].id

    assert report(harness, "another", ImpactResult.DONE) == ()
    assert report(harness, asked, ImpactResult.FAILED) == (
        VmSwitched("web-0", asked, False, NOON, failure="the driver gave no reason"),
    )
    (again,) = harness.say("ann deallocates web-0 by driver")
    asked = harness.fleet.power_requests["web-0"].id
    assert isinstance(again, VmDeallocated)
    assert report(harness, asked, ImpactResult.DONE, "at once") == (
        VmSwitched("web-0", asked, False, NOON, detail="at once"),
    )


def test_a_switch_that_failed_is_asked_for_again_in_the_same_direction_only() -> None:
    """One that is under way is not."""
    harness = FleetHarness(FLEET, "ann deallocates web-0 by driver")
    assert harness.say("ann deallocates web-0 by driver") == ()

    report(harness, harness.fleet.power_requests["web-0"].id, ImpactResult.FAILED)
    assert kinds(harness.say("ann starts web-0 by driver")) == ["VmStarted"]
    report(harness, harness.fleet.power_requests["web-0"].id, ImpactResult.FAILED)
    assert kinds(harness.say("ann starts web-0 by driver")) == ["VmStarted"]


def test_a_vm_that_the_driver_could_not_start_may_be_started_on_a_cordoned_host() -> None:
    """It stands there already; one that was deallocated would come."""
    harness = FleetHarness(FLEET, "ann deallocates web-0", "ann starts web-0 by driver")
    report(harness, harness.fleet.power_requests["web-0"].id, ImpactResult.FAILED)
    harness.say("ann cordons host h1")

    assert kinds(harness.say("ann starts web-0 by driver")) == ["VmStarted"]


def test_vms_that_are_deleted_without_notice_do_not_count_for_the_limit() -> None:
    """It counts what is Scheduled, and they are Started at once."""
    harness = FleetHarness(
        "ann declares: group pool scale-set; vm pool_0 in pool; vm pool_1 in pool; vm pool_2 in pool",
        "ann scales pool in by 2",
        rules=Rules(user_operation_limit=1),
    )

    assert {event.status for event in harness.fleet.events.values()} == {EventStatus.STARTED}
    assert len(harness.fleet.events) == 2


def test_evictions_do_not_count_for_the_limit() -> None:
    """It is for what users ask for."""
    harness = FleetHarness(
        "ann declares: group pool scale-set; vm pool_0 in pool spot; vm pool_1 in pool spot",
        "ann reclaims 2 spot VMs",
        rules=Rules(user_operation_limit=1),
    )

    assert len(harness.fleet.events) == 2
