"""Placement: the target host of each VM when a host is drained, planned for all VMs before any moves.

A host is a candidate if it has not failed, is not cordoned and not in a wave of a rollout; degraded hosts only if
there is no other. Among hosts with capacity, VMs of one group are kept apart by fault domain, then by update domain,
then by number; then hosts come first that no rollout is still to drain, so that VMs move once; then the host with the
most free memory, or with the fewest VMs if the driver reports no capacity. Of a large fleet the hosts with the fewest
VMs are tried first; their order is made once for all hosts of a wave. If VMs remain without a target, all hosts are
tried, and packed as tightly as possible. Other unfinished moves are taken into account.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

import msgspec

from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    Enrolled,
    EventChanged,
    Fetched,
    HostCordonSet,
    HostStateSet,
    StartedAtOnce,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import HostState, Vm
from forewarn.core.rollouts.facts import RolloutBlocked, RolloutChecked, RolloutHostChanged
from forewarn.core.rollouts.model import HostStep, run_key

_MIB = 1024 * 1024
_NAMED = 5
_TRIED_FIRST = 64
"""Candidates that are tried first; for a host with many VMs, twice as many as these."""


class HostCapacity(msgspec.Struct, frozen=True):
    """Free capacity of a host."""

    memory: int
    """Bytes."""
    cpus: int
    """Virtual CPUs."""


class VmDemand(msgspec.Struct, frozen=True):
    """Requirements of a VM, and hosts that cannot take it."""

    memory: int = 0
    """Bytes."""
    cpus: int = 0
    is_live: bool = True
    """Whether it can be moved while it runs."""
    obstacle: str = ""
    """Why it cannot be moved at all."""
    unfit: dict[str, str] = {}
    """The hosts that cannot take it, and why."""


class Capacity(msgspec.Struct, frozen=True):
    """Capacity of hosts and requirements of VMs, from the driver; unnamed ones are not limited."""

    hosts: dict[str, HostCapacity] = {}
    vms: dict[str, VmDemand] = {}
    unusable: dict[str, str] = {}
    """Hosts that cannot take any VM, with the reason."""


class DrainPlan(msgspec.Struct, frozen=True):
    """A plan for the VMs of a host."""

    placements: dict[str, str] = {}
    left: dict[str, str] = {}
    """Running VMs that cannot be moved, with the reason."""
    cold: tuple[str, ...] = ()
    """The VMs among the placements that cannot be moved while they run."""
    deallocated: tuple[str, ...] = ()
    """Deallocated VMs; they stay, and use no capacity."""


def running_on(fleet: Fleet, host: str) -> list[Vm]:
    """Return the VMs on a host that are not deallocated, by name."""
    return [vm for name in sorted(fleet.vms_on(host)) if not (vm := fleet.vms[name]).deallocated]


class TargetOrder(msgspec.Struct, frozen=True):
    """All hosts in the order in which they are tried as targets, which takes long to make of a large fleet."""

    hosts: list[str]
    """Those first that no rollout is still to drain, then by the number of VMs, then by name."""
    later: set[str]
    """The hosts that wait for a wave of a rollout that drains them."""

    @classmethod
    def of(cls, fleet: Fleet) -> "TargetOrder":
        later = _still_to_drain(fleet)
        return cls(sorted(fleet.hosts, key=lambda name: (name in later, len(fleet.vms_on(name)), name)), later)

    @staticmethod
    def is_kept_by(fact: AnyFact) -> bool:
        """Return whether the order is certainly the same after a fact: those of planned drains and of events are."""
        if isinstance(fact, RolloutHostChanged):
            return fact.step in _OF_BEGUN_HOSTS
        return isinstance(fact, EventChanged | _KEEPING)


_OF_BEGUN_HOSTS = (HostStep.PLANNING, HostStep.ANNOUNCED, HostStep.COMMAND, HostStep.SETTLING, HostStep.DONE)
_KEEPING = (
    Announced
    | StartedAtOnce
    | Fetched
    | Asked
    | Enrolled
    | HostCordonSet
    | HostStateSet
    | RolloutBlocked
    | RolloutChecked
)


def candidates(fleet: Fleet, host: str, besides: Collection[str] = ()) -> list[str]:
    """Return the candidate hosts for VMs of this host, by name; ``besides`` are to be drained with it."""
    return sorted(_candidates(fleet, fleet.hosts, {host, *besides, *in_waves(fleet)}))


def _candidates(fleet: Fleet, hosts: Iterable[str], left_out: set[str]) -> Iterator[str]:
    """Yield the candidates among all hosts, in the order of these."""
    found = False
    for name in hosts:
        if name not in fleet.host_states and name not in left_out and name not in fleet.cordoned:
            found = True
            yield name
    if not found:
        degraded = (name for name, state in fleet.host_states.items() if state is HostState.DEGRADED)
        usable = {name for name in degraded if name not in left_out and name not in fleet.cordoned}
        yield from (name for name in hosts if name in usable)


def in_waves(fleet: Fleet) -> set[str]:
    """Return the hosts of waves under way whose operation has not ended: no VM is moved to them."""
    runs = (
        fleet.rollout_hosts.get(run_key(rollout.name, host))
        for rollout in fleet.rollouts.values()
        for host in rollout.active
    )
    return {run.host for run in runs if run and run.step is not HostStep.SETTLING}


def _still_to_drain(fleet: Fleet) -> set[str]:
    """Return the hosts that wait for a wave of a rollout that drains them."""
    return {
        host
        for rollout in fleet.rollouts.values()
        if rollout.terms.operation.drains
        for host in rollout.hosts[rollout.position :]
        if run_key(rollout.name, host) not in fleet.rollout_hosts
    }


def arriving(fleet: Fleet) -> Iterator[tuple[Vm, str]]:
    """Yield VMs of unfinished moves with their target host; empty if none was given."""
    for event in fleet.events.values():
        for name in event.vms if event.targets else ():
            vm, target = fleet.vms[name], event.placements.get(name, event.target)
            if vm.standing_on != target:
                yield vm, target


def plan_drain(
    fleet: Fleet,
    host: str,
    capacity: Capacity,
    besides: Collection[str] = (),
    order: TargetOrder | None = None,
    tried_first: int = _TRIED_FIRST,
) -> DrainPlan:
    """Plan the target of each VM of a host; ``order`` is that of the fleet, where it was made before."""
    order = order or TargetOrder.of(fleet)
    later = order.later
    vms = running_on(fleet, host)
    # The largest first, while there is most room.
    vms.sort(key=lambda vm: (-_demand(capacity, vm).memory, -_demand(capacity, vm).cpus))
    few = max(tried_first, 2 * len(vms))
    first = sorted(islice(_candidates(fleet, order.hosts, {host, *besides, *in_waves(fleet)}), few))
    best = _Packing(fleet, first, capacity, later).place(vms, _Packing.apart)
    hosts = candidates(fleet, host, besides) if best.left else first
    if len(first) < len(hosts):
        best = _Packing(fleet, hosts, capacity, later).place(vms, _Packing.apart)
    if best.left:
        tight = _Packing(fleet, hosts, capacity, later).place(vms, _Packing.tight)
        best = tight if len(tight.left) < len(best.left) else best
    return DrainPlan(
        dict(sorted(best.placements.items())),
        dict(sorted(best.left.items())),
        tuple(sorted(name for name in best.placements if not capacity.vms.get(name, VmDemand()).is_live)),
        tuple(sorted(name for name in fleet.vms_on(host) if fleet.vms[name].deallocated)),
    )


class _Packing:
    """A plan under construction: the remaining capacity of each host."""

    def __init__(self, fleet: Fleet, hosts: list[str], capacity: Capacity, later: set[str]) -> None:
        """``later``: hosts that are taken if no other keeps VMs of a group as well apart."""
        self.placements: dict[str, str] = {}
        self.left: dict[str, str] = {}
        self._fleet = fleet
        self._hosts = hosts
        self._capacity = capacity
        self._later = later
        self._memory = {name: known.memory for name in hosts if (known := capacity.hosts.get(name))}
        self._cpus = {name: known.cpus for name in hosts if (known := capacity.hosts.get(name))}
        self._vms = {name: len(running_on(fleet, name)) for name in hosts}
        self._of_group: Counter[tuple[str, str]] = Counter()
        self._of_fault_domain: Counter[tuple[str, str, int]] = Counter()
        self._of_update_domain: Counter[tuple[str, str, int]] = Counter()
        self._counted: set[str] = set()
        for vm, target in arriving(fleet):
            if target in self._vms:
                self._take(vm, target)

    def place(self, vms: Iterable[Vm], order: "Callable[[_Packing, Vm, str], tuple[object, ...]]") -> "_Packing":
        for vm in vms:
            self._count_group(vm.group)
            fitting = [host for host in self._hosts if not self._against(vm, host)]
            if not fitting or _demand(self._capacity, vm).obstacle:
                self.left[vm.name] = self._why_left(vm)
                continue
            best = min(fitting, key=lambda host: order(self, vm, host))
            self.placements[vm.name] = best
            self._take(vm, best)
        return self

    def apart(self, vm: Vm, host: str) -> tuple[object, ...]:
        """Order hosts for a plan that keeps VMs of one group apart."""
        there = self._of_group[vm.group, host]
        return (
            there - self._of_fault_domain[vm.group, host, vm.fault_domain],
            there - self._of_update_domain[vm.group, host, vm.update_domain],
            there,
            host in self._later,
            -self._memory.get(host, 0),
            self._vms[host],
        )

    def tight(self, vm: Vm, host: str) -> tuple[object, ...]:
        """Order hosts for a plan that leaves the fewest VMs behind."""
        return self._memory.get(host, 0), self._cpus.get(host, 0), *self.apart(vm, host)

    def _take(self, vm: Vm, host: str) -> None:
        demand = _demand(self._capacity, vm)
        if host in self._memory:
            self._memory[host] -= demand.memory
            self._cpus[host] -= demand.cpus
        self._vms[host] += 1
        self._count(vm, host)

    def _count(self, vm: Vm, host: str) -> None:
        self._of_group[vm.group, host] += 1
        self._of_fault_domain[vm.group, host, vm.fault_domain] += 1
        self._of_update_domain[vm.group, host, vm.update_domain] += 1

    def _count_group(self, group: str) -> None:
        """Count the group's VMs on each host, lazily."""
        if group not in self._counted:
            self._counted.add(group)
            for name in self._fleet.groups[group].vms:
                vm = self._fleet.vms[name]
                if not vm.deallocated:
                    self._count(vm, vm.standing_on)

    def _against(self, vm: Vm, host: str) -> str:
        """Return why a host cannot take a VM; empty if it can."""
        demand = _demand(self._capacity, vm)
        if reason := self._capacity.unusable.get(host) or demand.unfit.get(host):
            return f"{host}: {reason}"
        if self._memory.get(host, demand.memory) < demand.memory:
            free = max(0, self._memory[host])
            return f"{host} has {free // _MIB} MiB left, and it needs {demand.memory // _MIB} MiB"
        if self._cpus.get(host, demand.cpus) < demand.cpus:
            return f"{host} has room for {max(0, self._cpus[host])} more CPUs, and it needs {demand.cpus}"
        return ""

    def _why_left(self, vm: Vm) -> str:
        if obstacle := _demand(self._capacity, vm).obstacle:
            return obstacle
        if not self._hosts:
            return "no other host is up, not cordoned and not in a wave of a rollout"
        reasons = [self._against(vm, host) for host in self._hosts[:_NAMED]]
        more = len(self._hosts) - len(reasons)
        return "; ".join([*reasons, *([f"{more} more hosts cannot take it either"] if more else [])])


def _demand(capacity: Capacity, vm: Vm) -> VmDemand:
    return capacity.vms.get(vm.name, VmDemand())
