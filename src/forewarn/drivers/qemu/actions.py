"""Actions on one machine for an event; each can be resumed after a crash and does only what is left.

    freeze    freezing ─ stop ─ frozen ─ … ─ cont
    reboot    powering-down ─ system_powerdown ─ … ─ resetting ─ stop ─ system_reset ─ reset ─ cont
    end       quit

Names with an underscore and ``stop``, ``cont``, ``quit`` are QMP commands; the others are recorded steps, durable
before the next command. A machine that is reset while stopped is ``prelaunch`` and no longer ``paused``, so QEMU
itself shows whether it was reset.
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
"""Seconds between two checks if no QMP event arrives."""
_LONGEST_RESET = 15.0
_LEFT_OFF = "left off"
_OFF = {GONE, "shutdown"}
"""Status of a guest that shut down, with or without its process."""
_STANDS_STILL = {"paused", "prelaunch", "shutdown"}


class MachineAction:
    """The action on one VM for an event, with its recorded steps."""

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
        self._job.tell(words, self.vm.name)

    def note(self, step: str, **seen: str) -> None:
        self._job.progress_file.note(step, self.vm.name, **seen)

    @property
    def has_begun(self) -> bool:
        """Whether a step of this VM was recorded."""
        return any(step.vm == self.vm.name for step in self._job.progress_file.steps)

    def noted(self, step: str) -> dict[str, str] | None:
        """Return the state recorded with a step; None if the step was not recorded."""
        found = self._job.progress_file.step(step, self.vm.name)
        return None if found is None else found.seen

    def since(self, step: str) -> float:
        """Return the seconds since a step was recorded, by the wall clock; 0 if the clock was set back since."""
        seen = self.noted(step) or {}
        return max(0.0, (self.clock.now() - datetime.fromisoformat(seen["at"])).total_seconds())

    def now(self) -> str:
        return self.clock.now().isoformat()

    def wait_until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Check a condition at every QMP event until it holds; raise WorkInterrupted if the driver is closed."""
        ending = monotonic() + seconds
        received = self._monitors.events_received
        while not is_so():
            if monotonic() >= ending:
                return False
            self._monitors.await_message(received, POLL_EVERY)
            if self.closing.is_set():
                raise WorkInterrupted
            received = self._monitors.events_received
        return True


def is_left_off(action: MachineAction) -> bool:
    """Return whether the machine was off when maintenance of its host began, and so stays off."""
    if action.noted(_LEFT_OFF) is not None:
        return True
    if not action.leaves_off or action.has_begun or action.here.status() not in _OFF:
        return False
    action.here.check_directory()
    action.note(_LEFT_OFF)
    return True


def freeze(action: MachineAction, seconds: float) -> str:
    """Stop the guest's CPUs for a time. If the service stops meanwhile, the guest continues early."""
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
        raise MonitorProblem(f"the service crashed before {action.vm.name} was frozen; it is running")
    else:
        return "it was resumed while the service was down"
    action.tell(f"frozen for {seconds:g} s")
    is_cut_short = action.closing.wait(max(0.0, ends - monotonic()))
    machine.go_on()
    return "cut short, because the service was stopped" if is_cut_short else ""


def reboot(action: MachineAction) -> str:
    """Shut the guest down by its power button, reset it after the grace time, and let it boot."""
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
        detail = "it was reset before the service crashed"
    if machine.status() in _STANDS_STILL:
        machine.go_on()
    return detail


def _power_down(action: MachineAction) -> bool:
    """Press the power button once; return whether the guest shut down within the grace time."""
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
    """Start a machine again after its process ended with the guest's shutdown."""
    start(action, action.here)
    return "its process ended with the guest and was started again"


def start(action: MachineAction, machine: QemuMachine) -> None:
    """Start a machine, unless it exists already."""
    if not action.settings.start:
        raise MonitorProblem(f"there is no command to start {action.vm.name}; set 'start' of driver 'qemu'")
    if action.noted("starting") is not None:
        # The command of an earlier process may still be running.
        action.wait_until(lambda: machine.status() != GONE, min(5.0, action.settings.timeout))
    if machine.status() == GONE:
        action.note("starting", host=machine.host)
        action.tell(f"starting on {machine.host}")
        machine.run("start", action.settings.start)
    if not action.wait_until(lambda: machine.status() == "running", action.settings.timeout):
        raise MonitorProblem(
            f"'start' succeeded for {action.vm.name}, but it is {machine.status()} at {machine.path}"
        )


def end(action: MachineAction, *, deletes: bool) -> str:
    """End the machine; if it is deleted, run the ``delete`` command too."""
    was_there = action.here.status() != GONE
    if was_there:
        action.here.quit()
    else:
        action.here.check_directory()
    if deletes and action.settings.delete:
        action.here.run("delete", action.settings.delete)
    return "" if was_there else "it was not running"
