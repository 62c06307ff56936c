"""Which host takes which VM when a host is drained: planned for all of its VMs at once, before anything moves.

A host is a candidate when it has not failed and is not cordoned; one that is expected to fail only where no other is.
Of those with room, VMs of one group are kept apart by fault domain, then by update domain, then by number; then the
host with the most free memory is taken, or with the fewest VMs where no driver tells capacity. If that leaves VMs
behind, all are packed as tightly as possible instead. What other unfinished moves will bring is taken into account.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from forewarn.core.fleet import Fleet
from forewarn.core.model import HostState, Vm

_MIB = 1024 * 1024
_NAMED = 5


class HostCapacity(msgspec.Struct, frozen=True):
    """What a host has left for more VMs."""

    memory: int
    """Bytes."""
    cpus: int
    """Virtual CPUs."""


class VmDemand(msgspec.Struct, frozen=True):
    """What a VM takes of a host, and what keeps it from hosts."""

    memory: int = 0
    """Bytes."""
    cpus: int = 0
    is_live: bool = True
    """Whether it can be moved while it runs."""
    obstacle: str = ""
    """Why it cannot leave its host at all."""
    unfit: dict[str, str] = {}
    """The hosts that cannot take it, and why."""


class Capacity(msgspec.Struct, frozen=True):
    """What a driver tells of hosts and VMs; a VM or host that is not named is not limited."""

    hosts: dict[str, HostCapacity] = {}
    vms: dict[str, VmDemand] = {}
    unusable: dict[str, str] = {}
    """The hosts that can take no VM at all, and why."""


class DrainPlan(msgspec.Struct, frozen=True):
    """Where the VMs of a host go."""

    placements: dict[str, str] = {}
    left: dict[str, str] = {}
    """The running VMs that cannot go, and why."""
    cold: tuple[str, ...] = ()
    """The VMs among the placements that cannot be moved while they run."""
    deallocated: tuple[str, ...] = ()
    """The VMs that do not run; they stay where they are recorded, and hold nothing of the host."""


def running_on(fleet: Fleet, host: str) -> list[Vm]:
    """Return the VMs on a host that are not deallocated, by name."""
    return [vm for name in sorted(fleet.vms_on(host)) if not (vm := fleet.vms[name]).deallocated]


def candidates(fleet: Fleet, host: str) -> list[str]:
    """Return the hosts that may take VMs of this one."""
    states = {
        name: state
        for name in fleet.hosts
        if name != host and name not in fleet.cordoned and (state := fleet.state_of(name)) is not HostState.FAILED
    }
    wanted = HostState.UP if HostState.UP in states.values() else HostState.DEGRADED
    return sorted(name for name, state in states.items() if state is wanted)


def arriving(fleet: Fleet) -> Iterator[tuple[Vm, str]]:
    """Yield the VMs that unfinished events move to a host that was named, and that host."""
    for event in fleet.events.values():
        for name in event.vms if event.targets else ():
            vm, target = fleet.vms[name], event.placements.get(name, event.target)
            if target and vm.standing_on != target:
                yield vm, target


def plan_drain(fleet: Fleet, host: str, capacity: Capacity) -> DrainPlan:
    """Say where each VM of a host goes, and which cannot go."""
    vms = running_on(fleet, host)
    hosts = candidates(fleet, host)
    # The largest first: it finds room where the others still leave some.
    vms.sort(key=lambda vm: (-_demand(capacity, vm).memory, -_demand(capacity, vm).cpus, vm.name))
    spread = _Packing(fleet, hosts, capacity).place(vms, _Packing.apart)
    tight = _Packing(fleet, hosts, capacity).place(vms, _Packing.tight) if spread.left else spread
    best = tight if len(tight.left) < len(spread.left) else spread
    return DrainPlan(
        dict(sorted(best.placements.items())),
        dict(sorted(best.left.items())),
        tuple(sorted(name for name in best.placements if not capacity.vms.get(name, VmDemand()).is_live)),
        tuple(sorted(name for name in fleet.vms_on(host) if fleet.vms[name].deallocated)),
    )


class _Packing:
    """A plan in the making: what is left on each host after what is placed so far."""

    def __init__(self, fleet: Fleet, hosts: list[str], capacity: Capacity) -> None:
        self.placements: dict[str, str] = {}
        self.left: dict[str, str] = {}
        self._fleet = fleet
        self._hosts = hosts
        self._capacity = capacity
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
            best = min(fitting, key=lambda host: (*order(self, vm, host), host))
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
        """Count the group's VMs on the candidates, once it is needed."""
        if group not in self._counted:
            self._counted.add(group)
            for name in self._fleet.groups[group].vms:
                vm = self._fleet.vms[name]
                if vm.standing_on in self._vms and not vm.deallocated:
                    self._count(vm, vm.standing_on)

    def _against(self, vm: Vm, host: str) -> str:
        """Say why a host cannot take a VM; empty when it can."""
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
            return "no other host is up and not cordoned"
        reasons = [self._against(vm, host) for host in self._hosts[:_NAMED]]
        more = len(self._hosts) - len(reasons)
        return "; ".join([*reasons, *([f"{more} more hosts cannot take it either"] if more else [])])


def _demand(capacity: Capacity, vm: Vm) -> VmDemand:
    return capacity.vms.get(vm.name, VmDemand())
