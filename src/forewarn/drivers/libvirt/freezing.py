"""Freezes machines: pauses them all, waits, lets them go on.

    freezing ─▶ frozen ─▶ thawed          steps in the ledger, for all machines together

After a crash a machine that is paused was paused by us, and goes on when its time is over; one that runs was either
not reached yet (before ``frozen``) or has gone on already (after it). No machine stays paused: one that another
client migrates meanwhile is resumed on its new host, when the migration is over.
"""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.places import Look
from forewarn.drivers.libvirt.problems import Trouble, Unreachable
from forewarn.drivers.libvirt.work import Work
from forewarn.drivers.working import Interrupted
from forewarn.node.driver import Done

UNANNOUNCED = 5


def freeze(work: Work) -> Done:
    """Freeze the machines for the announced seconds; raise Trouble when one cannot be."""
    if work.page.step("thawed"):
        return Done(work.moved)
    try:
        work.find_guests()
        _pause_all(work)
        work.closed.wait(_left(work))
    finally:
        # Whatever went wrong, and also when the service stops, no machine stays behind.
        _resume_all(work)
    work.page.note("thawed")
    return Done(work.moved, "; ".join(work.remarks))


def _pause_all(work: Work) -> None:
    if work.page.step("frozen"):
        return
    for guest in work.guests:
        look = guest.look()
        if work.page.step("freezing", guest.name) is None:
            if not look.runs:
                work.remarks.append(f"{guest.name} did not run")
                continue
            work.page.note("freezing", guest.name, id=str(look.id), uuid=guest.uuid, host=guest.host)
        if look.runs:
            guest.suspend()
    work.page.note("frozen", at=work.clock.now().isoformat())


def _left(work: Work) -> float:
    frozen = work.page.step("frozen")
    if frozen is None:
        return 0.0
    seconds = work.impact.event.duration if work.impact.event.duration >= 0 else UNANNOUNCED
    ends_at = datetime.fromisoformat(frozen.seen["at"]) + timedelta(seconds=seconds)
    left = (ends_at - work.clock.now()).total_seconds()
    return min(max(0.0, left), seconds)  # a clock that was set back must not keep a guest frozen


def _resume_all(work: Work) -> None:
    problem: Trouble | Interrupted | None = None
    # A guest under migration cannot be resumed before the migration is over; the others do not wait for it.
    for guest in sorted(work.guests, key=Guest.is_migrating):
        try:
            work.insist(partial(_resume, work, guest))
        except (Trouble, Interrupted) as error:
            problem = problem if isinstance(problem, Interrupted) else error
    if problem:
        raise problem


def _resume(work: Work, guest: Guest) -> None:
    frozen = work.page.step("freezing", guest.name)
    if frozen is None:
        return
    until = work.deadline(work.settings.longest)
    while True:
        work.wait_until(lambda: not guest.is_migrating(), until)
        if not _is_still_frozen(work, guest, frozen.seen):
            return
        try:
            guest.resume()
        except Unreachable:
            raise
        except Trouble:
            # Another client may have begun to migrate it just before.
            is_moving = guest.is_migrating() or not guest.look().is_active
            if not is_moving or time.monotonic() >= until:
                raise
        else:
            return


def _is_still_frozen(work: Work, guest: Guest, seen: Mapping[str, str]) -> bool:
    """Tell whether a guest is paused by this event, on the host where it is now."""
    frozen_on = seen.get("host", guest.host)
    look = guest.look()
    if not look.is_active:
        # Another client may have migrated it while it was paused; then it is paused there too.
        guest.stay(guest.host, seen.get("uuid", ""))
        copy = guest.find()
        look = copy.look if copy else Look()
    if guest.host == frozen_on:
        return look.is_paused and str(look.id) == seen["id"]
    work.moved[guest.name] = guest.host
    return look.is_paused
