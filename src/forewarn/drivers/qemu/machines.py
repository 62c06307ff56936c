"""One machine: a QEMU process on a host, and what can be done to it."""

import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from forewarn.drivers.qemu.monitors import MonitorAbsent, MonitorProblem, Monitors
from forewarn.drivers.qemu.settings import QemuSettings

GONE = "gone"
"""What we say where QEMU says nothing, because there is none."""
_LONGEST_END = 10.0


class MigrationProgress(NamedTuple):
    """How far a machine is with sending its memory to another."""

    status: str
    """QEMU's word for it."""
    reason: str
    """Why it failed, if it did."""
    sent: int
    """Bytes; fewer again where the guest writes faster than they are sent."""
    total: int


class QemuMachine:
    """A VM as it is, or will be, on one host."""

    def __init__(self, settings: QemuSettings, monitors: Monitors, vm: str, host: str) -> None:
        self.vm = vm
        self.host = host
        self.path = settings.path(vm, host)
        self._settings = settings
        self._monitors = monitors

    def status(self) -> str:
        """Return QEMU's word for what the machine does; ``gone`` when there is no process."""
        try:
            return str(self._monitors.execute(self.path, "query-status")["status"])
        except MonitorAbsent:
            return GONE

    def check_directory(self) -> None:
        """Refuse to take a machine for off where its monitor could not even be."""
        if not self.path.parent.is_dir():
            raise MonitorProblem(
                f"there is no directory {self.path.parent}; see that 'qmp' of driver 'qemu' is right"
            )

    def must_be(self, status: str) -> None:
        """Refuse to go on with a machine that does something else."""
        found = self.status()
        if found == GONE:
            self._monitors.execute(self.path, "query-status")  # says why
        if found != status:
            raise MonitorProblem(f"{self.vm} is {found}, not {status}; see at {self.path} who did that")

    def stop(self) -> None:
        self._monitors.execute(self.path, "stop")

    def go_on(self) -> None:
        self._monitors.execute(self.path, "cont")

    def press_power_button(self) -> None:
        self._monitors.execute(self.path, "system_powerdown")

    def reset(self) -> None:
        self._monitors.execute(self.path, "system_reset")

    def quit(self) -> None:
        """End the process, and return when it has ended."""
        with suppress(MonitorAbsent):
            self._monitors.execute(self.path, "quit")
        if not self._monitors.await_end(self.path, _LONGEST_END):
            raise MonitorProblem(
                f"{self.vm} did not end within {_LONGEST_END:.0f} s of being told to quit at {self.path}"
            )

    def memory(self) -> int:
        """Return the bytes it has."""
        summary = self._monitors.execute(self.path, "query-memory-size-summary")
        return int(summary["base-memory"]) + int(summary.get("plugged-memory", 0))

    def send_to(self, uri: str, bandwidth: int = 0) -> None:
        """Begin to send its memory, so many MiB per second; it says how far it is with that unasked."""
        if bandwidth:
            limit = {"max-bandwidth": bandwidth * 1024 * 1024}
            self._monitors.execute(self.path, "migrate-set-parameters", **limit)
        tells = {"capability": "events", "state": True}
        self._monitors.execute(self.path, "migrate-set-capabilities", capabilities=[tells])
        self._monitors.execute(self.path, "migrate", uri=uri)

    def sending(self) -> "MigrationProgress":
        """Return how far it is with sending its memory."""
        told = self._monitors.execute(self.path, "query-migrate")
        memory = told.get("ram", {})
        return MigrationProgress(
            str(told.get("status", "none")),
            str(told.get("error-desc", "")),
            int(memory.get("total", 0)) - int(memory.get("remaining", 0)),
            int(memory.get("total", 0)),
        )

    def stop_sending(self) -> None:
        self._monitors.execute(self.path, "migrate_cancel")

    def run(self, name: str, words: list[str]) -> None:
        """Run one of the operator's commands for this machine."""
        command = self._settings.command(words, self.vm, self.host)
        # A machine that it starts may keep what it inherits open, so what it says goes to a file.
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(  # noqa: S603 the operator's own command
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError as error:
                raise MonitorProblem(
                    f"'{name}' ({command[0]}) could not be run for {self.vm}: {error.strerror}"
                ) from None
            if not _ends_within(process, self._settings.timeout):
                raise MonitorProblem(
                    f"'{name}' ({command[0]}) took longer than {self._settings.timeout:.0f} s for {self.vm}"
                )
            said.seek(0)
            if process.returncode:
                words_of_it = _last_line(said.read().decode(errors="replace"))
                raise MonitorProblem(f"'{name}' ({Path(command[0]).name}) failed for {self.vm}: {words_of_it}")


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process, and bring it about when it takes too long; tell whether it came by itself.

    A ``wait`` that is given a time looks again after ever longer pauses; a guest that moves would wait with it.
    """
    is_late = threading.Event()

    def kill() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    process.wait()
    timer.cancel()
    return not is_late.is_set()


def _last_line(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it gave no reason"
