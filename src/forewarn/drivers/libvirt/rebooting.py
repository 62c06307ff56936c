"""Reboots machines: asks them to go down by the power button, and resets those that do not listen.

    asked ─▶ (libvirt tells that it starts over)          steps in the ledger, for each machine
      └────▶ resetting ─▶ reset                           when its grace is over

That a machine started over is an event of libvirt's, heard as long as we are connected. Where nobody was connected
all the time since it was asked, and nothing else tells, it is not reset on suspicion: nobody knows.
"""

from forewarn.drivers.ledger import Step
from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.problems import Trouble
from forewarn.drivers.libvirt.work import Work
from forewarn.node.driver import Done, Unknowable


class Lost(Exception):
    """Nobody can tell whether a machine has started over."""


def reboot(work: Work) -> Done | Unknowable:
    """Reboot the machines, each once; raise Trouble when one cannot be."""
    for guest in work.guests:
        _ask(work, guest)
    until = work.deadline(work.settings.grace)
    try:
        for guest in work.guests:
            _see_through(work, guest, until)
    except Lost as error:
        return Unknowable(str(error))
    return Done(detail="; ".join(work.remarks))


def _ask(work: Work, guest: Guest) -> None:
    """Ask a machine to start over, unless it was asked already."""
    page = work.page
    if page.step("asked", guest.name) or page.step("started", guest.name):
        return
    look = guest.look()
    if look.is_there and look.id == -1:
        guest.start()
        page.note("started", guest.name)
        work.remarks.append(f"{guest.name} did not run and was started")
        return
    page.note("asked", guest.name, id=str(look.id), ear=guest.ear, reboots=str(guest.reboots))
    try:
        guest.ask_to_reboot()
    except Trouble as error:
        # A machine without a power button, or one that is paused.
        work.remarks.append(str(error))
        _reset(work, guest)


def _see_through(work: Work, guest: Guest, until: float) -> None:
    asked = work.page.step("asked", guest.name)
    if asked is None or work.page.step("reset", guest.name):
        return
    if work.page.step("resetting", guest.name):
        raise Lost(f"nobody saw whether {guest.name} was reset")
    if work.wait_until(lambda: _has_started_over(guest, asked), until):
        return
    seconds = f"{work.settings.grace.total_seconds():g} s"
    if guest.ear != asked.seen["ear"]:
        raise Lost(f"{guest.name} was asked to reboot, and nobody listened all the time whether it did")
    work.remarks.append(f"{guest.name} did not go down within {seconds}")
    _reset(work, guest)


def _has_started_over(guest: Guest, asked: Step) -> bool:
    look = guest.look()
    if look.is_there and look.id == -1:
        # It went down, and libvirt was not there to start it over.
        guest.start()
        return True
    before = int(asked.seen["reboots"]) if guest.ear == asked.seen["ear"] else 0
    return str(look.id) != asked.seen["id"] or guest.reboots > before


def _reset(work: Work, guest: Guest) -> None:
    work.page.note("resetting", guest.name)
    guest.reset()
    work.page.note("reset", guest.name)
