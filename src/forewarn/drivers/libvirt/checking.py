"""Whether libvirt answers on the hosts of machines, knows the machines, and has the room that is needed one day."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import libvirt

from forewarn.core.errors import ForewarnError
from forewarn.core.model import Vm
from forewarn.drivers.libvirt import volumes
from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.hosts import Hosts
from forewarn.drivers.libvirt.problems import trouble
from forewarn.drivers.libvirt.settings import LibvirtSettings

_LOOKED_AT = 1_000
"""Machines that are looked at in one go; of a fleet that is larger, the first ones."""
_EMBEDDED = ":///embed"
"""Such a libvirt lives within the service, and nobody else can ask it."""
_HERE, SAVED = "qemu:///system", "/var/lib/libvirt/qemu/save"
"""The libvirt of this machine, and where it saves memory; of others nobody can tell how much room there is."""
_FULL = 0.01
"""The share of a storage pool below which it is as good as full."""
_MIB = 1024 * 1024


def troubles(hosts: Hosts, vms: Iterable[Vm], settings: LibvirtSettings) -> Iterator[str]:
    """Yield what keeps us from hosts, once each, and from machines that should run; then where room is scarce."""
    reached: dict[str, bool] = {}
    most = 0
    for vm in islice((vm for vm in vms if not vm.deallocated), _LOOKED_AT):
        host = vm.standing_on
        try:
            if host not in reached:
                reached[host] = False
                reached[host] = _EMBEDDED not in hosts.uri(host) and bool(hosts.connection(host))
            if reached[host]:
                guest = Guest(hosts, vm)
                if not guest.look().runs:
                    yield (
                        f"{vm.name} does not run on {host or 'its host'}; start it,"
                        f" or 'forewarn vm deallocate {vm.name}' if it is not to run"
                    )
                    continue
                if hosts.uri(host) == _HERE:
                    most = max(most, guest.memory)
                for path in _ephemeral(guest, settings):
                    volumes.find(hosts, host, path)
        except ForewarnError as error:
            yield str(error)
    for host in (host for host, is_reached in reached.items() if is_reached):
        yield from _full_pools(hosts, host)
    if settings.evict == "save":
        yield from lack_of_room(SAVED, most)


def _ephemeral(guest: Guest, settings: LibvirtSettings) -> list[str]:
    disks = guest.disks() if settings.ephemeral_disks else {}
    return [disks[name] for name in settings.ephemeral_disks if name in disks]


def _full_pools(hosts: Hosts, host: str) -> Iterator[str]:
    try:
        for pool in hosts.connection(host).listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
            with suppress(libvirt.libvirtError):
                pool.refresh()  # one that is busy tells what it knew last
            _, capacity, _, available = map(int, pool.info())
            if available < capacity * _FULL:
                yield (
                    f"storage pool {pool.name()} on {host} is full: {available // _MIB} of {capacity // _MIB} MiB"
                    " are free; free some space there, or machines will stop when they write"
                )
    except libvirt.libvirtError as error:
        yield str(trouble(host, error, "its storage pools"))


def lack_of_room(path: str, needed: int) -> Iterator[str]:
    """Yield that a machine which needs so many bytes could not be saved, where that is so."""
    free = _free(Path(path))
    if free is not None and free < needed:
        yield (
            f"{path} has {free // _MIB} MiB free, and a machine that is saved when it is evicted needs"
            f' {needed // _MIB} MiB; free some space there, or set evict = "stop"'
        )


def _free(path: Path) -> int | None:
    """Return the bytes that are free at a place, or above it where we may not look; None where it is not."""
    for place in (path, *path.parents):
        try:
            return shutil.disk_usage(place).free
        except PermissionError:
            continue
        except OSError:
            return None
    return None
