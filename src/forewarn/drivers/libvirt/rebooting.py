"""Reboots machines: shuts them down by the power button and starts them again; resets those that do not react.

    asking ─▶ asked ─▶ starting ─▶ started            recorded steps, for each machine
    left off                                          it was off, and host maintenance does not start it
                └────▶ halting ─▶ resetting ─▶ reset  when its grace time is over

Each way leaves a trace in libvirt itself, so the state after a crash is known. A machine that shut down is off, and
after its start it has another id. A machine to be reset is paused first: while paused, a reset may be repeated,
because the guest cannot distinguish two resets from one; once it is resumed, it was reset.

If a machine would lose something by being off (libvirt does not keep its definition), or a host does not answer so
that it could not be started again, it reboots without its process ending. Only a libvirt event shows that: without a
connection at that moment the result is unknown, and nothing is reset on suspicion.
"""

from datetime import datetime, timedelta

from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.location import ActiveElsewhere
from forewarn.drivers.libvirt.problems import LibvirtProblem, LibvirtUnreachable
from forewarn.drivers.libvirt.work import LibvirtWork
from forewarn.node.driver import ImpactDone, ImpactUnknown

_LEFT_OFF = "left off"


class RebootUnknown(Exception):
    """It is unknown whether a machine has rebooted."""


def reboot(work: LibvirtWork) -> ImpactDone | ImpactUnknown:
    """Reboot the machines, each once; raise LibvirtProblem if one cannot be rebooted."""
    return work.run_resumable(lambda: _reboot(work))


def _reboot(work: LibvirtWork) -> ImpactDone | ImpactUnknown:
    try:
        for guest in work.guests:
            if work.progress_file.step("halting", guest.name):
                _reset(work, guest)
            else:
                _ask(work, guest)
        work.wait_until(lambda: _have_all_started_over(work), _until(work))
        for guest in work.guests:
            if not _has_started_over(work, guest):
                _give_up(work, guest)
    except RebootUnknown as error:
        return ImpactUnknown(str(error))
    return ImpactDone(work.moved, "; ".join(work.remarks))


def _ask(work: LibvirtWork, guest: LibvirtGuest) -> None:
    """Ask a machine to shut down, unless it was asked already."""
    progress_file, state = work.progress_file, guest.state()
    if any(progress_file.step(name, guest.name) for name in ("asked", "starting", _LEFT_OFF)):
        return
    asking = progress_file.step("asking", guest.name)
    if asking is None:
        if state.is_defined and state.id == -1 and work.impact.leaves_off:
            progress_file.note(_LEFT_OFF, guest.name)
            work.remarks.append(f"{guest.name} did not run and stays off")
            return
        if state.is_defined and state.id == -1:
            work.remarks.append(f"{guest.name} did not run and was started")
            _start(work, guest)
            return
        definition = guest.definition()
        in_place = "" if guest.may_go_down(definition) and _may_be_started_again(work, guest) else "yes"
        seen = {"in_place": in_place, "definition": "" if in_place else definition}
        progress_file.note(
            "asking", guest.name, id=str(state.id), ear=guest.connection_id, reboots=str(guest.reboots), **seen
        )
        asking = progress_file.step("asking", guest.name)
    elif asking.seen["in_place"] or str(state.id) != asking.seen["id"]:
        # The former may have been asked and be up again: do not ask it twice. The latter has shut down.
        progress_file.note("asked", guest.name, at=work.clock.now().isoformat())
        return
    if state.is_paused:
        work.remarks.append(f"{guest.name} was paused and was reset")
        _reset(work, guest)
        return
    work.tell("asked to shut down", guest.name)
    try:
        guest.ask_to_reboot() if asking and asking.seen["in_place"] else guest.ask_to_go_down()
    except LibvirtUnreachable:
        raise
    except LibvirtProblem as error:
        # The machine has no power button.
        work.remarks.append(f"{error}; it was reset")
        _reset(work, guest)
    else:
        progress_file.note("asked", guest.name, at=work.clock.now().isoformat())


def _may_be_started_again(work: LibvirtWork, guest: LibvirtGuest) -> bool:
    """Return whether every host answers; else a stopped machine could not be started again, see ``location.py``."""
    silent = work.silent_hosts()
    if silent:
        hosts = " and ".join(sorted(silent))
        work.remarks.append(f"{hosts} did not answer, so {guest.name} was rebooted without being stopped")
    return not silent


def _until(work: LibvirtWork) -> float:
    """Return when the grace time of the machine that was asked last is over."""
    asked = [step for guest in work.guests if (step := work.progress_file.step("asked", guest.name))]
    last = max((datetime.fromisoformat(step.seen["at"]) for step in asked), default=work.clock.now())
    passed = max(work.clock.now() - last, timedelta())  # the clock may have been set back
    return work.deadline(work.settings.grace - passed)


def _have_all_started_over(work: LibvirtWork) -> bool:
    # Check all of them, so that none stays off while another one takes long.
    found = [_has_started_over(work, guest) for guest in work.guests]
    return all(found)


def _has_started_over(work: LibvirtWork, guest: LibvirtGuest) -> bool:
    """Return whether a machine has rebooted; a machine that is off is started, and counts as rebooted."""
    progress_file = work.progress_file
    if any(progress_file.step(name, guest.name) for name in ("started", "reset", _LEFT_OFF)):
        return True
    state = guest.state()
    if not state.is_defined:
        copy = guest.find()
        if copy is None:
            guest.domain()  # raises: another client removed it
        else:
            raise ActiveElsewhere(f"{guest.name} was moved to {copy.host} during its reboot")
    if state.id == -1:
        _start(work, guest)
        return True
    asking = progress_file.step("asking", guest.name)
    if asking is None:
        return progress_file.step("starting", guest.name) is not None
    before = int(asking.seen["reboots"]) if guest.connection_id == asking.seen["ear"] else 0
    return str(state.id) != asking.seen["id"] or guest.reboots > before


def _start(work: LibvirtWork, guest: LibvirtGuest) -> None:
    """Start a machine that is off, with the definition it ran with."""
    asking = work.progress_file.step("asking", guest.name)
    definition = asking.seen["definition"] if asking else ""
    work.tell("starting", guest.name)
    work.progress_file.note("starting", guest.name)
    try:
        if definition:
            guest.start_as(definition)
        else:
            guest.start()
    except (LibvirtUnreachable, ActiveElsewhere):
        raise
    except LibvirtProblem as error:
        if not definition:
            raise LibvirtProblem(f"{guest.name} is off: {error}") from None
        work.remarks.append(f"{guest.name} did not start as before ({error}) and was started as defined")
        try:
            guest.start()
        except LibvirtProblem as again:
            raise LibvirtProblem(f"{guest.name} is off: {again}") from None
    work.progress_file.note("started", guest.name)


def _give_up(work: LibvirtWork, guest: LibvirtGuest) -> None:
    """Reset a machine that did not react."""
    asking = work.progress_file.step("asking", guest.name)
    if asking and asking.seen["in_place"] and guest.connection_id != asking.seen["ear"]:
        raise RebootUnknown(f"{guest.name} was asked to reboot; its host disconnected, so the result is unknown")
    work.remarks.append(f"{guest.name} did not shut down within {work.settings.grace.total_seconds():g} s")
    _reset(work, guest)


def _reset(work: LibvirtWork, guest: LibvirtGuest) -> None:
    """Reset a machine, or detect that it was reset."""
    progress_file, state = work.progress_file, guest.state()
    resetting, halting = progress_file.step("resetting", guest.name), progress_file.step("halting", guest.name)
    is_halted = state.is_paused
    if progress_file.step("reset", guest.name) or (halting and str(state.id) != halting.seen["id"]):
        return
    if resetting is None:
        if halting is None:
            progress_file.note("halting", guest.name, id=str(state.id))
        is_halted = is_halted or _halt(guest)
        if not is_halted and _has_started_over(work, guest):
            return  # it shut down at the last moment
        progress_file.note("resetting", guest.name, is_halted="yes" if is_halted else "")
    elif not is_halted:
        if not resetting.seen["is_halted"]:
            raise RebootUnknown(f"it is unknown whether {guest.name} was reset")
        progress_file.note("reset", guest.name)
        return
    work.tell("resetting", guest.name)
    if is_halted:
        work.retry(guest.reset)
        work.retry(lambda: guest.resume() if guest.state().is_paused else None)
    else:
        guest.reset()
    progress_file.note("reset", guest.name)


def _halt(guest: LibvirtGuest) -> bool:
    """Pause a machine; return whether that succeeded."""
    try:
        guest.suspend()
    except LibvirtUnreachable:
        raise
    except LibvirtProblem:
        return False
    return True
