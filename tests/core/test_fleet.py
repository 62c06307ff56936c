"""The fleet as the fold of its facts."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind
from forewarn.core.facts import (
    Asked,
    Canceled,
    Entry,
    Fetch,
    Fetched,
    FleetChanged,
    Mark,
    ObservationRecorded,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
)
from forewarn.core.fleet import Fleet
from forewarn.core.fleet_records import EPOCH
from forewarn.core.model import (
    Observation,
    ObservationKind,
    Vm,
)
from tests.core.harness import ANN, NOON, FleetHarness
from tests.core.invariant_checker import packed

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group db standalone; "
    "vm web-0 in web on h1 address=10.0.0.1; vm web-1 in web on h1 ud=1; vm web-2 in web on h2; vm db-0 in db"
)


def test_an_entry_sets_the_time_of_the_last_fact() -> None:
    """The time that the rules are given never falls below it."""
    fleet = Fleet()
    assert fleet.last_at == EPOCH
    fleet.enter(Entry(1, NOON, "c", ANN, ()))

    assert fleet.last_at == NOON


def test_notes_on_what_has_ended_or_left_change_nothing() -> None:
    """A fetch or a mark may be recorded after its event or group is gone."""
    fleet = FleetHarness(FLEET).fleet
    before = packed(fleet)
    fleet.evolve(Fetched((Fetch("gone", "web-0", NOON),)))
    fleet.evolve(Asked((Mark("gone", NOON, "web-0"),)))

    assert packed(fleet) == before


def test_a_vm_stands_on_one_host_at_a_time() -> None:
    """A move takes it from the one and puts it on the other."""
    fleet = FleetHarness(FLEET).fleet
    fleet.evolve(VmMoved("web-0", "h2"))

    assert fleet.vms_on("h1") == ("web-1",)
    assert fleet.vms_on("h2") == ("web-2", "web-0")


def test_a_new_group_goes_on_from_the_highest_incarnation_that_left() -> None:
    """No incarnation of a name ever shows two things, even if another group bore the name."""
    harness = FleetHarness(FLEET, "ann restarts db-0", "the driver is done with E1", "ann declares: no vm db-0")
    harness.say("ann declares: group db availability-set; group new availability-set")

    assert harness.fleet.groups["db"].incarnation == 4
    assert harness.fleet.groups["new"].incarnation == 4


def test_a_group_that_never_showed_anything_raises_nobody() -> None:
    """Fleets that only come and go keep their first incarnation."""
    harness = FleetHarness(FLEET, "ann declares: no vm db-0", "ann declares: group db standalone; vm db-0 in db")

    assert harness.fleet.groups["db"].incarnation == 1


def test_every_declaration_is_a_change_of_its_own() -> None:
    """Who computed a difference before it is told to look again, also after a change of terms."""
    harness = FleetHarness(FLEET)
    assert harness.fleet.changes == 1
    harness.say("ann sets web approval=all")

    assert harness.fleet.changes == 2


def test_an_event_that_is_brought_forward_is_a_visible_change() -> None:
    """VMs that compare incarnations see the nearer NotBefore."""
    harness = FleetHarness(FLEET, "ann degrades host h2 not before Sun 12:00:00")
    before = harness.fleet.groups["web"].incarnation
    harness.say("ann degrades host h2 not before Wed 12:00:00")

    assert harness.fleet.groups["web"].incarnation == before + 1


def test_a_user_operation_counts_once_until_it_starts() -> None:
    """Whatever is said of it before."""
    harness = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=2; vm web-0 in web; vm web-1 in web",
        "web-0 asks",
        "ann restarts web-0",
        "web-0 approves E1",
    )
    assert harness.fleet.user_operations == 1
    harness.say("web-1 approves E1")

    assert harness.fleet.user_operations == 0


def test_evictions_are_forgotten_one_by_one() -> None:
    """Each a day after it happened."""
    harness = FleetHarness(FLEET, "ann freezes web-1")
    for hours in (0, 1):
        harness.fleet.evolve(VmDeallocated("web-0", "evicted", NOON + timedelta(hours=hours)))
    harness.fleet.evolve(Canceled(harness.id("E1"), NOON + timedelta(hours=24), "canceled"))

    assert [each.at for each in harness.fleet.evictions] == [NOON + timedelta(hours=1)]


def test_a_crash_is_forgotten_with_its_vm_and_when_it_is_switched() -> None:
    """That of a VM which is not in the fleet is not kept."""
    fleet = FleetHarness(FLEET).fleet
    for vm in ("web-0", "web-1", "web-2", "gone"):
        fleet.evolve(ObservationRecorded(Observation(vm, ObservationKind.CRASHED, NOON)))
    assert fleet.crashed.keys() == {"web-0", "web-1", "web-2"}

    fleet.evolve(VmRemoved("web-0", "deleted"))
    fleet.evolve(VmDeallocated("web-1", "deallocated"))
    assert fleet.crashed.keys() == {"web-2"}


def test_a_switch_that_nobody_asks_the_driver_for_ends_the_one_before() -> None:
    """Only the last word counts."""
    fleet = FleetHarness(FLEET, "ann deallocates web-0 by driver").fleet
    assert "web-0" in fleet.power_requests

    fleet.evolve(VmStarted("web-0"))
    assert "web-0" not in fleet.power_requests


def test_a_failure_of_a_switch_that_is_over_is_passed_over() -> None:
    """There is no request to note it with."""
    fleet = FleetHarness(FLEET).fleet
    fleet.evolve(VmSwitched("web-0", "r", True, NOON, failure="no"))

    assert fleet.power_requests == {}


@pytest.mark.parametrize("change", ["group=db", "ud=3", "fd=3", "on h2"])
def test_a_vm_that_changes_its_place_leaves_its_events(change: str) -> None:
    """Any of its group, host and domains."""
    harness = FleetHarness(FLEET, "ann freezes host h1")
    vm = harness.fleet.vms["web-0"]
    moved = {
        "group=db": replace(vm, group="db"),
        "ud=3": replace(vm, update_domain=3),
        "fd=3": replace(vm, fault_domain=3),
        "on h2": replace(vm, host="h2"),
    }[change]
    harness.fleet.evolve(FleetChanged(vms=(moved,)))

    assert all("web-0" not in event.vms for event in harness.fleet.events.values())


def test_a_group_that_showed_an_event_leaves_its_incarnation_behind() -> None:
    """One that comes back under its name must not repeat it; the first only ever showed nothing."""
    for sentences, retired in (((), 0), (("ann freezes db-0",), 2)):
        fleet = FleetHarness(FLEET, *sentences).fleet
        fleet.evolve(FleetChanged(removed_vms=("db-0",)))

        assert fleet.retired_incarnation == retired


@pytest.mark.parametrize(
    "change", [FleetChanged(vms=(Vm("n", "web"),)), FleetChanged(removed_vms=("web-0",))], ids=["added", "removed"]
)
def test_a_vm_that_comes_or_goes_has_no_held_change_any_more(change: FleetChanged) -> None:
    """It was of the VM before, or of one that was to come."""
    fleet = FleetHarness(FLEET).fleet
    fleet.last_applied.hold(HeldChange(RecordKind.VM, name, HoldReason.EVENT) for name in ("n", "web-0"))
    fleet.evolve(change)

    assert len(fleet.last_applied.held) == 1


def test_the_deallocated_vms_of_each_group_are_counted() -> None:
    """Whatever becomes of them; a group without any is not there."""
    harness = FleetHarness(
        "ann declares: host h1; group web availability-set; group db availability-set; "
        "vm a in web on h1; vm b in web on h1; vm c in web on h1",
        "ann deallocates a",
        "ann deallocates b",
        "ann deallocates b",
    )
    assert harness.fleet.stopped == {"web": 2}
    assert Fleet.restore(harness.fleet.parts()).stopped == {"web": 2}
    harness.say("ann starts a")
    assert harness.fleet.stopped == {"web": 1}
    harness.say("ann declares: no vm b")
    assert harness.fleet.stopped == {}
