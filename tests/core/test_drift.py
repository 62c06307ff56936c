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


def _name(found: RecordDifference) -> tuple[RecordKind, str]:
    return found.kind, found.name
