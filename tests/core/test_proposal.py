"""Changes of the fleet that have no room in it."""

import pytest

from forewarn.core.declared_keys import RecordKind
from forewarn.core.errors import Refused
from forewarn.core.facts import FleetChanged
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


def test_names_that_earlier_releases_let_stand_side_by_side_stay() -> None:
    """They differ only in case; a change that does not concern them is not refused for them."""
    harness = FleetHarness()
    harness.fleet.evolve(
        FleetChanged(groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),), vms=(Vm("a", "web"), Vm("A", "web")))
    )
    harness.say("ann declares: vm b in web")

    assert harness.fleet.vms.keys() == {"a", "A", "b"}


@pytest.mark.parametrize("sentence", ["ann cordons host h1", "ann fails host h1"])
def test_a_host_that_leaves_is_told_of_once(sentence: str) -> None:
    """That it is gone is enough; nobody can uncordon or repair it then."""
    harness = FleetHarness("ann declares: host h1; group web availability-set", sentence)

    with pytest.raises(Refused) as refused:
        harness.say("ann declares: vm a in web on h1; no host h1")
    assert "there is no host 'h1'" in str(refused.value)
    assert "cordoned" not in str(refused.value)
    assert "failed" not in str(refused.value)


@pytest.mark.parametrize(
    ("sentence", "named"), [("ann cordons host h2", "cordoned"), ("ann fails host h2", "failed")]
)
def test_a_vm_that_is_there_is_not_declared_onto_a_host_that_takes_none(sentence: str, named: str) -> None:
    """Nor onto one that is unknown."""
    harness = FleetHarness("ann declares: host h1; host h2; group web availability-set; vm a in web on h1", sentence)

    with pytest.raises(Refused, match=named):
        harness.say("ann declares: vm a in web on h2")
    with pytest.raises(Refused, match="there is no host 'h9'"):
        harness.say("ann declares: vm a in web on h9")


def test_who_leaves_a_quorum_without_enough_vms_is_named() -> None:
    """Not who stays."""
    fleet = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=3; vm a in web; vm b in web; vm c in web"
    ).fleet

    assert [each.name for each in Proposal(gone_vms={"b": None}).conflicts(fleet)] == ["b"]


def test_a_quorum_that_was_too_large_before_keeps_no_vm_from_being_replaced() -> None:
    """The change makes it no worse."""
    harness = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=2; vm a in web; vm b in web"
    )
    harness.fleet.evolve(FleetChanged(removed_vms=("b",)))
    harness.say("ann declares: vm c in web; no vm a")

    assert harness.fleet.vms.keys() == {"c"}


def test_a_standalone_group_with_several_vms_of_an_earlier_release_can_lose_one() -> None:
    """Whoever stays has done nothing wrong."""
    harness = FleetHarness()
    harness.fleet.evolve(FleetChanged(groups=(LONE,), vms=tuple(Vm(name, "db") for name in "abc")))
    harness.say("ann applies: group db standalone; vm a in db; vm b in db; vm c in db")
    harness.say("ann applies: group db standalone; vm a in db; vm b in db")

    assert harness.fleet.vms.keys() == {"a", "b"}
