"""Reboots machines: asks them to go down by the power button and starts them anew; resets those that do not listen.

    asking ─▶ asked ─▶ starting ─▶ started            steps in the ledger, for each machine
    left off                                          it was off, and maintenance of its host does not start it
                └────▶ halting ─▶ resetting ─▶ reset  when its grace is over

Each way leaves a trace in libvirt itself, so that a crash on the way is no riddle. A machine that went down is off,
and after its start it has another id. One that is to be reset is paused first: as long as it is, a reset may be
repeated, for the guest cannot tell two from one; once it goes on, it was reset.

Only where a machine would lose something by being off, as one that libvirt does not keep, or where a host is silent
so that it could not be started again, it starts over without its process ending. That is an event of libvirt's and
nothing else: if nobody was connected when it came, nobody knows, and nothing is reset on suspicion.
"""

from datetime import datetime, timedelta

from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.places import Elsewhere
from forewarn.drivers.libvirt.problems import Trouble, Unreachable
from forewarn.drivers.libvirt.work import Work
from forewarn.node.driver import Done, Unknowable

_LEFT_OFF = "left off"


class Lost(Exception):
    """Nobody can tell whether a machine has started over."""


def reboot(work: Work) -> Done | Unknowable:
    """Reboot the machines, each once; raise Trouble when one cannot be."""
    return work.see_through(lambda: _reboot(work))


def _reboot(work: Work) -> Done | Unknowable:
    try:
        for guest in work.guests:
            if work.page.step("halting", guest.name):
                _reset(work, guest)
            else:
                _ask(work, guest)
        work.wait_until(lambda: _have_all_started_over(work), _until(work))
        for guest in work.guests:
            if not _has_started_over(work, guest):
                _give_up(work, guest)
    except Lost as error:
        return Unknowable(str(error))
    return Done(work.moved, "; ".join(work.remarks))


def _ask(work: Work, guest: Guest) -> None:
    """Ask a machine to go down, unless it was asked already."""
    page, look = work.page, guest.look()
    if any(page.step(name, guest.name) for name in ("asked", "starting", _LEFT_OFF)):
        return
    asking = page.step("asking", guest.name)
    if asking is None:
        if look.is_there and look.id == -1 and work.impact.leaves_off:
            page.note(_LEFT_OFF, guest.name)
            work.remarks.append(f"{guest.name} did not run and stays off")
            return
        if look.is_there and look.id == -1:
            work.remarks.append(f"{guest.name} did not run and was started")
            _start(work, guest)
            return
        definition = guest.definition()
        in_place = "" if guest.may_go_down(definition) and _may_be_started_again(work, guest) else "yes"
        seen = {"in_place": in_place, "definition": "" if in_place else definition}
        page.note("asking", guest.name, id=str(look.id), ear=guest.ear, reboots=str(guest.reboots), **seen)
        asking = page.step("asking", guest.name)
    elif asking.seen["in_place"] or str(look.id) != asking.seen["id"]:
        # The former may have been asked, and be up again: nobody asks it twice. The latter has gone down.
        page.note("asked", guest.name, at=work.clock.now().isoformat())
        return
    if look.is_paused:
        work.remarks.append(f"{guest.name} was paused and was reset")
        _reset(work, guest)
        return
    work.tell("asked to go down", guest.name)
    try:
        guest.ask_to_reboot() if asking and asking.seen["in_place"] else guest.ask_to_go_down()
    except Unreachable:
        raise
    except Trouble as error:
        # A machine without a power button.
        work.remarks.append(f"{error}; it was reset")
        _reset(work, guest)
    else:
        page.note("asked", guest.name, at=work.clock.now().isoformat())


def _may_be_started_again(work: Work, guest: Guest) -> bool:
    """Tell whether every host answers; else a machine that is down could not be started again, see places.py."""
    silent = work.silent_hosts()
    if silent:
        hosts = " and ".join(sorted(silent))
        work.remarks.append(f"{hosts} did not answer, so {guest.name} was rebooted without being off in between")
    return not silent


def _until(work: Work) -> float:
    """Return when the grace of the machine that was asked last is over."""
    asked = [step for guest in work.guests if (step := work.page.step("asked", guest.name))]
    last = max((datetime.fromisoformat(step.seen["at"]) for step in asked), default=work.clock.now())
    passed = max(work.clock.now() - last, timedelta())  # the clock may have been set back
    return work.deadline(work.settings.grace - passed)


def _have_all_started_over(work: Work) -> bool:
    # All are looked at, so that none stays off while another one takes its time.
    found = [_has_started_over(work, guest) for guest in work.guests]
    return all(found)


def _has_started_over(work: Work, guest: Guest) -> bool:
    """Tell whether a machine has; one that is off is started, and then it has."""
    page = work.page
    if any(page.step(name, guest.name) for name in ("started", "reset", _LEFT_OFF)):
        return True
    look = guest.look()
    if not look.is_there:
        copy = guest.find()
        if copy is None:
            guest.domain()  # raises: somebody took it away
        else:
            raise Elsewhere(f"somebody moved {guest.name} to {copy.host} while it was to be rebooted")
    if look.id == -1:
        _start(work, guest)
        return True
    asking = page.step("asking", guest.name)
    if asking is None:
        return page.step("starting", guest.name) is not None
    before = int(asking.seen["reboots"]) if guest.ear == asking.seen["ear"] else 0
    return str(look.id) != asking.seen["id"] or guest.reboots > before


def _start(work: Work, guest: Guest) -> None:
    """Start a machine that is off, as it was when it ran."""
    asking = work.page.step("asking", guest.name)
    definition = asking.seen["definition"] if asking else ""
    work.tell("starts", guest.name)
    work.page.note("starting", guest.name)
    try:
        if definition:
            guest.start_as(definition)
        else:
            guest.start()
    except (Unreachable, Elsewhere):
        raise
    except Trouble as error:
        if not definition:
            raise Trouble(f"{guest.name} is off: {error}") from None
        work.remarks.append(f"{guest.name} did not start as it was ({error}) and was started as it is defined")
        try:
            guest.start()
        except Trouble as again:
            raise Trouble(f"{guest.name} is off: {again}") from None
    work.page.note("started", guest.name)


def _give_up(work: Work, guest: Guest) -> None:
    """Reset a machine that did not listen."""
    asking = work.page.step("asking", guest.name)
    if asking and asking.seen["in_place"] and guest.ear != asking.seen["ear"]:
        raise Lost(f"{guest.name} was asked to reboot, and nobody listened all the time whether it did")
    work.remarks.append(f"{guest.name} did not go down within {work.settings.grace.total_seconds():g} s")
    _reset(work, guest)


def _reset(work: Work, guest: Guest) -> None:
    """Reset a machine, or find out that it was."""
    page, look = work.page, guest.look()
    resetting, halting = page.step("resetting", guest.name), page.step("halting", guest.name)
    is_halted = look.is_paused
    if page.step("reset", guest.name) or (halting and str(look.id) != halting.seen["id"]):
        return
    if resetting is None:
        if halting is None:
            page.note("halting", guest.name, id=str(look.id))
        is_halted = is_halted or _halt(guest)
        if not is_halted and _has_started_over(work, guest):
            return  # it went down at the last moment
        page.note("resetting", guest.name, is_halted="yes" if is_halted else "")
    elif not is_halted:
        if not resetting.seen["is_halted"]:
            raise Lost(f"nobody saw whether {guest.name} was reset")
        page.note("reset", guest.name)
        return
    work.tell("is reset", guest.name)
    if is_halted:
        work.insist(guest.reset)
        work.insist(lambda: guest.resume() if guest.look().is_paused else None)
    else:
        guest.reset()
    page.note("reset", guest.name)


def _halt(guest: Guest) -> bool:
    """Pause a machine; tell whether it could be."""
    try:
        guest.suspend()
    except Unreachable:
        raise
    except Trouble:
        return False
    return True
