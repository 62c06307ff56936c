"""Redeploys machines: moves them to another host while they run, or starts them anew where they are.

    moving (to) ─▶ moved                              steps in the ledger, for each machine
    stopping (id) ─▶ emptying (disk) ─▶ emptied ─▶ started

Where a machine runs is asked of libvirt on both hosts, so that a crash on the way is no riddle: it is there, or here.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import libvirt

from forewarn.drivers.libvirt import volumes
from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.problems import Trouble, Unreachable, sentence, trouble
from forewarn.drivers.libvirt.rooms import Room, choose, say_no_room
from forewarn.drivers.libvirt.work import Work
from forewarn.node.driver import Done

_MIB = 1024 * 1024


def redeploy(work: Work) -> Done:
    """Move or restart the machines; raise Trouble when one can be neither."""
    for guest in work.guests:
        if _is_to_move(work, guest):
            _move(work, guest)
        else:
            work.see_through(partial(_restart, work, guest))
    return Done(work.moved, "; ".join(work.remarks))


def _is_to_move(work: Work, guest: Guest) -> bool:
    if work.page.step("moving", guest.name):
        return True
    if work.page.step("stopping", guest.name) or work.settings.redeploy == "restart" or work.impact.is_failure:
        return False
    return any(work.hosts.knows(berth.host.name) for berth in work.impact.berths) and guest.look().runs


def _move(work: Work, guest: Guest) -> None:
    begun = work.page.step("moving", guest.name)
    if begun is not None:
        work.await_job(guest)
        if guest.on(begun.seen["to"]).look().runs and not guest.look().runs:
            work.moved[guest.name] = begun.seen["to"]
            return
    target = _target(work, guest)
    work.page.note("moving", guest.name, to=target)
    try:
        _migrate(work, guest, target)
    except Trouble:
        _clean_up(guest, guest.on(target))
        raise
    work.page.note("moved", guest.name)
    work.moved[guest.name] = target


def _target(work: Work, guest: Guest) -> str:
    rooms, silent = [], []
    for berth in work.impact.berths:
        if work.hosts.knows(berth.host.name):
            try:
                rooms.append(Room(berth, _free(work, berth.host.name)))
            except Trouble as error:
                silent.append(str(error))
    needed = guest.memory
    room = choose(guest.vm, needed, rooms)
    if room is None:
        raise Trouble("; ".join([say_no_room(guest.vm, needed, rooms), *silent]))
    return room.host


def _free(work: Work, host: str) -> int:
    """Return the bytes that a machine may take on a host; what Linux uses as a cache is free."""
    connection = work.hosts.connection(host)
    try:
        try:
            told: Any = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
            free = sum(int(told.get(kind, 0)) for kind in ("free", "buffers", "cached")) * 1024
        except libvirt.libvirtError:
            free = int(connection.getFreeMemory())
    except libvirt.libvirtError as error:
        raise trouble(host, error, "free memory") from None
    return free - work.settings.spare_memory * _MIB


def _migrate(work: Work, guest: Guest, target: str) -> None:
    domain = guest.domain()
    flags = (
        libvirt.VIR_MIGRATE_LIVE
        | libvirt.VIR_MIGRATE_PERSIST_DEST
        | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
    )
    if work.settings.copy_disks:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
    parameters: Any = {}  # libvirt's own types are wrong here and above
    if work.settings.migration_uri:
        parameters[libvirt.VIR_MIGRATE_PARAM_URI] = work.settings.migration_uri.replace("{host}", target)
    try:
        if work.settings.peer_to_peer:
            uri, flags = work.hosts.uri(target), flags | libvirt.VIR_MIGRATE_PEER2PEER
            work.do_long(guest, lambda: _must(domain.migrateToURI3(uri, parameters, flags)), "moved")
        else:
            there = work.hosts.connection(target)
            work.do_long(guest, lambda: _must(domain.migrate3(there, parameters, flags)), "moved")
    except libvirt.libvirtError as error:
        # Whatever could not be reached was the other host's door for machines, not libvirt itself.
        raise Trouble(sentence(guest.host, error, f"{guest.name}: migration to {target}")) from None


def _must(_: object) -> None:
    """Take no answer: what went wrong is raised."""


def _clean_up(source: Guest, target: Guest) -> None:
    """Leave nothing half-defined where a machine did not arrive."""
    with suppress(Trouble):
        left = target.look()
        if source.look().is_there and left.is_there and left.id == -1:
            target.undefine()


def _restart(work: Work, guest: Guest) -> None:
    look = guest.look()
    stopping = work.page.step("stopping", guest.name)
    if stopping is None:
        if not look.is_there or not guest.is_persistent:
            guest.domain()
            raise Trouble(
                f"{guest.name} cannot be started anew: libvirt on {guest.host} does not keep its definition"
            )
        for path in _ephemeral(work, guest):
            volumes.find(work.hosts, guest.host, path)  # raises now, while the machine runs
        work.page.note("stopping", guest.name, id=str(look.id))
        stopping = work.page.step("stopping", guest.name)
    if stopping and look.id != -1 and str(look.id) != stopping.seen["id"]:
        return
    if look.id != -1:
        guest.destroy()
    if work.page.step("emptied", guest.name) is None:
        with _off(guest):
            for path in _ephemeral(work, guest):
                _empty(work, guest, path)
        work.page.note("emptied", guest.name)
    with _off(guest):
        guest.start()
    work.page.note("started", guest.name)


@contextmanager
def _off(guest: Guest) -> Iterator[None]:
    """Say of a machine that could not be started that it is off."""
    try:
        yield
    except Unreachable:
        raise
    except Trouble as error:
        raise Trouble(f"{error}; {guest.name} is off") from None


def _ephemeral(work: Work, guest: Guest) -> list[str]:
    disks = guest.disks()
    return [disks[name] for name in work.settings.ephemeral_disks if name in disks]


def _empty(work: Work, guest: Guest, path: str) -> None:
    """Make a disk anew; what it was like is written down before it is deleted."""
    step = f"emptying {path}"
    begun = work.page.step(step, guest.name)
    if begun is None:
        blank = volumes.find(work.hosts, guest.host, path)
        work.page.note(step, guest.name, pool=blank.pool, written=blank.written)
    else:
        blank = volumes.Blank(guest.host, path, begun.seen["pool"], begun.seen["written"])
    remark = volumes.make_anew(work.hosts, blank)
    if remark:
        work.remarks.append(remark)
