"""Checks of libvirt: whether it answers on every host, has the machines, and has enough storage."""

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

_CHECKED = 1_000
"""Number of machines that are checked."""
_EMBEDDED = ":///embed"
"""Such a libvirt runs inside the service process; no other process can connect to it."""
_HERE, SAVED = "qemu:///system", "/var/lib/libvirt/qemu/save"
"""The local libvirt, and where it saves memory; free space of other hosts is unknown."""
_FULL = 0.01
"""Share of free space below which a storage pool counts as full."""
_MIB = 1024 * 1024


def find_problems(hosts: LibvirtHosts, vms: Iterable[Vm], settings: LibvirtSettings) -> Iterator[str]:
    """Yield problems with hosts, once each, with machines that should run, and with storage.

    No advice starts a machine that may be running elsewhere.
    """
    checked = list(islice(vms, _CHECKED))
    known = _hosts_of(hosts, checked)
    listings = location.list_all(hosts, [host for host in known if _EMBEDDED not in hosts.uri(host)])
    reached = listings.machines
    most, reported = 0, set[str]()
    for vm in checked:
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
            problems = _location_problems(hosts, vm, host, survey)
            yield from problems
            if problems:
                continue
            guest = LibvirtGuest(hosts, vm)
            if hosts.uri(host) == _HERE:
                most = max(most, guest.memory)
            for path in _ephemeral(guest, settings):
                volumes.find(hosts, host, path)
        except ForewarnError as error:
            if str(error) not in reported:
                reported.add(str(error))
                yield str(error)
    yield from listings.silent.values()
    for host in reached:
        yield from _full_pools(hosts, host)
    if settings.evict == "save":
        yield from lack_of_room(SAVED, most)


def _hosts_of(hosts: LibvirtHosts, vms: Iterable[Vm]) -> list[str]:
    """Return the configured hosts, and hosts of machines with a URI from the pattern; one for each URI."""
    found = {hosts.uri(host): host for host in hosts.names()}
    for vm in vms:
        host = hosts.called(vm.standing_on)
        if hosts.knows(host):
            found.setdefault(hosts.uri(host), host)
    return list(found.values())


def _doubt(vm: Vm, host: str, survey: LocationSurvey) -> Iterator[str]:
    """Yield that a machine may run on a host that does not answer; for its own host that error says enough."""
    if host not in survey.silent:
        silent = " and ".join(survey.silent)
        yield (
            f"{vm.name} does not run on {host}, and may run on {silent}, which does not answer;"
            " do not start it before that host answers"
        )


def _location_problems(hosts: LibvirtHosts, vm: Vm, host: str, survey: LocationSurvey) -> list[str]:
    """Return problems with the location of a machine, with remedies."""
    place = survey.place(host)  # raises if the location is ambiguous, with the remedy
    if place is None or not place.state.is_active:
        remedy = f"start it, or 'forewarn vm deallocate {vm.name}' if it is not to run"
        return [f"{vm.name} does not run on {host or 'its host'}; {remedy}", *_second_copies(hosts, vm, survey)]
    found = list(_second_copies(hosts, vm, survey))
    if place.host != host:
        found.append(
            f"{vm.name} is on {place.host}, but the fleet has it on {host}; a service that reaches both hosts records"
            f" the move itself, else run 'forewarn vm move {vm.name} {place.host} --record'"
        )
    elif not place.state.runs:
        found.append(
            f"{vm.name} is paused on {host}; 'virsh -c {shown_uri(hosts.uri(host))} resume {vm.name}' resumes it"
        )
    return found


def _second_copies(hosts: LibvirtHosts, vm: Vm, survey: LocationSurvey) -> Iterator[str]:
    """Yield hosts that define a machine beside its real host, with the command that removes the copy."""
    if len(survey.copies) < 2:
        return
    place = survey.place(hosts.called(vm.standing_on))
    for copy in survey.copies:
        if place and copy.host != place.host:
            virsh = f"virsh -c {shown_uri(hosts.uri(copy.host))}"
            stop = f"{virsh} destroy {vm.name} && " if copy.state.is_active else ""
            yield (
                f"{vm.name} is on {place.host}, but {copy.host} defines it too, so it could be started twice;"
                f" remove that copy: '{stop}{virsh} undefine {vm.name}'"
            )


def _ephemeral(guest: LibvirtGuest, settings: LibvirtSettings) -> list[str]:
    disks = guest.disks() if settings.ephemeral_disks else {}
    return [disks[name] for name in settings.ephemeral_disks if name in disks]


def _full_pools(hosts: LibvirtHosts, host: str) -> Iterator[str]:
    try:
        for pool in hosts.connection(host).listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
            with suppress(libvirt.libvirtError):
                pool.refresh()  # a busy pool reports its last known values
            _, capacity, _, available = map(int, pool.info())
            if available < capacity * _FULL:
                yield (
                    f"storage pool {pool.name()} on {host} is full: {available // _MIB} of {capacity // _MIB} MiB"
                    " are free; free some space there, or machines will stop when they write"
                )
    except libvirt.libvirtError as error:
        yield str(problem_of(host, error, "its storage pools"))


def lack_of_room(path: str, needed: int) -> Iterator[str]:
    """Yield a problem if a machine of this size could not be saved."""
    free = _free(Path(path))
    if free is not None and free < needed:
        yield (
            f"{path} has {free // _MIB} MiB free, but saving an evicted machine needs"
            f' {needed // _MIB} MiB; free some space there, or set evict = "stop"'
        )


def _free(path: Path) -> int | None:
    """Return the free bytes at a path, or of its parent if access is denied; None if it does not exist."""
    for place in (path, *path.parents):
        try:
            return shutil.disk_usage(place).free
        except PermissionError:
            continue
        except OSError:
            return None
    return None
