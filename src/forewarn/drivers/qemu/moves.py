"""Moves a machine to another host: by live migration, or by ending it and starting it there.

    move      moving ─ receive ─ migrating ─ migrate ─ … ─ quit here ─ moved
    rebuild   rebuilding ─ quit here ─ starting ─ start there

After a crash QEMU shows the state: a machine that was sent completely is ``postmigrate``, else it continues. If a
move fails the guest runs where it ran, and nothing is left on the other host.
"""

from collections.abc import Sequence

from forewarn.drivers.candidates import explain_no_candidate, sort_by_preference
from forewarn.drivers.qemu.actions import MachineAction, start
from forewarn.drivers.qemu.machines import GONE, QemuMachine
from forewarn.drivers.qemu.monitors import MonitorProblem
from forewarn.drivers.qemu.observations import MonitorObserver
from forewarn.node.driver import CandidateHost

_SENT = "completed"
_NOT_SENT = {"failed", "cancelled", "cancelling"}
_SENDING = {"setup", "active", "device", "pre-switchover", "postcopy-active", "wait-unplug"}
_STARTED = {"running", "paused", "prelaunch", "inmigrate"}
"""A process that runs its guest, or is about to."""
_LONGEST_LANDING = 15.0
_MIB = 1024 * 1024


def choose_host(action: MachineAction, candidates: Sequence[CandidateHost]) -> str:
    """Return the host on which a machine that is off will be started; end its process here."""
    host = _chosen(action, "moving", candidates, "")
    action.here.quit()
    return host


def move(action: MachineAction, candidates: Sequence[CandidateHost], observer: MonitorObserver) -> str:
    """Move a running guest to the best candidate; return its new host."""
    there = action.at(_chosen(action, "moving", candidates, ""))
    observer.expect_landing(there.path)
    try:
        return _move(action, there)
    finally:
        observer.landed(there.path)


def _move(action: MachineAction, there: QemuMachine) -> str:
    if action.here.status() == GONE:
        return _arrived_before(action, there)
    try:
        if action.here.status() != "postmigrate":
            _send(action, there)
        _land(action, there)
    except MonitorProblem as error:
        _stay(action, there)
        failure = f"{action.vm.name} could not be moved to {there.host}: {error}"
        raise MonitorProblem(f"{failure}; it is {action.here.status()} on {action.here.host}") from None
    action.here.quit()
    action.note("moved")
    return there.host


def _land(action: MachineAction, there: QemuMachine) -> None:
    if not action.wait_until(lambda: there.status() == "running", _LONGEST_LANDING):
        raise MonitorProblem(f"it is {there.status()} there, not running")


def rebuild(action: MachineAction, candidates: Sequence[CandidateHost], *, may_stay: bool) -> tuple[str, str]:
    """End the machine if it is still there, and start it anew on another host; return that host, and what was done.

    ``may_stay`` means that its process died: a process that is there was started by another program since.
    """
    host = _chosen(action, "rebuilding", () if may_stay else candidates, action.here.host if may_stay else "")
    there = action.at(host)
    found = action.here.status() if action.noted("starting") is None else GONE
    if may_stay and found in _STARTED:
        return "", f"it is {found}: another program started it, and it was left alone"
    if found != GONE:
        action.here.quit()
    start(action, there)
    return host, "started anew"


def _chosen(action: MachineAction, step: str, candidates: Sequence[CandidateHost], own: str) -> str:
    """Return the host that was recorded when the move began; choose and record one otherwise."""
    noted = action.noted(step)
    if noted is not None:
        return noted["host"]
    best = next((candidate.host.name for candidate in sort_by_preference(action.vm, candidates)), own)
    if not best:
        raise MonitorProblem(explain_no_candidate(action.vm, action.event))
    action.note(step, host=best)
    return best


def _arrived_before(action: MachineAction, there: QemuMachine) -> str:
    if action.noted("migrating") is not None and there.status() == "running":
        action.note("moved")
        return there.host
    raise MonitorProblem(
        f"{action.vm.name} is not at {action.here.path}, and does not run at {there.path}; start it again"
    )


def _send(action: MachineAction, there: QemuMachine) -> None:
    here = action.here
    is_new = action.noted("migrating") is None
    if is_new:
        here.must_be("running")
        if there.status() == GONE:
            there.run("receive", action.settings.receive)
        if not action.wait_until(lambda: there.status() == "inmigrate", _LONGEST_LANDING):
            raise MonitorProblem(f"the machine that 'receive' started there is {there.status()}, not inmigrate")
        _check_room(here, there)
        action.note("migrating")
    # QEMU keeps the status of an earlier migration until the next one begins.
    if is_new or (here.status() == "running" and here.sending().status not in _SENDING):
        here.send_to(
            action.settings.filled(action.settings.incoming, action.vm.name, there.host), action.settings.bandwidth
        )
    action.tell(f"moving to {there.host}")
    status = ""

    def is_over() -> bool:
        nonlocal status
        sending = here.sending()
        status = sending.status
        if sending.total:
            action.tell(f"moving to {there.host}, {100 * sending.sent // sending.total} % of its memory transferred")
        return status == _SENT or status in _NOT_SENT

    if not action.wait_until(is_over, action.settings.timeout):
        here.stop_sending()
        raise MonitorProblem(f"it took longer than {action.settings.timeout:.0f} s")
    if status != _SENT:
        raise MonitorProblem(here.sending().reason or "QEMU gives no reason")


def _check_room(here: QemuMachine, there: QemuMachine) -> None:
    """Refuse a machine with another memory size; QEMU itself would only report a broken connection."""
    ours, theirs = here.memory(), there.memory()
    if ours != theirs:
        raise MonitorProblem(
            f"the machine there has {theirs // _MIB} MiB of memory, and the guest needs {ours // _MIB} MiB"
        )


def _stay(action: MachineAction, there: QemuMachine) -> None:
    """Remove the machine on the other host, then resume the guest here: it must never run twice."""
    there.quit()
    if action.here.status() not in {"running", GONE}:
        action.here.go_on()
