"""Free capacity of hosts, reservations, demand of machines, and the choice of a target host.

Free memory is the memory that is really free, but at most the host's memory times ``memory_ratio`` minus the maximum
memory of its running machines; free CPUs are the host's times ``cpu_ratio`` minus those of its running machines.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from forewarn.core.errors import ForewarnError
from forewarn.core.model import Host, Vm
from forewarn.core.placement import Capacity, HostCapacity, VmDemand
from forewarn.drivers.candidates import count_conflicts
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.problems import problem_of
from forewarn.drivers.libvirt.settings import LibvirtSettings
from forewarn.node.driver import CandidateHost

_KIB, _MIB = 1024, 1024 * 1024


class Reservation(msgspec.Struct, frozen=True):
    """Capacity that one machine will take on one host, until libvirt counts the machine there."""

    uuid: str
    vm: str
    host: str
    memory: int
    cpus: int
    percent_done: Callable[[], int] = lambda: 0
    """Percentage of its memory that is on the host already."""


class FreeCapacity(msgspec.Struct, frozen=True):
    """Free capacity of a host as libvirt reports it, which counts the machines active there."""

    free: int
    """Bytes of memory that are really free."""
    allowed: int
    """Bytes of memory that ``memory_ratio`` still allows."""
    cpus: int
    active: frozenset[str] = frozenset()
    """UUIDs of the machines that are counted."""

    def after(self, coming: Iterable[Reservation]) -> HostCapacity:
        """Return the free capacity after these machines have arrived, too."""
        free, allowed, cpus = self.free, self.allowed, self.cpus
        for each in coming:
            is_active = each.uuid in self.active
            free -= each.memory * (100 - (each.percent_done() if is_active else 0)) // 100
            if not is_active:
                allowed -= each.memory
                cpus -= each.cpus
        return HostCapacity(min(free, allowed), cpus)


class Reservations:
    """Reservations of all migrations of a driver, by machine UUID.

    Without them two concurrent migrations could choose the same free capacity.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reservations: dict[str, Reservation] = {}
        self._changes = 0

    def current(self) -> tuple[int, tuple[Reservation, ...]]:
        """Return all reservations, and the number of changes so far."""
        with self._lock:
            return self._changes, tuple(self._reservations.values())

    def reserve(self, reservation: Reservation, changes: int) -> bool:
        """Reserve capacity; return False if reservations have changed since, so that the choice must be repeated."""
        with self._lock:
            if changes != self._changes:
                return False
            self._changes += 1
            self._reservations[reservation.uuid] = reservation
            return True

    def release(self, uuid: str) -> None:
        with self._lock:
            self._changes += 1
            self._reservations.pop(uuid, None)


def read_capacity(
    hosts: LibvirtHosts,
    settings: LibvirtSettings,
    vms: Collection[Vm],
    candidates: Iterable[Host],
    reservations: Iterable[Reservation] = (),
) -> Capacity:
    """Return the free capacity of hosts and the demand of VMs; the planner counts the moves of these VMs itself."""
    named = {vm.name for vm in vms}
    reservations = [each for each in reservations if each.vm not in named]
    capacities: dict[str, HostCapacity] = {}
    targets: dict[str, _TargetHost] = {}
    unusable: dict[str, str] = {}
    for host in candidates:
        try:
            coming = [each for each in reservations if each.host == host.name]
            capacities[host.name] = read_free_capacity(hosts, settings, host.name).after(coming)
            targets[host.name] = _TargetHost(hosts, host.name)
        except ForewarnError as error:
            unusable[host.name] = str(error)
    return Capacity(capacities, {vm.name: _demand(hosts, settings, vm, targets) for vm in vms}, unusable)


def read_free_capacity(hosts: LibvirtHosts, settings: LibvirtSettings, host: str) -> FreeCapacity:
    """Return the free capacity of a host; raise LibvirtProblem if it does not answer."""
    connection = hosts.connection(host)
    try:
        total, cpus = int(connection.getInfo()[1]) * _MIB, int(connection.getInfo()[2])
        infos = dict(_infos(connection))
        free = _free(connection)
    except libvirt.libvirtError as error:
        raise problem_of(host, error, "its capacity") from None
    promised = sum(int(info[1]) for info in infos.values()) * _KIB
    spare = settings.spare_memory * _MIB
    return FreeCapacity(
        free - spare,
        int(total * settings.memory_ratio) - promised - spare,
        int(cpus * settings.cpu_ratio) - sum(int(info[3]) for info in infos.values()),
        frozenset(infos),
    )


def _infos(connection: libvirt.virConnect) -> Iterator[tuple[str, Any]]:
    for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        with suppress(libvirt.libvirtError):  # it may have ended meanwhile
            yield domain.UUIDString(), domain.info()


def _free(connection: libvirt.virConnect) -> int:
    """Return the free bytes of a host; Linux's cache counts as free."""
    try:
        stats: Any = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
        return sum(int(stats.get(kind, 0)) for kind in ("free", "buffers", "cached")) * _KIB
    except libvirt.libvirtError:
        return int(connection.getFreeMemory())


def _demand(hosts: LibvirtHosts, settings: LibvirtSettings, vm: Vm, targets: "Mapping[str, _TargetHost]") -> VmDemand:
    try:
        guest = LibvirtGuest(hosts, vm)
        guest.find()
        if guest.host != hosts.called(vm.standing_on):
            where = f"forewarn vm move {vm.name} {guest.host} --record"
            return VmDemand(obstacle=f"it is on {guest.host} already; record that: {where}")
        if guest.is_off():
            return VmDemand()  # only its definition moves, and it stays off
        if not guest.state().runs:
            guest.domain()
            return VmDemand(obstacle="it is paused; resume or stop it")
        memory, cpus = guest.memory, guest.cpus
        root = ET.fromstring(guest.definition())  # noqa: S314 libvirt's own words
    except ForewarnError as error:
        return VmDemand(obstacle=str(error))
    if settings.redeploy == "restart":
        return VmDemand(memory, cpus, obstacle='redeploy = "restart" in the driver\'s settings keeps it on its host')
    if root.find("./devices/hostdev") is not None:
        return VmDemand(memory, cpus, obstacle="a device of its host is passed through to it; detach that first")
    unfit = {name: why for name, target in targets.items() if (why := target.unfit(root))}
    return VmDemand(memory, cpus, unfit=unfit)


class _TargetHost:
    """Properties of a target host, queried once."""

    def __init__(self, hosts: LibvirtHosts, host: str) -> None:
        self._connection = hosts.connection(host)
        self._networks: set[str] | None = None
        self._can_run: dict[tuple[str | None, ...], bool] = {}
        with suppress(libvirt.libvirtError):  # a hypervisor without networks
            active = self._connection.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE)
            self._networks = {network.name() for network in active}

    def unfit(self, root: ET.Element) -> str:
        """Return what the machine needs and the host lacks; empty if it lacks nothing."""
        for source in root.iterfind("./devices/interface[@type='network']/source"):
            name = source.get("network", "")
            if self._networks is not None and name not in self._networks:
                return f"it has no active network {name}"
        cpu, kind = root.find("cpu"), root.find("./os/type")
        if cpu is None or kind is None:
            return ""
        emulator, words = root.findtext("./devices/emulator"), ET.tostring(cpu, encoding="unicode")
        needed = (emulator, kind.get("arch"), kind.get("machine"), root.get("type"), words)
        if needed not in self._can_run:
            self._can_run[needed] = self._offers(needed)
        return "" if self._can_run[needed] else "its CPU lacks features that the machine uses"

    def _offers(self, needed: tuple[str | None, ...]) -> bool:
        """Return whether the host supports a CPU; True if it cannot be compared: libvirt checks when it migrates."""
        compare: Any = self._connection.compareHypervisorCPU  # libvirt's own types are wrong here
        with suppress(libvirt.libvirtError):
            return bool(compare(*needed) != libvirt.VIR_CPU_COMPARE_INCOMPATIBLE)
        return True


class HostOption(msgspec.Struct, frozen=True):
    """A candidate host with its free memory in bytes."""

    candidate: CandidateHost
    free: int
    cpus: int = 1_000_000
    """Number of further virtual CPUs that it may run."""

    @property
    def host(self) -> str:
        return self.candidate.host.name


def choose_host(vm: Vm, needed: int, options: Iterable[HostOption], cpus: int = 0) -> HostOption | None:
    """Return the best host for a machine that needs so much memory and so many CPUs; None if none has room.

    Hosts with fewer VMs of the group in other fault or update domains come first, then those with more free memory.
    """
    fitting = [option for option in options if option.free >= needed and option.cpus >= cpus]
    return min(
        fitting, key=lambda option: (*count_conflicts(vm, option.candidate), -option.free, option.host), default=None
    )


def explain_no_host(vm: Vm, needed: int, options: Iterable[HostOption], cpus: int = 0) -> str:
    options = list(options)
    if any(option.free >= needed for option in options):
        looked = [f"{option.host} has room for {max(0, option.cpus)} more" for option in options]
        return f"no host has the {cpus} CPUs that {vm.name} needs: {', '.join(looked)}; free some, or raise cpu_ratio"
    looked = [f"{option.host} has {max(0, option.free) // _MIB} MiB free" for option in options]
    return f"no host has the {needed // _MIB} MiB that {vm.name} needs: {', '.join(looked)}"
