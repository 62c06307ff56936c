"""Reboots machines: asks them to go down by the power button, and resets those that do not listen.

    marking ─▶ asked ─▶ (it starts over)                 steps in the ledger, for each machine
                 └────▶ resetting ─▶ reset               when its grace is over

A machine that was paused for a moment is marked: libvirt remembers that it "was unpaused" until it boots. So it can
be told, after any crash, whether a machine that was asked has started over since.
"""

from forewarn.drivers.ledger import Step
from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.problems import Trouble
from forewarn.drivers.libvirt.work import Work
from forewarn.node.driver import Done, Unknowable


class Lost(Exception):
    """Nobody can tell whether a machine was reset."""


def reboot(work: Work) -> Done | Unknowable:
    """Reboot the machines, each once; raise Trouble when one cannot be."""
    before = {guest.name: guest.reboots for guest in work.guests if guest.look().is_there}
    waiting = [guest for guest in work.guests if _ask(work, guest)]
    until = work.deadline(work.settings.grace)
    try:
        for guest in waiting:
            _see_through(work, guest, before.get(guest.name, 0), until)
    except Lost as error:
        return Unknowable(str(error))
    return Done(detail="; ".join(work.remarks))


def _ask(work: Work, guest: Guest) -> bool:
    """Ask a machine to start over, unless it was asked already; tell whether to wait for it."""
    page = work.page
    if page.step("reset", guest.name) or page.step("started", guest.name):
        return False
    if page.step("asked", guest.name) or page.step("resetting", guest.name):
        return True
    look = guest.look()
    marking = page.step("marking", guest.name)
    if look.is_there and not look.runs and not look.is_paused:
        guest.start()
        page.note("started", guest.name)
        work.remarks.append(f"{guest.name} did not run and was started")
        return False
    if marking is None:
        page.note("marking", guest.name, id=str(look.id))
    if not look.is_paused:
        guest.suspend()
    guest.resume()
    page.note("asked", guest.name, id=str(look.id))
    try:
        guest.ask_to_reboot()
    except Trouble as error:
        # A machine without a power button, or one that is just starting.
        work.remarks.append(str(error))
        _reset(work, guest)
        return False
    return True


def _see_through(work: Work, guest: Guest, reboots: int, until: float) -> None:
    asked = work.page.step("asked", guest.name)
    if work.page.step("resetting", guest.name):
        raise Lost(f"nobody saw whether {guest.name} was reset")
    if asked and not work.wait_until(lambda: _has_started_over(guest, asked, reboots), until):
        work.remarks.append(f"{guest.name} did not go down within {work.settings.grace.total_seconds():g} s")
        _reset(work, guest)


def _has_started_over(guest: Guest, asked: Step, reboots: int) -> bool:
    look = guest.look()
    if look.is_there and not look.runs and not look.is_paused and look.id == -1:
        # It went down, and libvirt was not there to start it over.
        guest.start()
        return True
    if str(look.id) != asked.seen["id"] or guest.reboots > reboots:
        return True
    return look.runs and not look.is_marked


def _reset(work: Work, guest: Guest) -> None:
    work.page.note("resetting", guest.name)
    guest.reset()
    work.page.note("reset", guest.name)
