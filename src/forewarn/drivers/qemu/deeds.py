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
from forewarn.drivers.qemu.machines import GONE, Machine
from forewarn.drivers.qemu.monitors import Monitors, Trouble
from forewarn.drivers.qemu.settings import QemuSettings
from forewarn.drivers.working import Interrupted, Job

LOOK_EVERY = 0.1
"""Seconds after which we look again, though no machine has said anything."""
_LONGEST_RESET = 15.0
_LEFT_OFF = "left off"
_OFF = {GONE, "shutdown"}
"""A guest that shut down, whether its process outlived it or not."""
_STANDS_STILL = {"paused", "prelaunch", "shutdown"}


class Deed:
    """One VM's part in an event, and what is written of it."""

    def __init__(self, job: Job, settings: QemuSettings, monitors: Monitors, clock: Clock, vm: Vm) -> None:
        self.settings = settings
        self.clock = clock
        self.vm = vm
        self.closing = job.closing
        self.event = job.impact.event
        self.leaves_off = job.impact.leaves_off
        self._job = job
        self._monitors = monitors
        self.here = self.at(vm.standing_on)

    def at(self, host: str) -> Machine:
        return Machine(self.settings, self._monitors, self.vm.name, host)

    def tell(self, words: str) -> None:
        """Say how far it is."""
        self._job.tell(words, self.vm.name)

    def note(self, step: str, **seen: str) -> None:
        self._job.page.note(step, self.vm.name, **seen)

    @property
    def has_begun(self) -> bool:
        """Whether a step of this VM was written down."""
        return any(step.vm == self.vm.name for step in self._job.page.steps)

    def noted(self, step: str) -> dict[str, str] | None:
        """Return what was seen when a step was noted; None when it never was."""
        found = self._job.page.step(step, self.vm.name)
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
            self._monitors.await_word(words, LOOK_EVERY)
            if self.closing.is_set():
                raise Interrupted
            words = self._monitors.words
        return True


def is_left_off(deed: Deed) -> bool:
    """Tell whether the machine was off when maintenance of its host began, and so stays off."""
    if deed.noted(_LEFT_OFF) is not None:
        return True
    if not deed.leaves_off or deed.has_begun or deed.here.status() not in _OFF:
        return False
    deed.here.check_directory()
    deed.note(_LEFT_OFF)
    return True


def freeze(deed: Deed, seconds: float) -> str:
    """Let the guest stand still for a time. A service that stops meanwhile lets it go on before its time."""
    machine = deed.here
    if deed.noted("freezing") is None:
        machine.must_be("running")
        deed.note("freezing")
        machine.stop()
        ends = monotonic() + seconds
        deed.note("frozen", at=deed.now())
    elif machine.status() == "paused":
        ends = monotonic() + (seconds - deed.since("frozen") if deed.noted("frozen") else 0.0)
    elif deed.noted("frozen") is None:
        raise Trouble(f"the service was lost before {deed.vm.name} was frozen; it runs")
    else:
        return "it went on while the service was away"
    deed.tell(f"frozen for {seconds:g} s")
    is_cut_short = deed.closing.wait(max(0.0, ends - monotonic()))
    machine.go_on()
    return "cut short, because the service was stopped" if is_cut_short else ""


def reboot(deed: Deed) -> str:
    """Let the guest shut down by itself, reset it after its grace, and let it boot."""
    machine = deed.here
    if deed.noted("reset") is None and deed.noted("starting") is None:
        went_down = deed.noted("resetting") is None and _power_down(deed)
        if machine.status() == GONE:
            return _start_again(deed)
        _reset(deed)
        detail = "it shut down by itself" if went_down else "it did not shut down by itself, and was reset"
    elif deed.noted("starting") is not None:
        return _start_again(deed)
    else:
        detail = "it was reset before the service was lost"
    if machine.status() in _STANDS_STILL:
        machine.go_on()
    return detail


def _power_down(deed: Deed) -> bool:
    """Press the power button once, and tell whether the guest went down within its grace."""
    grace = deed.settings.grace
    if deed.noted("powering-down") is None:
        deed.here.must_be("running")
        if not grace:
            return False
        deed.note("powering-down", at=deed.now())
        deed.here.press_power_button()
    else:
        grace -= deed.since("powering-down")
    deed.tell("the guest was asked to shut down")
    return deed.wait_until(lambda: deed.here.status() in {"shutdown", GONE}, grace)


def _reset(deed: Deed) -> None:
    machine = deed.here
    is_reset = deed.noted("resetting") is not None and machine.status() == "prelaunch"
    if not is_reset:
        deed.note("resetting")
        if machine.status() == "running":
            machine.stop()
        machine.reset()
        if not deed.wait_until(lambda: machine.status() == "prelaunch", _LONGEST_RESET):
            raise Trouble(f"{deed.vm.name} was not reset within {_LONGEST_RESET:.0f} s; it is {machine.status()}")
    deed.note("reset")


def _start_again(deed: Deed) -> str:
    """Start a machine whose process ended when its guest shut down."""
    start(deed, deed.here)
    return "its process ended with the guest, and was started again"


def start(deed: Deed, machine: Machine) -> None:
    """Start a machine anew, if it is not there yet."""
    if not deed.settings.start:
        raise Trouble(f"nobody said how {deed.vm.name} is started; set 'start' of driver 'qemu'")
    if deed.noted("starting") is not None:
        # The command may be at work still, though we were lost.
        deed.wait_until(lambda: machine.status() != GONE, min(5.0, deed.settings.timeout))
    if machine.status() == GONE:
        deed.note("starting", host=machine.host)
        deed.tell(f"starting on {machine.host}")
        machine.run("start", deed.settings.start)
    if not deed.wait_until(lambda: machine.status() == "running", deed.settings.timeout):
        raise Trouble(f"'start' said that it started {deed.vm.name}, but it is {machine.status()} at {machine.path}")


def end(deed: Deed, *, deletes: bool) -> str:
    """End the machine; where it is deleted, have removed what it leaves."""
    was_there = deed.here.status() != GONE
    if was_there:
        deed.here.quit()
    else:
        deed.here.check_directory()
    if deletes and deed.settings.delete:
        deed.here.run("delete", deed.settings.delete)
    return "" if was_there else "it was not running"
