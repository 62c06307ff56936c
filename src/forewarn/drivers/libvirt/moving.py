"""Redeploys machines: moves them to another host while they run, or restarts them on their host.

    moving (to) ─▶ resuming ─▶ moved, or refused      recorded steps, for each machine; off ones stay off
    stopping (id) ─▶ emptying (disk) ─▶ emptied ─▶ started

After a crash both hosts are queried for the machine, so its location is known.
"""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import libvirt

from forewarn.core.model import Operation
from forewarn.drivers.candidates import explain_no_candidate
from forewarn.drivers.executor import WorkInterrupted, join_details
from forewarn.drivers.libvirt import volumes
from forewarn.drivers.libvirt.capacity import (
    HostOption,
    Reservation,
    choose_host,
    explain_no_host,
    read_free_capacity,
)
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.location import DomainState
from forewarn.drivers.libvirt.problems import DomainAbsent, LibvirtProblem, LibvirtUnreachable, describe
from forewarn.drivers.libvirt.work import LibvirtWork
from forewarn.drivers.progress_store import WorkStep
from forewarn.node.driver import CandidateHost, ImpactDone

UNDO_TIMEOUT = 30.0
"""Seconds that libvirt may need to end a migration after its client was killed."""
REPEAT_EVERY = 0.5


def redeploy(work: LibvirtWork) -> ImpactDone:
    """Move the machines concurrently, or restart them; raise LibvirtProblem if one can be neither.

    A machine that cannot be moved does not affect the others.
    """
    to_move = [guest for guest in work.guests if not _is_settled(work, guest) and _is_to_move(work, guest)]
    failures: dict[str, str] = {}
    with ThreadPoolExecutor(max(1, len(to_move)), thread_name_prefix="libvirt-move") as threads:
        moves = {guest.name: threads.submit(work.run_resumable, partial(_move, work, guest)) for guest in to_move}
    for name, move in moves.items():
        try:
            move.result()
        except LibvirtProblem as error:
            failures[name] = str(error)
    for guest in work.guests:
        if guest.name in moves or _is_settled(work, guest):
            continue
        planned = work.impact.event.target or work.impact.event.placements.get(guest.name, "")
        if planned and not work.impact.candidates_for(guest.vm):
            failures[guest.name] = explain_no_candidate(guest.vm, work.impact.event)
        elif planned:
            failures[guest.name] = (
                f"{guest.name} cannot be moved to {planned}: it does not run, or libvirt on {planned} is not among "
                "the hosts of the driver's settings"
            )
        elif work.impact.leaves_off and not work.progress_file.step("stopping", guest.name) and guest.is_off():
            work.remarks.append(f"{guest.name} did not run and stays off")
        else:
            work.run_resumable(partial(_restart, work, guest))
    if failures:
        raise LibvirtProblem(join_details(failures, len(work.guests)))
    return ImpactDone(work.moved, "; ".join(work.remarks))


def _is_settled(work: LibvirtWork, guest: LibvirtGuest) -> bool:
    """Return whether another client has already moved a machine to its target."""
    target = work.impact.event.target
    if work.moved.get(guest.name, "") == target != "":
        return True
    is_settled = work.impact.is_failure and guest.name in work.moved and guest.state().runs
    remark = f"{guest.name} runs on {guest.host} and was not changed"
    if is_settled and remark not in work.remarks:
        work.remarks.append(remark)
    return is_settled


def _is_to_move(work: LibvirtWork, guest: LibvirtGuest) -> bool:
    if work.progress_file.step("moving", guest.name):
        return True
    if (
        work.progress_file.step("stopping", guest.name)
        or work.settings.redeploy == "restart"
        or work.impact.is_failure
    ):
        return False
    may_move = guest.state().runs or (work.impact.leaves_off and guest.is_off())
    return may_move and any(work.hosts.knows(host) for host in _candidates(work, guest))


def _candidates(work: LibvirtWork, guest: LibvirtGuest) -> dict[str, CandidateHost]:
    return {
        candidate.host.name: candidate
        for candidate in work.impact.candidates_for(guest.vm)
        if candidate.host.name != guest.host
    }


def _move(work: LibvirtWork, guest: LibvirtGuest) -> None:
    begun = work.progress_file.step("moving", guest.name)
    if begun is not None:
        guest.stay(guest.host, begun.seen.get("uuid", ""))
        if _has_arrived(work, guest, begun):
            return
        if failed := work.progress_file.step("refused", guest.name):
            raise LibvirtProblem(failed.seen["reason"])
    with work.slots.taken(work.closed, partial(work.tell, vm=guest.name)), ExitStack() as parts:
        target = _reserve(work, guest)
        parts.callback(work.reservations.release, guest.uuid)
        if begun is not None and begun.seen["to"] == target:
            had = begun.seen.get("had", "")  # what is there now may be what the interrupted migration left
        else:
            had = "yes" if guest.on(target).state().is_defined else ""
        off = "yes" if guest.is_off() else ""
        may_run = "yes" if work.settings.post_copy is not None else ""
        work.progress_file.note("moving", guest.name, to=target, uuid=guest.uuid, had=had, off=off, may_run=may_run)
        try:
            _migrate(work, guest, target, is_repeated=begun is not None)
        except LibvirtProblem as error:
            # libvirt may have done it, or half of it, despite the error: query both hosts until they answer.
            work.progress_file.note("refused", guest.name, reason=str(error))
            is_refused = True
        else:
            is_refused = False
    if is_refused:
        _move(work, guest)
        return
    work.moved[guest.name] = target
    begun = work.progress_file.step("moving", guest.name)
    if not off:
        work.progress_file.note("resuming", guest.name)
        work.retry(guest.on(target).resume)
    try:
        # libvirt reports success also if the source host could not be updated.
        work.retry(lambda: _must(begun and _has_arrived(work, guest, begun)))
    except LibvirtUnreachable as error:
        work.remarks.append(f"{guest.name} may still be defined on {guest.host}, see 'forewarn doctor': {error}")


def _has_arrived(work: LibvirtWork, guest: LibvirtGuest, begun: WorkStep) -> bool:
    """Return whether a machine is on the target host; leave it defined on one host only, and resume it there.

    libvirt does not resume it on the target, so until "resuming" is recorded it has run on the source only; with
    post-copy it may have run on the target too, and an ambiguous state is left as it is.
    """
    source, target, progress_file = guest, guest.on(begun.seen["to"]), work.progress_file
    had = begun.seen.get("had", "")
    work.await_job(source)
    work.await_job(target)
    here, there = source.state(), target.state()
    if begun.seen.get("off") and not here.is_active and not there.is_active:
        return _has_gone_over(work, source, target, is_there=there.is_defined and not (had and here.is_defined))
    both = f"{guest.name} is on {source.host} and {target.host} after an interrupted migration; "
    if here.runs and there.runs:
        raise LibvirtProblem(f"{both}it runs on both: stop it with 'virsh destroy' where it must not run")
    if not here.runs and (there.runs or (there.is_paused and not there.is_migrating)):
        if progress_file.step("resuming", guest.name) is None:
            progress_file.note("resuming", guest.name)
        return _has_gone_over(work, source, target)
    if progress_file.step("resuming", guest.name):
        raise LibvirtProblem(f"{guest.name} was moved to {target.host} but does not run there")
    if begun.seen.get("may_run") and not here.runs:
        raise LibvirtProblem(f"{both}it runs on neither: check both with virsh domstate {guest.name} --reason")
    if there.is_defined and not had and (there.is_migrating or not there.is_active):
        _remove_stale(target)
    if here.is_migrating:
        source.resume()
    if not source.state().runs:
        raise LibvirtProblem(f"{guest.name} does not run on {source.host} after an interrupted migration")
    return False


def _has_gone_over(work: LibvirtWork, source: LibvirtGuest, target: LibvirtGuest, *, is_there: bool = True) -> bool:
    """Undefine a machine on the source once it is on the target; return whether it is."""
    if is_there:
        _remove_stale(source, keeps=not target.is_persistent)
        if target.state().is_paused:
            work.retry(target.resume)
        work.moved[source.name] = target.host
        work.progress_file.note("moved", source.name)
    return is_there


def _remove_stale(guest: LibvirtGuest, *, keeps: bool = False) -> None:
    """Remove the copy that a migration left on a host; keep a definition that no other host has."""
    if guest.state().is_active:
        guest.destroy()
    if not keeps:
        with suppress(DomainAbsent):
            guest.undefine()


def _reserve(work: LibvirtWork, guest: LibvirtGuest) -> str:
    """Choose the target host, and reserve capacity there until the migration has ended."""
    memory, cpus = (0, 0) if guest.is_off() else (guest.memory, guest.cpus)
    while True:
        changes, others = work.reservations.current()
        target = _target(work, guest, memory, cpus, others)
        reservation = Reservation(guest.uuid, guest.name, target, memory, cpus, guest.percent_done)
        if work.reservations.reserve(reservation, changes):
            return target


def _target(work: LibvirtWork, guest: LibvirtGuest, memory: int, cpus: int, others: Iterable[Reservation]) -> str:
    options, silent = [], []
    for host, candidate in _candidates(work, guest).items():
        if work.hosts.knows(host):
            try:
                coming = (each for each in others if each.host == host)
                left = read_free_capacity(work.hosts, work.settings, host).after(coming)
                options.append(HostOption(candidate, left.memory, left.cpus))
            except LibvirtProblem as error:
                silent.append(str(error))
    if not options and not silent:
        raise LibvirtProblem(explain_no_candidate(guest.vm, work.impact.event))
    option = choose_host(guest.vm, memory, options, cpus)
    if option is None:
        raise LibvirtProblem("; ".join([explain_no_host(guest.vm, memory, options, cpus), *silent]))
    return option.host


def _migrate(work: LibvirtWork, guest: LibvirtGuest, target: str, *, is_repeated: bool) -> None:
    """Migrate a machine; for some time again and again if an earlier process was killed while it migrated it.

    libvirt may still be preparing or undoing that migration, and refuses another one until it has ended.
    """
    until = time.monotonic() + (UNDO_TIMEOUT if is_repeated else 0.0)
    while True:
        try:
            return _migrate_once(work, guest, target)
        except LibvirtProblem:
            begun = work.progress_file.step("moving", guest.name)
            if time.monotonic() >= until or begun is None:
                raise
            if work.closed.wait(REPEAT_EVERY):
                raise WorkInterrupted from None
            with suppress(LibvirtProblem):  # a state that does not last; if it does, the end of the work reports it
                if _has_arrived(work, guest, begun):
                    return None


def _migrate_once(work: LibvirtWork, guest: LibvirtGuest, target: str) -> None:
    domain = guest.domain()
    flags = (
        libvirt.VIR_MIGRATE_LIVE
        | libvirt.VIR_MIGRATE_PERSIST_DEST
        | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        | libvirt.VIR_MIGRATE_ABORT_ON_ERROR
        # Else a libvirt daemon that dies at the end may leave the machine running on both hosts.
        | libvirt.VIR_MIGRATE_PAUSED
    )
    if guest.is_off():
        # Only its definition moves; it stays off.
        flags = libvirt.VIR_MIGRATE_OFFLINE | libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
        work.remarks.append(f"{guest.name} did not run and stays off")
    elif work.settings.copy_disks:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
    parameters: Any = {}  # libvirt's type annotations are wrong here and above
    if work.settings.migration_uri:
        parameters[libvirt.VIR_MIGRATE_PARAM_URI] = work.settings.migration_uri.replace("{host}", target)
    if not guest.is_off():
        flags, parameters = _tuned(work, flags, parameters)
    late, hurry = work.settings.post_copy, guest.start_post_copy
    try:
        if work.settings.peer_to_peer:
            uri, flags = work.hosts.uri(target), flags | libvirt.VIR_MIGRATE_PEER2PEER
            work.do_long(guest, lambda: _must(domain.migrateToURI3(uri, parameters, flags)), "moved", late, hurry)
        else:
            there = work.hosts.connection(target)
            work.do_long(guest, lambda: _must(domain.migrate3(there, parameters, flags)), "moved", late, hurry)
    except libvirt.libvirtError as error:
        # The migration endpoint of the target could not be reached, not libvirt itself.
        raise LibvirtProblem(describe(guest.host, error, f"{guest.name}: migration to {target}")) from None


def _tuned(work: LibvirtWork, flags: int, parameters: dict[str, object]) -> tuple[int, dict[str, object]]:
    """Add bandwidth and post-copy options for a running machine."""
    if work.settings.bandwidth:
        parameters = {**parameters, libvirt.VIR_MIGRATE_PARAM_BANDWIDTH: work.settings.bandwidth}
    if work.settings.post_copy is not None:
        # It runs on the target before all of its memory is there.
        flags = (flags | libvirt.VIR_MIGRATE_POSTCOPY) & ~libvirt.VIR_MIGRATE_PAUSED
    return flags, parameters


def _must(_: object) -> None:
    """Ignore the result: errors are raised."""


def _restart(work: LibvirtWork, guest: LibvirtGuest) -> None:
    state = guest.state()
    stopping = work.progress_file.step("stopping", guest.name)
    if stopping is None:
        if work.impact.event.operation is Operation.VM_FAIL and _has_process(state):
            # The process that was observed has ended: another client has started this one since.
            found = "runs" if state.runs else "is paused"
            work.remarks.append(f"{guest.name} {found}: another client of libvirt started it, and it was left alone")
            return
        if not state.is_defined or not guest.is_persistent:
            guest.domain()
            raise LibvirtProblem(
                f"{guest.name} cannot be restarted: libvirt on {guest.host} does not keep its definition"
            )
        for path in _ephemeral(work, guest):
            volumes.find(work.hosts, guest.host, path)  # raises now, while the machine runs
        if silent := work.silent_hosts():
            raise LibvirtUnreachable(
                f"{guest.name} was not stopped, because it could not be started again: {'; '.join(silent.values())}"
            )
        work.progress_file.note("stopping", guest.name, id=str(state.id))
        stopping = work.progress_file.step("stopping", guest.name)
    if stopping and state.id != -1 and str(state.id) != stopping.seen["id"]:
        return
    if state.id != -1:
        guest.destroy()
    if work.progress_file.step("emptied", guest.name) is None:
        guest.require_off()  # else a disk could be recreated that the machine uses on another host
        with _off(guest):
            for path in _ephemeral(work, guest):
                _empty(work, guest, path)
        work.progress_file.note("emptied", guest.name)
    with _off(guest):
        guest.start()
    work.progress_file.note("started", guest.name)


def _has_process(state: DomainState) -> bool:
    """Return whether a machine runs or is about to: libvirt shows one that it is just starting as paused."""
    return state.runs or (state.is_paused and state.reason != libvirt.VIR_DOMAIN_PAUSED_CRASHED)


@contextmanager
def _off(guest: LibvirtGuest) -> Iterator[None]:
    """Add to errors that the machine is off."""
    try:
        yield
    except LibvirtUnreachable:
        raise
    except LibvirtProblem as error:
        raise LibvirtProblem(f"{error}; {guest.name} is off") from None


def _ephemeral(work: LibvirtWork, guest: LibvirtGuest) -> list[str]:
    disks = guest.disks()
    return [disks[name] for name in work.settings.ephemeral_disks if name in disks]


def _empty(work: LibvirtWork, guest: LibvirtGuest, path: str) -> None:
    """Recreate a disk; its description is recorded before it is deleted."""
    step = f"emptying {path}"
    begun = work.progress_file.step(step, guest.name)
    if begun is None:
        blank = volumes.find(work.hosts, guest.host, path)
        work.progress_file.note(step, guest.name, pool=blank.pool, written=blank.written)
    else:
        blank = volumes.EmptyVolume(guest.host, path, begun.seen["pool"], begun.seen["written"])
    remark = volumes.make_anew(work.hosts, blank)
    if remark:
        work.remarks.append(remark)
