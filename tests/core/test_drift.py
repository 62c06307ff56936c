"""What the fleet has otherwise than its file."""

from forewarn.core.declared_keys import RecordDifference, RecordKind
from forewarn.core.drift import find_drift
from forewarn.core.model import GroupKind, GroupTerms, Host
from forewarn.core.proposal import Proposal
from forewarn.core.reconcile import DesiredRecords
from tests.core.harness import FleetHarness

WEB = GroupTerms("web", GroupKind.AVAILABILITY_SET)


def test_without_a_declaration_nothing_differs() -> None:
    """There is nothing to differ from."""
    assert list(find_drift(FleetHarness("ann declares: host h1").fleet)) == []


def test_what_the_first_file_does_not_have_differs() -> None:
    """Hosts, groups and VMs that only commands made."""
    fleet = FleetHarness(
        "ann declares: host h1; group web availability-set; group db availability-set; vm a in web on h1"
    ).fleet

    assert set(map(_name, find_drift(fleet, {(RecordKind.GROUP, "web"): WEB}))) == {
        (RecordKind.HOST, "h1"),
        (RecordKind.GROUP, "db"),
        (RecordKind.VM, "a"),
    }


def test_what_the_plan_changes_does_not_differ_after_it() -> None:
    """Only what it leaves as it is does."""
    fleet = FleetHarness().fleet
    wanted: DesiredRecords = {(RecordKind.GROUP, "web"): WEB, (RecordKind.HOST, "h1"): Host("h1")}

    left = find_drift(fleet, wanted, Proposal(groups={"web": WEB}))

    assert list(left) == [RecordDifference(RecordKind.HOST, "h1", is_declared=True, is_present=False)]


FILE = "host h1; group web availability-set; vm a in web on h1; vm b in web on h1"


def test_what_commands_changed_since_the_file_differs() -> None:
    """What is missing or more in the fleet, and the keys of what both have, with the file's value first."""
    fleet = FleetHarness(
        f"ann applies: {FILE}", "ann declares: no vm b; vm c in web; group web availability-set approval=all"
    ).fleet

    assert sorted(find_drift(fleet), key=_name) == [
        RecordDifference(RecordKind.GROUP, "web", keys={"approval": ("any", "all")}),
        RecordDifference(RecordKind.VM, "b", is_declared=True, is_present=False),
        RecordDifference(RecordKind.VM, "c", is_declared=False, is_present=True),
    ]


def test_a_vm_that_was_moved_differs_by_its_host() -> None:
    """The file names the one on which it stood."""
    fleet = FleetHarness(f"ann applies: host h2; {FILE}", "ann records a on h2").fleet

    assert list(find_drift(fleet)) == [RecordDifference(RecordKind.VM, "a", keys={"host": ("h1", "h2")})]


def test_a_standalone_group_is_told_by_its_vm() -> None:
    """It comes and goes with the VM; where both are there, its own keys differ."""
    harness = FleetHarness(
        "ann applies: host h1; group s standalone; vm s in s; group t standalone; vm t in t",
        "ann declares: no vm s; group u standalone; vm u in u; group t standalone approval=all",
    )

    assert sorted(map(_name, find_drift(harness.fleet))) == [
        (RecordKind.GROUP, "t"),
        (RecordKind.VM, "s"),
        (RecordKind.VM, "u"),
    ]


def test_every_difference_is_told_after_a_standalone_group() -> None:
    """Such a group is passed over, the others are not."""
    fleet = FleetHarness("ann declares: group s standalone; vm s in s; group web availability-set").fleet

    assert (RecordKind.GROUP, "web") in set(map(_name, find_drift(fleet, {(RecordKind.HOST, "h1"): Host("h1")})))


def test_a_first_file_that_is_not_applied_yet_differs() -> None:
    """The fleet has no declaration, and the file is there to differ from."""
    wanted: DesiredRecords = {(RecordKind.HOST, "h1"): Host("h1")}

    assert list(map(_name, find_drift(FleetHarness().fleet, wanted))) == [(RecordKind.HOST, "h1")]


def _name(found: RecordDifference) -> tuple[RecordKind, str]:
    return found.kind, found.name
