"""Freezes machines: pauses them all, waits, lets them go on.

    freezing ─▶ frozen ─▶ thawed          steps in the ledger, for all machines together

After a crash a machine that is paused was paused by us, and goes on when its time is over; one that runs was either
not reached yet (before ``frozen``) or has gone on already (after it). No machine stays paused.
"""

from datetime import datetime, timedelta
from functools import partial

from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.problems import Trouble
from forewarn.drivers.libvirt.work import Work
from forewarn.node.driver import Done

UNANNOUNCED = 5


def freeze(work: Work) -> Done:
    """Freeze the machines for the announced seconds; raise Trouble when one cannot be."""
    if work.page.step("thawed"):
        return Done()
    try:
        _pause_all(work)
        work.closed.wait(_left(work))
    finally:
        # Whatever went wrong, and also when the service stops, no machine stays behind.
        _resume_all(work)
    work.page.note("thawed")
    return Done(detail="; ".join(work.remarks))


def _pause_all(work: Work) -> None:
    if work.page.step("frozen"):
        return
    for guest in work.guests:
        look = guest.look()
        if work.page.step("freezing", guest.name) is None:
            if not look.runs:
                work.remarks.append(f"{guest.name} did not run")
                continue
            work.page.note("freezing", guest.name, id=str(look.id))
        if look.runs:
            guest.suspend()
    work.page.note("frozen", at=work.clock.now().isoformat())


def _left(work: Work) -> float:
    frozen = work.page.step("frozen")
    if frozen is None:
        return 0.0
    seconds = work.impact.event.duration if work.impact.event.duration >= 0 else UNANNOUNCED
    ends_at = datetime.fromisoformat(frozen.seen["at"]) + timedelta(seconds=seconds)
    return max(0.0, (ends_at - work.clock.now()).total_seconds())


def _resume_all(work: Work) -> None:
    trouble: Trouble | None = None
    for guest in work.guests:
        try:
            work.insist(partial(_resume, work, guest))
        except Trouble as error:
            trouble = error
    if trouble:
        raise trouble


def _resume(work: Work, guest: Guest) -> None:
    frozen = work.page.step("freezing", guest.name)
    if frozen is None:
        return
    look = guest.look()
    if look.is_paused and str(look.id) == frozen.seen["id"]:
        guest.resume()
