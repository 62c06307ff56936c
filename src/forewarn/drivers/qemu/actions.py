"""What is done to one machine for an event. Every deed can be begun again after a crash, and does only what is left.

    freeze    freezing ─ stop ─ frozen ─ … ─ cont
    reboot    powering-down ─ system_powerdown ─ … ─ resetting ─ stop ─ system_reset ─ reset ─ cont
    end       quit

Words without a dash are QMP's; the others are steps, durable before what follows them is done. A machine that is
reset while it stands still is ``prelaunch`` and no longer ``paused``: so QEMU itself remembers whether it was reset.
"""

from collections.abc import Callable
from datetime import datetime
from time import monotonic

from forewarn.clocks import Clock
from forewarn.core.model import Vm
from forewarn.drivers.executor import ImpactJob, WorkInterrupted
from forewarn.drivers.qemu.machines import GONE, QemuMachine
from forewarn.drivers.qemu.monitors import MonitorProblem, Monitors
from forewarn.drivers.qemu.settings import QemuSettings

POLL_EVERY = 0.1
"""Seconds after which we look again, though no machine has said anything."""
_LONGEST_RESET = 15.0
_LEFT_OFF = "left off"
_OFF = {GONE, "shutdown"}
"""A guest that shut down, whether its process outlived it or not."""
_STANDS_STILL = {"paused", "prelaunch", "shutdown"}


class MachineAction:
    """One VM's part in an event, and what is written of it."""

    def __init__(self, job: ImpactJob, settings: QemuSettings, monitors: Monitors, clock: Clock, vm: Vm) -> None:
        self.settings = settings
        self.clock = clock
        self.vm = vm
        self.closing = job.closing
        self.event = job.impact.event
        self.leaves_off = job.impact.leaves_off
        self._job = job
        self._monitors = monitors
        self.here = self.at(vm.standing_on)

    def at(self, host: str) -> QemuMachine:
        return QemuMachine(self.settings, self._monitors, self.vm.name, host)

    def tell(self, words: str) -> None:
        """Say how far it is."""
        self._job.tell(words, self.vm.name)

    def note(self, step: str, **seen: str) -> None:
        self._job.progress_file.note(step, self.vm.name, **seen)

    @property
    def has_begun(self) -> bool:
        """Whether a step of this VM was written down."""
        return any(step.vm == self.vm.name for step in self._job.progress_file.steps)

    def noted(self, step: str) -> dict[str, str] | None:
        """Return what was seen when a step was noted; None when it never was."""
        found = self._job.progress_file.step(step, self.vm.name)
        return None if found is None else found.seen

    def since(self, step: str) -> float:
        """Return how many seconds ago a step was noted, by the wall clock; none where that was set back since."""
        seen = self.noted(step) or {}
        return max(0.0, (self.clock.now() - datetime.fromisoformat(seen["at"])).total_seconds())

    def now(self) -> str:
        return self.clock.now().isoformat()

    def wait_until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Look whether something is so whenever a machine speaks; raise Interrupted when the driver is closed."""
        ending = monotonic() + seconds
        words = self._monitors.words
        while not is_so():
            if monotonic() >= ending:
                return False
            self._monitors.await_message(words, POLL_EVERY)
            if self.closing.is_set():
                raise WorkInterrupted
            words = self._monitors.words
        return True


def is_left_off(action: MachineAction) -> bool:
    """Tell whether the machine was off when maintenance of its host began, and so stays off."""
    if action.noted(_LEFT_OFF) is not None:
        return True
    if not action.leaves_off or action.has_begun or action.here.status() not in _OFF:
        return False
    action.here.check_directory()
    action.note(_LEFT_OFF)
    return True


def freeze(action: MachineAction, seconds: float) -> str:
    """Let the guest stand still for a time. A service that stops meanwhile lets it go on before its time."""
    machine = action.here
    if action.noted("freezing") is None:
        machine.must_be("running")
        action.note("freezing")
        machine.stop()
        ends = monotonic() + seconds
        action.note("frozen", at=action.now())
    elif machine.status() == "paused":
        ends = monotonic() + (seconds - action.since("frozen") if action.noted("frozen") else 0.0)
    elif action.noted("frozen") is None:
        raise MonitorProblem(f"the service was lost before {action.vm.name} was frozen; it runs")
    else:
        return "it went on while the service was away"
    action.tell(f"frozen for {seconds:g} s")
    is_cut_short = action.closing.wait(max(0.0, ends - monotonic()))
    machine.go_on()
    return "cut short, because the service was stopped" if is_cut_short else ""


def reboot(action: MachineAction) -> str:
    """Let the guest shut down by itself, reset it after its grace, and let it boot."""
    machine = action.here
    if action.noted("reset") is None and action.noted("starting") is None:
        went_down = action.noted("resetting") is None and _power_down(action)
        if machine.status() == GONE:
            return _start_again(action)
        _reset(action)
        detail = "it shut down by itself" if went_down else "it did not shut down by itself, and was reset"
    elif action.noted("starting") is not None:
        return _start_again(action)
    else:
        detail = "it was reset before the service was lost"
    if machine.status() in _STANDS_STILL:
        machine.go_on()
    return detail


def _power_down(action: MachineAction) -> bool:
    """Press the power button once, and tell whether the guest went down within its grace."""
    grace = action.settings.grace
    if action.noted("powering-down") is None:
        action.here.must_be("running")
        if not grace:
            return False
        action.note("powering-down", at=action.now())
        action.here.press_power_button()
    else:
        grace -= action.since("powering-down")
    action.tell("the guest was asked to shut down")
    return action.wait_until(lambda: action.here.status() in {"shutdown", GONE}, grace)


def _reset(action: MachineAction) -> None:
    machine = action.here
    is_reset = action.noted("resetting") is not None and machine.status() == "prelaunch"
    if not is_reset:
        action.note("resetting")
        if machine.status() == "running":
            machine.stop()
        machine.reset()
        if not action.wait_until(lambda: machine.status() == "prelaunch", _LONGEST_RESET):
            raise MonitorProblem(
                f"{action.vm.name} was not reset within {_LONGEST_RESET:.0f} s; it is {machine.status()}"
            )
    action.note("reset")


def _start_again(action: MachineAction) -> str:
    """Start a machine whose process ended when its guest shut down."""
    start(action, action.here)
    return "its process ended with the guest, and was started again"


def start(action: MachineAction, machine: QemuMachine) -> None:
    """Start a machine anew, if it is not there yet."""
    if not action.settings.start:
        raise MonitorProblem(f"nobody said how {action.vm.name} is started; set 'start' of driver 'qemu'")
    if action.noted("starting") is not None:
        # The command may be at work still, though we were lost.
        action.wait_until(lambda: machine.status() != GONE, min(5.0, action.settings.timeout))
    if machine.status() == GONE:
        action.note("starting", host=machine.host)
        action.tell(f"starting on {machine.host}")
        machine.run("start", action.settings.start)
    if not action.wait_until(lambda: machine.status() == "running", action.settings.timeout):
        raise MonitorProblem(
            f"'start' said that it started {action.vm.name}, but it is {machine.status()} at {machine.path}"
        )


def end(action: MachineAction, *, deletes: bool) -> str:
    """End the machine; where it is deleted, have removed what it leaves."""
    was_there = action.here.status() != GONE
    if was_there:
        action.here.quit()
    else:
        action.here.check_directory()
    if deletes and action.settings.delete:
        action.here.run("delete", action.settings.delete)
    return "" if was_there else "it was not running"
