"""Whether libvirt answers on the hosts of machines, knows the machines, and has the room that is needed one day."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import libvirt

from forewarn.core.errors import ForewarnError
from forewarn.core.model import Vm
from forewarn.core.redaction import shown_uri
from forewarn.drivers.libvirt import location, volumes
from forewarn.drivers.libvirt.guests import LibvirtGuest, uuid_of
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.location import LocationSurvey
from forewarn.drivers.libvirt.problems import problem_of
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


def find_problems(hosts: LibvirtHosts, vms: Iterable[Vm], settings: LibvirtSettings) -> Iterator[str]:
    """Yield what keeps us from hosts, once each, and from machines that should run; then where room is scarce.

    No advice starts a machine that may run elsewhere.
    """
    looked_at = list(islice(vms, _LOOKED_AT))
    known = _hosts_of(hosts, looked_at)
    listings = location.list_all(hosts, [host for host in known if _EMBEDDED not in hosts.uri(host)])
    reached = listings.machines
    most, told = 0, set[str]()
    for vm in looked_at:
        host = hosts.called(vm.standing_on)
        try:
            if host in known and _EMBEDDED in hosts.uri(host):
                continue
            survey = listings.survey(vm.name, uuid_of(vm), host)
            if vm.deallocated:
                yield from _second_copies(hosts, vm, survey)
                continue
            if host not in reached:
                hosts.uri(host)  # raises where it has none
            if survey.silent and not survey.active:
                yield from _doubt(vm, host, survey)
                continue
            trouble = _location_problems(hosts, vm, host, survey)
            yield from trouble
            if trouble:
                continue
            guest = LibvirtGuest(hosts, vm)
            if hosts.uri(host) == _HERE:
                most = max(most, guest.memory)
            for path in _ephemeral(guest, settings):
                volumes.find(hosts, host, path)
        except ForewarnError as error:
            if str(error) not in told:
                told.add(str(error))
                yield str(error)
    yield from listings.silent.values()
    for host in reached:
        yield from _full_pools(hosts, host)
    if settings.evict == "save":
        yield from lack_of_room(SAVED, most)


def _hosts_of(hosts: LibvirtHosts, vms: Iterable[Vm]) -> list[str]:
    """Return the hosts that are configured, and those of machines that the pattern gives a URI; one for each URI."""
    found = {hosts.uri(host): host for host in hosts.names()}
    for vm in vms:
        host = hosts.called(vm.standing_on)
        if hosts.knows(host):
            found.setdefault(hosts.uri(host), host)
    return list(found.values())


def _doubt(vm: Vm, host: str, survey: LocationSurvey) -> Iterator[str]:
    """Yield that a machine may run on a host that is silent; where that is its own, the host's trouble says all."""
    if host not in survey.silent:
        silent = " and ".join(survey.silent)
        yield (
            f"{vm.name} does not run on {host}, and may run on {silent}, which cannot be asked;"
            " do not start it before that host answers"
        )


def _location_problems(hosts: LibvirtHosts, vm: Vm, host: str, survey: LocationSurvey) -> list[str]:
    """Return what is wrong with where a machine is, and the remedy."""
    place = survey.place(host)  # raises in doubt, with the remedy
    if place is None or not place.state.is_active:
        remedy = f"start it, or 'forewarn vm deallocate {vm.name}' if it is not to run"
        return [f"{vm.name} does not run on {host or 'its host'}; {remedy}", *_second_copies(hosts, vm, survey)]
    found = list(_second_copies(hosts, vm, survey))
    if place.host != host:
        found.append(
            f"{vm.name} is on {place.host}, and the fleet has it on {host}; a service that reaches both hosts follows"
            f" it by itself, else 'forewarn vm move {vm.name} {place.host} --record'"
        )
    elif not place.state.runs:
        found.append(
            f"{vm.name} is paused on {host}; 'virsh -c {shown_uri(hosts.uri(host))} resume {vm.name}' lets it go on"
        )
    return found


def _second_copies(hosts: LibvirtHosts, vm: Vm, survey: LocationSurvey) -> Iterator[str]:
    """Yield the hosts that define a machine beside the one where it is, with the command that removes that."""
    if len(survey.copies) < 2:
        return
    place = survey.place(hosts.called(vm.standing_on))
    for copy in survey.copies:
        if place and copy.host != place.host:
            virsh = f"virsh -c {shown_uri(hosts.uri(copy.host))}"
            stop = f"{virsh} destroy {vm.name} && " if copy.state.is_active else ""
            yield (
                f"{vm.name} is on {place.host}, and {copy.host} defines it too, so that it could be started twice;"
                f" remove that copy: '{stop}{virsh} undefine {vm.name}'"
            )


def _ephemeral(guest: LibvirtGuest, settings: LibvirtSettings) -> list[str]:
    disks = guest.disks() if settings.ephemeral_disks else {}
    return [disks[name] for name in settings.ephemeral_disks if name in disks]


def _full_pools(hosts: LibvirtHosts, host: str) -> Iterator[str]:
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
        yield str(problem_of(host, error, "its storage pools"))


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
