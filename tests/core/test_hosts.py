"""Hosts that fail or are in maintenance, and the events of their VMs."""

import pytest

from forewarn.core.commands import SetMaintenance
from forewarn.core.errors import Refused
from forewarn.core.facts import Announced, AnyFact, VmMoved
from forewarn.core.model import Event, EventStatus, EventType, HostState
from tests.core.harness import ANN, FleetHarness, kinds

FLEET = "ann declares: host h1; host h2; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1"
STORY = (FLEET, "ann freezes host h1", "the driver sees web-1 moved to h2")


def test_maintenance_of_a_host_that_fails_is_canceled() -> None:
    """Also where one of its VMs stands elsewhere by then."""
    harness = FleetHarness(*STORY)
    harness.say("ann fails host h1")

    assert harness.id("E1") not in harness.fleet.events


def test_maintenance_of_another_host_stays_while_one_of_its_vms_is_there() -> None:
    """Only the VM that was moved to the failed host is lost to it."""
    harness = FleetHarness(*STORY)
    harness.say("ann fails host h2")

    assert harness.fleet.events[harness.id("E1")].status is EventStatus.SCHEDULED


def test_only_a_redeploy_is_done_live() -> None:
    """A reboot restarts the VMs, whatever the driver can do."""
    (event,) = announced(FleetHarness(FLEET).say("ann reboots host h1 live"))
    (live,) = announced(FleetHarness(FLEET).say("ann redeploys host h1 live"))

    assert (event.type, live.type) == (EventType.REBOOT, EventType.FREEZE)


def test_only_vms_without_an_event_are_announced_one_for_a_host_that_degrades_again() -> None:
    """Those that came since; who left it hears nothing of it."""
    harness = FleetHarness(FLEET, "ann degrades host h1", "the driver sees web-0 moved to h2")
    assert announced(harness.say("ann degrades host h1")) == []

    harness = FleetHarness(FLEET, "ann degrades host h1", "ann declares: vm web-2 in web on h1")
    (event,) = announced(harness.say("ann degrades host h1"))
    assert event.resources == ("web-2",)


def test_a_nearer_prediction_brings_forward_what_is_scheduled_and_later() -> None:
    """What is as near stays as it is, and so does what has started."""
    first = "ann degrades host h1 not before 14:00:00"
    assert kinds(FleetHarness(FLEET, first).say("ann degrades host h1")) == ["BroughtForward"]
    assert kinds(FleetHarness(FLEET, first).say(first)) == []
    assert kinds(FleetHarness(FLEET, first, "ann approves E1").say("ann degrades host h1")) == []


def test_a_move_that_ended_with_its_own_host_is_not_canceled_again() -> None:
    """It stood on the host that failed, and was to go there as well."""
    harness = FleetHarness(FLEET, "ann moves web-0 to h2 live")
    harness.fleet.evolve(VmMoved("web-0", "h2"))

    assert kinds(harness.say("ann fails host h2")).count("Canceled") == 1


def test_every_event_on_a_host_that_fails_ends() -> None:
    """Also one of a VM that shares another event."""
    harness = FleetHarness(
        "ann declares: host h1; group web availability-set; vm a in web on h1; vm b in web on h1",
        "ann freezes host h1",
        "ann freezes b",
    )

    assert kinds(harness.say("ann fails host h1")).count("Canceled") == 2


def announced(facts: tuple[AnyFact, ...]) -> list[Event]:
    return [fact.event for fact in facts if isinstance(fact, Announced)]


ONE_VM = "ann declares: host h1; host h2; group web availability-set; vm web-0 in web on h1"


def set_maintenance(
    harness: FleetHarness, *, is_in_maintenance: bool = True, host: str = "h1"
) -> tuple[AnyFact, ...]:
    return harness.give(SetMaintenance(id="c", by=ANN, host=host, is_in_maintenance=is_in_maintenance))


def test_a_host_in_maintenance_is_cordoned() -> None:
    """The end leaves the cordon; what is so already is no fact."""
    harness = FleetHarness(ONE_VM)

    assert kinds(set_maintenance(harness)) == ["HostCordonSet", "HostStateSet"]
    assert set_maintenance(harness) == ()
    assert harness.fleet.state_of("h1") is HostState.MAINTENANCE
    assert kinds(set_maintenance(harness, is_in_maintenance=False)) == ["HostStateSet"]
    assert set_maintenance(harness, is_in_maintenance=False) == ()
    assert harness.fleet.state_of("h1") is HostState.UP
    assert list(harness.fleet.cordoned) == ["h1"]
    assert kinds(set_maintenance(harness)) == ["HostStateSet"]


def test_a_host_in_maintenance_is_not_uncordoned_or_degraded() -> None:
    """The refusal says how to end it."""
    harness = FleetHarness(ONE_VM)
    set_maintenance(harness)

    for sentence in ("ann uncordons host h1", "ann degrades host h1"):
        with pytest.raises(Refused, match="in maintenance; end that first: forewarn host exit-maintenance h1"):
            harness.say(sentence)


def test_maintenance_of_a_degraded_host_repairs_it() -> None:
    """What is Scheduled because it was expected to fail is canceled at the end."""
    harness = FleetHarness(ONE_VM, "ann degrades host h1")
    set_maintenance(harness)

    assert kinds(set_maintenance(harness, is_in_maintenance=False)) == ["Canceled", "HostStateSet"]
    assert harness.fleet.state_of("h1") is HostState.UP


def test_a_host_that_fails_is_in_maintenance_no_more() -> None:
    """And a failed one does not enter it."""
    harness = FleetHarness(ONE_VM)
    set_maintenance(harness)
    harness.say("ann fails host h1")

    assert harness.fleet.state_of("h1") is HostState.FAILED
    with pytest.raises(Refused, match="has failed"):
        set_maintenance(harness)


def test_a_host_that_is_to_receive_vms_does_not_enter_maintenance() -> None:
    """As it cannot be cordoned."""
    harness = FleetHarness(ONE_VM, "ann moves web-0 to h2 by driver")
    with pytest.raises(Refused, match="moves VMs to h2"):
        set_maintenance(harness, host="h2")
