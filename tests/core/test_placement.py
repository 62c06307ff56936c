"""A host's VMs are planned all at once: within what hosts have, apart by group, and those that cannot go named."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core import placement
from forewarn.core.errors import PlanOutdated
from forewarn.core.facts import (
    AnyFact,
    FleetChanged,
    HostCordonSet,
    HostStateSet,
    StartedAtOnce,
    VmDeallocated,
)
from forewarn.core.fleet import Fleet
from forewarn.core.fleet_records import EPOCH
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    GroupKind,
    GroupTerms,
    Host,
    HostState,
    Operation,
    Vm,
)
from forewarn.core.placement import Capacity, DrainPlan, HostCapacity, TargetOrder, VmDemand, plan_drain
from tests.core.rollouts.harness import RolloutHarness

GIB = 1024**3


def fleet_of(*vms: Vm, hosts: int = 4) -> Fleet:
    fleet = Fleet()
    groups = dict.fromkeys(vm.group for vm in vms)
    fleet.evolve(
        FleetChanged(
            hosts=tuple(Host(f"h{number}") for number in range(1, hosts + 1)),
            groups=tuple(GroupTerms(name, GroupKind.AVAILABILITY_SET) for name in groups),
            vms=vms,
        )
    )
    return fleet


def vms_on(host: str, *names: str, group: str = "web") -> tuple[Vm, ...]:
    return tuple(Vm(name, group, host, update_domain=number) for number, name in enumerate(names))


def test_vms_of_one_group_are_kept_apart() -> None:
    """Each goes where none of another update domain stands, as far as there are hosts."""
    fleet = fleet_of(*vms_on("h1", "a", "b"), Vm("c", "web", "h2", update_domain=2))

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h3", "b": "h4"}


def test_vms_that_nothing_tells_apart_are_spread_by_number() -> None:
    """Without a driver that tells capacity no host gets all of them."""
    fleet = fleet_of(*(Vm(name, name, "h1") for name in "abcdef"))
    placed = list(plan_drain(fleet, "h1", Capacity()).placements.values())

    assert sorted(placed) == ["h2", "h2", "h3", "h3", "h4", "h4"]


def test_failed_cordoned_and_degraded_hosts_take_none() -> None:
    """One that is expected to fail is taken only where no other is left."""
    fleet = fleet_of(*vms_on("h1", "a"))
    fleet.evolve(HostStateSet("h2", HostState.FAILED, EPOCH))
    fleet.evolve(HostCordonSet("h3", True, EPOCH))
    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h4"}

    fleet.evolve(HostStateSet("h4", HostState.DEGRADED, EPOCH))
    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h4"}

    fleet.evolve(HostCordonSet("h4", True, EPOCH))
    assert plan_drain(fleet, "h1", Capacity()).left == {
        "a": "no other host is up, not cordoned and not in a wave of a rollout"
    }


def test_who_cannot_go_is_named_with_the_reason() -> None:
    """What keeps it, host by host."""
    fleet = fleet_of(*vms_on("h1", "small", "large", "wide", "tied"), hosts=3)
    capacity = Capacity(
        {"h2": HostCapacity(2 * GIB, 4)},
        {
            "small": VmDemand(1 * GIB, 1, unfit={"h2": "it has no active network lan"}),
            "large": VmDemand(4 * GIB, 1),
            "wide": VmDemand(1 * GIB, 8),
            "tied": VmDemand(obstacle="a device of its host is passed through to it"),
        },
        {"h3": "it does not answer"},
    )

    assert plan_drain(fleet, "h1", capacity) == DrainPlan(
        left={
            "small": "h2: it has no active network lan; h3: it does not answer",
            "large": "h2 has 2048 MiB left, and it needs 4096 MiB; h3: it does not answer",
            "wide": "h2 has room for 4 more CPUs, and it needs 8; h3: it does not answer",
            "tied": "a device of its host is passed through to it",
        }
    )


def test_where_spreading_leaves_some_behind_all_are_packed() -> None:
    """Two that would each take the freest host leave no room for the large one elsewhere."""
    fleet = fleet_of(*(Vm(name, name, "h1") for name in ("a", "b", "c")), hosts=3)
    sizes = {"a": 3, "b": 3, "c": 2}
    capacity = Capacity(
        {"h2": HostCapacity(5, 9), "h3": HostCapacity(3, 9)}, {name: VmDemand(size) for name, size in sizes.items()}
    )
    plan = plan_drain(fleet, "h1", capacity)

    assert not plan.left
    assert plan.placements in ({"a": "h2", "b": "h3", "c": "h2"}, {"a": "h3", "b": "h2", "c": "h2"})


def test_what_other_moves_will_bring_counts() -> None:
    """A VM that an unfinished event moves there has its room already."""
    fleet = fleet_of(Vm("a", "a", "h1"), Vm("b", "b", "h2"), hosts=3)
    event = Event(
        "e",
        EventType.FREEZE,
        EventSource.PLATFORM,
        "b",
        ("b",),
        EventStatus.STARTED,
        EPOCH,
        EPOCH,
        Operation.VM_MOVE,
        target="h3",
    )
    fleet.evolve(StartedAtOnce(event))
    capacity = Capacity(
        {"h2": HostCapacity(0, 9), "h3": HostCapacity(10, 9)}, {"a": VmDemand(6, 1), "b": VmDemand(6, 1)}
    )

    assert plan_drain(fleet, "h1", capacity).left == {
        "a": "h2 has 0 MiB left, and it needs 0 MiB; h3 has 0 MiB left, and it needs 0 MiB"
    }


def test_deallocated_vms_stay_and_cold_ones_are_told() -> None:
    """The first hold nothing of the host; the others are announced as what they will feel."""
    fleet = fleet_of(*vms_on("h1", "a", "b", "c"))
    fleet.evolve(VmDeallocated("a", "x"))
    plan = plan_drain(fleet, "h1", Capacity(vms={"b": VmDemand(is_live=False)}))

    assert (plan.deallocated, plan.cold, list(plan.placements)) == (("a",), ("b",), ["b", "c"])


@given(
    rooms=st.lists(st.tuples(st.integers(-2, 20), st.integers(0, 12)), min_size=1, max_size=4),
    demands=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12),
)
def test_no_host_gets_more_than_it_has(rooms: list[tuple[int, int]], demands: list[tuple[int, int]]) -> None:
    """Every VM is placed or left with a reason, and what is placed fits."""
    vms = {f"v{number}": VmDemand(*demand) for number, demand in enumerate(demands)}
    fleet = fleet_of(*(Vm(name, name, "h1") for name in vms), hosts=len(rooms) + 1)
    hosts = {f"h{number}": HostCapacity(*room) for number, room in enumerate(rooms, 2)}
    plan = plan_drain(fleet, "h1", Capacity(hosts, vms))

    assert plan.placements.keys() | plan.left.keys() == vms.keys()
    assert all(plan.left.values())
    for host, room in hosts.items():
        there = [vms[name] for name, target in plan.placements.items() if target == host]
        assert sum(vm.memory for vm in there) <= max(0, room.memory)
        assert sum(vm.cpus for vm in there) <= room.cpus


def test_vms_of_one_fault_domain_stay_together_rather_than_two_fault_domains() -> None:
    """A host that fails then takes one fault domain along, not two."""
    fleet = fleet_of(
        Vm("a", "web", "h1", fault_domain=1),
        Vm("b", "web", "h2", fault_domain=0),
        Vm("c", "web", "h3", fault_domain=1),
        hosts=3,
    )

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h3"}


def test_of_equal_hosts_the_one_with_most_memory_and_then_the_fewest_vms_is_taken() -> None:
    """What is left afterwards is spread as well; the first by name where nothing tells them apart."""
    fleet = fleet_of(Vm("a", "a", "h1"), Vm("b", "b", "h2"))

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h3"}
    rooms = {"h2": HostCapacity(2, 9), "h3": HostCapacity(1, 9), "h4": HostCapacity(1, 9)}
    assert plan_drain(fleet, "h1", Capacity(rooms)).placements == {"a": "h2"}


def test_a_host_with_fewer_vms_of_the_group_is_taken_whatever_else_stands_there() -> None:
    """VMs of one update domain and one fault domain are kept apart too, where there is a host for each."""
    fleet = fleet_of(Vm("a", "web", "h1"), Vm("b", "web", "h2"), Vm("c", "c", "h3"), Vm("d", "d", "h3"), hosts=3)

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h3"}


def test_vms_of_one_update_domain_stay_together_rather_than_two_update_domains() -> None:
    """A host that is maintained then takes one update domain along, not two."""
    fleet = fleet_of(
        Vm("a", "web", "h1", update_domain=1),
        Vm("b", "web", "h2", update_domain=0),
        Vm("c", "web", "h3", update_domain=1),
        Vm("d", "web", "h3", update_domain=1),
        hosts=3,
    )

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h3"}


def test_a_deallocated_vm_of_the_group_keeps_no_other_away() -> None:
    """It does not run there."""
    fleet = fleet_of(Vm("a", "web", "h1"), Vm("b", "web", "h2"))
    fleet.evolve(VmDeallocated("b", "x"))

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h2"}


def test_the_largest_go_first() -> None:
    """By memory, then by CPUs, then by name: here the last one finds no room."""
    for demands, left in (
        ({"a": VmDemand(1, 1), "b": VmDemand(2, 1)}, "a"),
        ({"a": VmDemand(2, 1), "b": VmDemand(2, 2)}, "a"),
        ({"a": VmDemand(1, 2), "b": VmDemand(2, 1)}, "a"),
        ({"a": VmDemand(2, 2), "b": VmDemand(2, 2)}, "b"),
    ):
        fleet = fleet_of(*(Vm(name, name, "h1") for name in demands), hosts=2)

        assert list(plan_drain(fleet, "h1", Capacity({"h2": HostCapacity(2, 2)}, demands)).left) == [left]


def test_what_is_packed_takes_the_host_with_the_least_memory_and_then_the_fewest_cpus() -> None:
    """So that a large one finds room elsewhere."""
    fleet = fleet_of(*(Vm(name, name, "h1") for name in "abc"), hosts=3)
    by_memory = Capacity(
        {"h2": HostCapacity(4, 2), "h3": HostCapacity(6, 3)},
        {"a": VmDemand(1, 3), "b": VmDemand(3, 1), "c": VmDemand(0, 0)},
    )
    by_cpus = Capacity(
        {"h2": HostCapacity(3, 4), "h3": HostCapacity(3, 1)},
        {"a": VmDemand(1, 3), "b": VmDemand(2, 1), "c": VmDemand(3, 1)},
    )

    assert plan_drain(fleet, "h1", by_memory).placements == {"a": "h3", "b": "h2", "c": "h2"}
    assert plan_drain(fleet, "h1", by_cpus).placements == {"a": "h2", "b": "h2", "c": "h3"}


def test_what_packing_does_not_help_stays_spread() -> None:
    """Where as many are left behind by both plans."""
    fleet = fleet_of(Vm("a", "a", "h1"), Vm("b", "b", "h1"), hosts=3)
    rooms = {"h2": HostCapacity(0, 3), "h3": HostCapacity(0, 2)}
    plan = plan_drain(fleet, "h1", Capacity(rooms, {"a": VmDemand(0, 2), "b": VmDemand(2, 3)}))

    assert (plan.placements, list(plan.left)) == ({"a": "h2"}, ["b"])


def test_only_some_hosts_are_named_that_cannot_take_a_vm() -> None:
    """The others are counted; a host that has given more than it has is full."""
    fleet = fleet_of(Vm("a", "a", "h1"), hosts=7)
    rooms = {f"h{number}": HostCapacity(-1, 1) for number in range(2, 8)}
    (said,) = plan_drain(fleet, "h1", Capacity(rooms, {"a": VmDemand(1024**2)})).left.values()

    assert said.startswith("h2 has 0 MiB left, and it needs 1 MiB; h3 has 0 MiB left")
    assert said.count("MiB left") == 5
    assert said.endswith("; 1 more hosts cannot take it either")


def test_a_degraded_host_takes_none_while_another_is_up() -> None:
    """Also where the VMs cannot be kept apart then."""
    fleet = fleet_of(*vms_on("h1", "a", "b"), hosts=3)
    fleet.evolve(HostStateSet("h2", HostState.DEGRADED, EPOCH))

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h3", "b": "h3"}


ROLLED = (
    "ann declares: host h1; host h2; host h3; host h4; group a availability-set; group b availability-set;"
    " vm a-0 in a on h1 ud=0 fd=0; vm b-0 in b on h2 ud=0 fd=0; vm b-1 in b on h4 ud=1 fd=0"
)


def test_no_vm_is_moved_to_a_host_of_a_wave_under_way() -> None:
    """Also if that host is not cordoned yet; a plan that was made before the wave began is outdated."""
    harness = RolloutHarness(ROLLED, "ann rolls out k: drain hosts=h1,h3 parallel=2")
    harness.advance()
    assert plan_drain(harness.fleet, "h1", Capacity()).placements == {"a-0": "h2"}
    with pytest.raises(PlanOutdated):
        harness.say("ann drains host h2 to b-0 on h3")


def test_hosts_that_are_still_to_be_drained_come_last() -> None:
    """A VM is moved once; h3 is empty, and waits for its wave."""
    harness = RolloutHarness(ROLLED, "ann rolls out k: drain hosts=h1,h3")
    harness.advance()
    assert plan_drain(harness.fleet, "h1", Capacity()).placements == {"a-0": "h2"}


def test_of_many_hosts_those_with_the_fewest_vms_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others only where these have no room."""
    crowd = (Vm(f"c-{number}", "web", f"h{number}") for number in range(2, 201))
    fleet = fleet_of(Vm("a", "a", "h1"), *crowd, Vm("d", "web", "h200"), hosts=300)
    looked_at: list[str] = []
    running_on = placement.running_on

    def look(fleet: Fleet, host: str) -> list[Vm]:
        looked_at.append(host)
        return running_on(fleet, host)

    monkeypatch.setattr(placement, "running_on", look)

    assert plan_drain(fleet, "h1", Capacity()).placements == {"a": "h201"}
    assert len(looked_at) < 100
    full = {f"h{number}": HostCapacity(0, 0) for number in range(2, 301)} | {"h200": HostCapacity(GIB, 1)}
    assert plan_drain(fleet, "h1", Capacity(full, {"a": VmDemand(GIB, 1)})).placements == {"a": "h200"}


def plan_simply(fleet: Fleet, host: str, capacity: Capacity) -> DrainPlan:
    """Plan a drain as it is defined: with all hosts sorted for this one."""
    packing, later = placement._Packing, placement._still_to_drain(fleet)
    vms = placement.running_on(fleet, host)
    vms.sort(key=lambda vm: (-capacity.vms[vm.name].memory, -capacity.vms[vm.name].cpus))
    left_out = {host, *fleet.cordoned, *placement.in_waves(fleet)}
    names = sorted(name for name in fleet.hosts if name not in left_out)
    up = [name for name in names if name not in fleet.host_states]
    hosts = up or [name for name in names if fleet.state_of(name) is HostState.DEGRADED]
    few = max(2, 2 * len(vms))
    first = sorted(sorted(hosts, key=lambda name: (name in later, len(fleet.vms_on(name))))[:few])
    plans = [packing(fleet, each, capacity, later).place(vms, packing.apart) for each in (first, hosts)]
    plans.append(packing(fleet, hosts, capacity, later).place(vms, packing.tight))
    best = plans[0] if not plans[0].left else plans[2] if len(plans[2].left) < len(plans[1].left) else plans[1]
    return DrainPlan(
        dict(sorted(best.placements.items())),
        dict(sorted(best.left.items())),
        deallocated=tuple(sorted(name for name in fleet.vms_on(host) if fleet.vms[name].deallocated)),
    )


def facts_of_a_wave(data: st.DataObject, hosts: int) -> Iterator[AnyFact]:
    """Yield what happens while the hosts of a wave are planned, and keeps the order of targets."""
    name = st.integers(1, hosts).map("h{}".format)
    for _ in range(data.draw(st.integers(0, 4))):
        yield data.draw(
            st.one_of(
                st.builds(HostCordonSet, name, st.booleans(), st.just(EPOCH)),
                st.builds(HostStateSet, name, st.sampled_from(HostState), st.just(EPOCH)),
            )
        )


@given(data=st.data())
def test_an_order_that_was_made_before_leads_to_the_same_plan(data: st.DataObject) -> None:
    """Hosts are cordoned, drained and lost meanwhile; few or all have room."""
    hosts = data.draw(st.integers(2, 12))
    places = data.draw(st.lists(st.integers(1, hosts), min_size=1, max_size=12))
    fleet = fleet_of(*(Vm(f"v{n}", f"g{n % 3}", f"h{place}") for n, place in enumerate(places)), hosts=hosts)
    rooms = data.draw(st.dictionaries(st.integers(1, hosts).map("h{}".format), st.integers(0, 2), max_size=hosts))
    capacity = Capacity(
        {host: HostCapacity(room, room) for host, room in rooms.items()},
        {f"v{number}": VmDemand(1, 1) for number in range(len(places))},
    )
    made_before = TargetOrder.of(fleet)
    for fact in facts_of_a_wave(data, hosts):
        assert TargetOrder.is_kept_by(fact)
        fleet.evolve(fact)
    drained = f"h{places[0]}"
    expected = plan_simply(fleet, drained, capacity)
    assert plan_drain(fleet, drained, capacity, order=made_before, tried_first=2) == expected


def test_a_fact_that_keeps_the_order_does_not_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In rollouts with hosts that are drained, fail, are skipped and wait again, and with moves by hand."""
    evolve = Fleet.evolve
    kept: set[str] = set()

    def evolve_and_compare(fleet: Fleet, fact: AnyFact) -> None:
        before = TargetOrder.of(fleet)
        evolve(fleet, fact)
        if TargetOrder.is_kept_by(fact):
            kept.add(type(fact).__name__)
            assert TargetOrder.of(fleet) == before, fact

    monkeypatch.setattr(Fleet, "evolve", evolve_and_compare)
    harness = RolloutHarness(ROLLED, "ann rolls out k: drain hosts=h1,h3,h4", "ann rolls out r: reboot hosts=h2")
    harness.advance()
    harness.say("rollout k drains h1")
    harness.say("ann skips h3 of rollout k")
    harness.finish("k", most=4, failing=("h1",))
    harness.say("ann retries rollout k")
    harness.say("ann retries rollout k h3")
    harness.say("ann resumes rollout k")
    harness.advance()
    for host in ("h1", "h3", "h4"):
        harness.say(f"rollout k drains {host}")
        harness.finish("k", most=3)
    harness.finish("r")
    assert not harness.fleet.rollouts
    assert kept >= {"Announced", "HostCordonSet", "RolloutHostChanged", "Started", "Completed"}
