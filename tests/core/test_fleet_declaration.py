"""Fleets from before declarations were recorded, and what a first file makes of them."""

import pytest

from forewarn.core.declared_keys import RecordKind
from forewarn.core.errors import Refused
from forewarn.core.facts import FleetChanged, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Host, Vm
from tests.core.harness import FleetHarness

BEFORE = FleetChanged(
    hosts=(Host("h1"),),
    groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),),
    vms=(Vm("a", "web", "h1"), Vm("b", "web", "h1")),
)
FILE = "host h1; group web availability-set; vm a in web on h1 address=10.0.0.1; vm c in web on h1"


def earlier() -> FleetHarness:
    """A fleet that an earlier release made."""
    harness = FleetHarness()
    harness.fleet.evolve(BEFORE)
    return harness


@pytest.mark.parametrize("sentence", [f"the service starts with: {FILE}", f"ann applies: {FILE}"])
def test_the_first_file_is_recorded_and_changes_nothing(sentence: str) -> None:
    """What was declared before is not known, so nothing is known to have changed."""
    harness = earlier()

    (fact,) = harness.say(sentence)

    assert isinstance(fact, FleetDeclared)
    assert harness.fleet.vms.keys() == {"a", "b"}
    assert harness.fleet.last_applied.differing[RecordKind.VM] == {
        "a": Vm("a", "web", "h1", address="10.0.0.1"),
        "b": None,
        "c": Vm("c", "web", "h1"),
    }


def test_exact_removes_the_differences() -> None:
    """Also when the file is the same."""
    harness = earlier()
    harness.say(f"ann applies: {FILE}")
    harness.say(f"ann applies: {FILE}; exact")

    assert harness.fleet.vms.keys() == {"a", "c"}
    assert harness.fleet.vms["a"].address == "10.0.0.1"
    assert not any(harness.fleet.last_applied.differing.values())


def test_a_snapshot_of_an_earlier_release_has_no_declaration() -> None:
    """It is recognised by that, and stays so until a file is applied."""
    fleet = Fleet.restore(earlier().fleet.parts())

    assert fleet.last_applied.is_missing
    assert not Fleet.restore(FleetHarness(f"ann applies: {FILE}").fleet.parts()).last_applied.is_missing


def test_vms_that_only_commands_made_are_no_declaration() -> None:
    """A first file adds what it has, adopts what is there, and leaves the rest."""
    harness = FleetHarness("ann declares: host h1; group web availability-set; vm a in web on h1; vm b in web on h1")
    harness.say(f"ann applies: {FILE}")

    assert harness.fleet.vms.keys() == {"a", "b", "c"}
    assert harness.fleet.vms["a"].address == "10.0.0.1"
    assert harness.fleet.declared(RecordKind.VM, "b") is None


def test_a_stale_file_is_refused() -> None:
    """It names the declaration that it was compared with."""
    harness = FleetHarness(f"ann applies: {FILE}")
    with pytest.raises(Refused, match="revision 1, not 7"):
        harness.say(f"ann applies: {FILE}; having seen declaration 7")


FIVE = "host h1; group web availability-set; " + "; ".join(f"vm {name} in web on h1" for name in "abcde")


def test_removals_that_an_event_holds_count_as_removals_too() -> None:
    """A start must not remove the fleet in two steps: one VM now, and the other when its event ends."""
    harness = FleetHarness(f"ann applies: {FIVE}", "ann freezes a")
    harness.say("the service starts with: " + FIVE.replace("vm a in web on h1; vm b in web on h1; ", ""))

    assert harness.fleet.vms.keys() == set("abcde")
    assert harness.fleet.last_applied.guarded.keys() == {(RecordKind.VM, "a"), (RecordKind.VM, "b")}


def test_a_held_change_of_a_group_names_the_event_announced_first() -> None:
    """It is the one that ends first, as a rule."""
    harness = FleetHarness(f"ann applies: {FIVE}", "ann freezes a", "ann freezes b")
    harness.say(f"the service starts with: {FIVE.replace('availability-set', 'scale-set')}")

    assert [held.because for held in harness.fleet.last_applied.held] == [harness.id("E1")]


def test_exact_removes_hosts_and_groups_that_only_commands_made() -> None:
    """Also with the first file."""
    harness = FleetHarness("ann declares: host h1; host h2; group web availability-set; group db availability-set")
    harness.say("ann applies: host h1; group web availability-set; exact")

    assert harness.fleet.hosts.keys() == {"h1"}
    assert harness.fleet.groups.keys() == {"web"}


def test_what_a_guarded_vm_is_in_the_way_of_waits_for_the_operator_too() -> None:
    """The address that the file gives to another VM becomes free when the operator agrees to the removal."""
    vms = [f"vm {name} in web on h1 address=10.0.0.{number}" for number, name in enumerate("abcd")]
    places = "host h1; group web availability-set"
    harness = FleetHarness(f"ann applies: {'; '.join([places, *vms])}")
    harness.say(f"the service starts with: {'; '.join([places, *vms[:2]])}")
    harness.say(f"the service starts with: {'; '.join([places, *vms[:2], 'vm e in web on h1 address=10.0.0.2'])}")

    assert (RecordKind.VM, "e") in harness.fleet.last_applied.waiting


@pytest.mark.parametrize(
    ("sentence", "at_run_time"), [("ann applies: host h1", False), ("ann declares: host h1", True)]
)
def test_a_change_tells_whether_a_file_or_a_command_made_it(sentence: str, *, at_run_time: bool) -> None:
    """A fleet without files is told by that from one of an earlier release."""
    (change, *_) = FleetHarness().say(sentence)

    assert isinstance(change, FleetChanged)
    assert change.at_run_time is at_run_time


def test_a_held_change_is_carried_out_alone() -> None:
    """What was changed at run time meanwhile stays."""
    harness = FleetHarness(
        "ann applies: host h1; group web availability-set; vm a in web on h1",
        "ann freezes a",
        "the service starts with: host h1; group web availability-set; vm a in web on h1 ud=1",
        "ann declares: vm a in web on h1 address=10.0.0.9",
        "ann cancels E1",
    )

    assert (harness.fleet.vms["a"].update_domain, harness.fleet.vms["a"].address) == (1, "10.0.0.9")


def test_a_host_that_is_gone_already_may_leave_the_file() -> None:
    """Nothing is left to be removed."""
    harness = FleetHarness("ann applies: host h1; host h2", "ann declares: no host h2")
    harness.say("ann applies: host h1")

    assert harness.fleet.hosts.keys() == {"h1"}
