"""Starts and stops one machine on an operator's request; does nothing if it is in that state already."""

from forewarn.drivers.qemu.machines import GONE, QemuMachine
from forewarn.drivers.qemu.monitors import MonitorProblem
from forewarn.drivers.qemu.settings import QemuSettings
from forewarn.drivers.switch_executor import wait_until

_STILL = {"paused", "prelaunch"}


def start(machine: QemuMachine, settings: QemuSettings) -> str:
    """Run the start command, unless the machine runs; return a detail."""
    status = machine.status()
    if status == "running":
        return "it ran already"
    if status != GONE:
        if status != "shutdown":
            raise MonitorProblem(f"{machine.vm} is {status}; find out at {machine.path} who changed it")
        machine.quit()  # its guest shut down, and its process is still there
    _must_be_startable(machine, settings)
    machine.run("start", settings.start)
    if not wait_until(lambda: machine.status() == "running", settings.timeout):
        raise MonitorProblem(f"'start' succeeded for {machine.vm}, but it is {machine.status()} at {machine.path}")
    return ""


def stop(machine: QemuMachine, settings: QemuSettings) -> str:
    """Shut the guest down, and end its process after the grace time at the latest."""
    machine.check_directory()
    if machine.status() == GONE:
        return "it did not run"
    _must_be_startable(machine, settings)
    if machine.status() == "running" and settings.grace:
        machine.press_power_button()
    went_down = wait_until(lambda: machine.status() in {"shutdown", GONE, *_STILL}, settings.grace)
    machine.quit()
    return "" if went_down else f"it did not shut down within {settings.grace:g} s and was ended"


def _must_be_startable(machine: QemuMachine, settings: QemuSettings) -> None:
    if not settings.start:
        raise MonitorProblem(f"there is no command to start {machine.vm}; set 'start' of driver 'qemu'")
