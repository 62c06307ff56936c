"""Changes of the fleet that have no room in it."""

from forewarn.core.declared_keys import RecordKind
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.core.proposal import Proposal
from tests.core.harness import FleetHarness

LONE = GroupTerms("db", GroupKind.STANDALONE)


def test_the_first_vm_that_joins_a_standalone_group_is_in_the_way_of_the_others() -> None:
    """They are too many, and it is named as the reason."""
    change = Proposal(groups={"db": LONE}, vms={name: Vm(name, "db") for name in "abc"})

    found = [(each.kind, each.name, each.other) for each in change.conflicts(Fleet())]

    assert found == [(RecordKind.VM, "b", "a"), (RecordKind.VM, "c", "a")]


def test_the_vm_of_a_standalone_group_is_in_the_way_of_who_joins() -> None:
    """It was there first."""
    fleet = FleetHarness("ann declares: group db standalone; vm a in db").fleet

    (found,) = Proposal(vms={"b": Vm("b", "db")}).conflicts(fleet)

    assert (found.name, found.other) == ("b", "a")


def test_nothing_is_suggested_that_leaves_with_the_same_change() -> None:
    """Neither a group nor a host."""
    fleet = FleetHarness("ann declares: host rack1; group webs availability-set; group db availability-set").fleet
    change = Proposal(
        vms={"a": Vm("a", "web"), "b": Vm("b", "db", "rack")}, gone_groups={"webs": None}, gone_hosts={"rack1": None}
    )

    assert [each.said for each in change.conflicts(fleet) if each.kind is RecordKind.VM] == [
        "VM 'a': there is no group 'web'",
        "VM 'b': there is no host 'rack'",
    ]
