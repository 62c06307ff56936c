"""Freezes machines: pauses all of them, waits, resumes them.

    freezing ─▶ frozen ─▶ thawed          recorded steps, for all machines together

After a crash a paused machine was paused by this driver and is resumed when its time is over; a running one was
either not paused yet (before ``frozen``) or has been resumed (after it). No machine stays paused: one that another
client migrates meanwhile is resumed on its new host after the migration.
"""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from forewarn.drivers.executor import WorkInterrupted
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.location import DomainState
from forewarn.drivers.libvirt.problems import LibvirtProblem, LibvirtUnreachable
from forewarn.drivers.libvirt.work import LibvirtWork
from forewarn.node.driver import ImpactDone

UNANNOUNCED = 5


def freeze(work: LibvirtWork) -> ImpactDone:
    """Freeze the machines for the announced duration; raise LibvirtProblem if one cannot be frozen."""
    if work.progress_file.step("thawed"):
        return ImpactDone(work.moved)
    try:
        work.find_guests()
        _pause_all(work)
        work.closed.wait(_left(work))
    finally:
        # Whatever went wrong, and also if the service stops, no machine stays paused.
        _resume_all(work)
    work.progress_file.note("thawed")
    return ImpactDone(work.moved, "; ".join(work.remarks))


def _pause_all(work: LibvirtWork) -> None:
    if work.progress_file.step("frozen"):
        return
    for guest in work.guests:
        state = guest.state()
        if work.progress_file.step("freezing", guest.name) is None:
            if not state.runs:
                work.remarks.append(f"{guest.name} did not run")
                continue
            work.progress_file.note("freezing", guest.name, id=str(state.id), uuid=guest.uuid, host=guest.host)
        if state.runs:
            guest.suspend()
    work.progress_file.note("frozen", at=work.clock.now().isoformat())


def _left(work: LibvirtWork) -> float:
    frozen = work.progress_file.step("frozen")
    if frozen is None:
        return 0.0
    seconds = work.impact.event.duration if work.impact.event.duration >= 0 else UNANNOUNCED
    ends_at = datetime.fromisoformat(frozen.seen["at"]) + timedelta(seconds=seconds)
    left = (ends_at - work.clock.now()).total_seconds()
    return min(max(0.0, left), seconds)  # a clock that was set back must not keep a guest frozen


def _resume_all(work: LibvirtWork) -> None:
    problem: LibvirtProblem | WorkInterrupted | None = None
    # A guest under migration cannot be resumed before the migration is over; resume the others first.
    for guest in sorted(work.guests, key=LibvirtGuest.is_migrating):
        try:
            work.retry(partial(_resume, work, guest))
        except (LibvirtProblem, WorkInterrupted) as error:
            problem = problem if isinstance(problem, WorkInterrupted) else error
    if problem:
        raise problem


def _resume(work: LibvirtWork, guest: LibvirtGuest) -> None:
    frozen = work.progress_file.step("freezing", guest.name)
    if frozen is None:
        return
    until = work.deadline(work.settings.longest)
    while True:
        work.wait_until(lambda: not guest.is_migrating(), until)
        if not _is_still_frozen(work, guest, frozen.seen):
            return
        try:
            guest.resume()
        except LibvirtUnreachable:
            raise
        except LibvirtProblem:
            # Another client may have started a migration just before.
            is_moving = guest.is_migrating() or not guest.state().is_active
            if not is_moving or time.monotonic() >= until:
                raise
        else:
            return


def _is_still_frozen(work: LibvirtWork, guest: LibvirtGuest, seen: Mapping[str, str]) -> bool:
    """Return whether a guest is paused by this event, on its current host."""
    frozen_on = seen.get("host", guest.host)
    state = guest.state()
    if not state.is_active:
        # Another client may have migrated it while it was paused; then it is paused there too.
        guest.stay(guest.host, seen.get("uuid", ""))
        copy = guest.find()
        state = copy.state if copy else DomainState()
    if guest.host == frozen_on:
        return state.is_paused and str(state.id) == seen["id"]
    work.moved[guest.name] = guest.host
    return state.is_paused
