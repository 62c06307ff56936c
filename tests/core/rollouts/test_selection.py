"""Which hosts a rollout is for, and in which order they begin."""

import pytest

from forewarn.core.errors import BadInput, Refused
from forewarn.core.facts import FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Host, Vm
from forewarn.core.rollouts.model import RolloutOperation, RolloutOrder, RolloutTerms
from forewarn.core.rollouts.selection import count_canaries, in_order, select_hosts, values_of


def fleet() -> Fleet:
    made = Fleet()
    hosts = (
        Host("h10", {"rack": "b", "version": "1.4"}),
        Host("h9", {"rack": "a", "version": "1.10"}),
        Host("h1", {"rack": "b", "version": "1.3"}),
    )
    vms = (Vm("a", "g", "h9", fault_domain=1), Vm("b", "g", "h9", fault_domain=1), Vm("c", "g", "h1"))
    made.evolve(FleetChanged(hosts=hosts, groups=(GroupTerms("g", GroupKind.AVAILABILITY_SET),), vms=vms))
    return made


def terms(**given: object) -> RolloutTerms:
    return RolloutTerms(operation=RolloutOperation.REBOOT, **{"all_hosts": True, **given})  # type: ignore[arg-type]


def test_names_and_labels_compare_numbers_as_numbers() -> None:
    """host-10 comes after host-9."""
    assert select_hosts(fleet(), terms()) == ("h1", "h9", "h10")
    by_version = terms(order=RolloutOrder.LABEL, order_label="version")
    assert select_hosts(fleet(), by_version) == ("h1", "h10", "h9")


def test_hosts_with_the_fewest_vms_or_the_lowest_fault_domain_come_first() -> None:
    """Ties go by name; a host without VMs counts as below every fault domain."""
    assert select_hosts(fleet(), terms(order=RolloutOrder.FEWEST_VMS)) == ("h10", "h1", "h9")
    assert select_hosts(fleet(), terms(order=RolloutOrder.FAULT_DOMAIN)) == ("h10", "h1", "h9")


def test_a_selector_and_patterns_must_both_match() -> None:
    """Versions compare part by part."""
    assert select_hosts(fleet(), terms(all_hosts=False, selector="version<1.4")) == ("h1",)
    assert select_hosts(fleet(), terms(all_hosts=False, hosts=("h1*",), selector="rack=b")) == ("h1", "h10")


def test_a_selector_that_matches_nothing_or_cannot_be_read_is_refused() -> None:
    """With its place, or what to look at."""
    with pytest.raises(Refused, match="no host matches the selector 'rack=z'"):
        select_hosts(fleet(), terms(all_hosts=False, selector="rack=z"))
    with pytest.raises(BadInput, match="character 6"):
        select_hosts(fleet(), terms(all_hosts=False, selector="rack="))


def test_canaries_come_first() -> None:
    """By number in the order, or by name."""
    assert select_hosts(fleet(), terms(canary_hosts=("h10",))) == ("h10", "h1", "h9")
    assert count_canaries(fleet(), terms(canary=2), ("h1", "h9", "h10")) == 2


def ordered(order: RolloutOrder, *hosts: Host, vms: tuple[Vm, ...] = (), label: str = "") -> list[str]:
    made = Fleet()
    group = GroupTerms("g", GroupKind.AVAILABILITY_SET)
    made.evolve(FleetChanged(hosts=hosts, groups=(group,), vms=vms))
    return in_order(made, terms(order=order, order_label=label), [host.name for host in hosts])


@pytest.mark.parametrize("order", RolloutOrder)
def test_hosts_that_are_equal_go_by_name(order: RolloutOrder) -> None:
    """Not by the order in which they were declared."""
    hosts = [Host(name, {"rack": "a"}) for name in ("h10", "h9", "g20", "h01", "h1", "h", "9")]
    assert ordered(order, *hosts, label="rack") == ["9", "g20", "h", "h01", "h1", "h9", "h10"]


def test_the_lowest_fault_domain_on_a_host_counts() -> None:
    """Whatever others are there."""
    vms = (Vm("a", "g", "h2", fault_domain=0), Vm("b", "g", "h2", fault_domain=2), Vm("c", "g", "h1", fault_domain=1))
    assert ordered(RolloutOrder.FAULT_DOMAIN, Host("h1"), Host("h2"), vms=vms) == ["h2", "h1"]


def test_all_hosts_beside_names_or_a_selector_is_refused() -> None:
    """It is not clear which is meant."""
    for given in ({"hosts": ("h1",)}, {"selector": "rack=a"}):
        with pytest.raises(Refused, match="leave one of them out"):
            select_hosts(fleet(), terms(**given))


def test_a_fleet_without_hosts_is_named_as_such() -> None:
    """There is nothing to choose from."""
    with pytest.raises(Refused, match="the fleet has no hosts"):
        select_hosts(Fleet(), terms())


def test_named_canaries_keep_the_order_of_the_hosts() -> None:
    """A canary that is none of the hosts is refused."""
    assert select_hosts(fleet(), terms(canary_hosts=("h9", "h1"))) == ("h1", "h9", "h10")
    assert count_canaries(fleet(), terms(canary_hosts=("h9", "h1")), ("h1", "h9", "h10")) == 2
    with pytest.raises(Refused, match="canary h9 is not among the hosts"):
        select_hosts(fleet(), terms(all_hosts=False, hosts=("h1",), canary_hosts=("h9",)))


def test_a_host_counts_under_its_label_or_its_fault_domains() -> None:
    """One without the label counts under nothing."""
    assert values_of(fleet(), "h9", "rack") == ("a",)
    assert values_of(fleet(), "h9", "row") == ()
    assert values_of(fleet(), "h9", "fault-domain") == ("1",)
    assert values_of(fleet(), "h10", "fault-domain") == ()
