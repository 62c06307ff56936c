"""One QEMU process on a host, and the QMP commands for it."""

import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from forewarn.drivers.qemu.monitors import MonitorAbsent, MonitorProblem, Monitors
from forewarn.drivers.qemu.settings import QemuSettings

GONE = "gone"
"""Status of a machine without a process."""
_LONGEST_END = 10.0


class MigrationProgress(NamedTuple):
    """Progress of a migration."""

    status: str
    """QEMU's status."""
    reason: str
    """Why it failed, if it did."""
    sent: int
    """Bytes; may decrease if the guest writes faster than they are sent."""
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
        """Return QEMU's run state; ``gone`` if there is no process."""
        try:
            return str(self._monitors.execute(self.path, "query-status")["status"])
        except MonitorAbsent:
            return GONE

    def check_directory(self) -> None:
        """Raise if the directory of the monitor is missing: a wrong path must not count as a machine that is off."""
        if not self.path.parent.is_dir():
            raise MonitorProblem(f"there is no directory {self.path.parent}; check 'qmp' of driver 'qemu'")

    def must_be(self, status: str) -> None:
        """Raise unless the machine has this status."""
        found = self.status()
        if found == GONE:
            self._monitors.execute(self.path, "query-status")  # raises with the reason
        if found != status:
            raise MonitorProblem(f"{self.vm} is {found}, not {status}; find out at {self.path} who changed it")

    def stop(self) -> None:
        self._monitors.execute(self.path, "stop")

    def go_on(self) -> None:
        self._monitors.execute(self.path, "cont")

    def press_power_button(self) -> None:
        self._monitors.execute(self.path, "system_powerdown")

    def reset(self) -> None:
        self._monitors.execute(self.path, "system_reset")

    def quit(self) -> None:
        """End the process, and wait until it has ended."""
        with suppress(MonitorAbsent):
            self._monitors.execute(self.path, "quit")
        if not self._monitors.await_end(self.path, _LONGEST_END):
            raise MonitorProblem(f"{self.vm} did not end within {_LONGEST_END:.0f} s after 'quit' at {self.path}")

    def memory(self) -> int:
        """Return the memory size in bytes."""
        summary = self._monitors.execute(self.path, "query-memory-size-summary")
        return int(summary["base-memory"]) + int(summary.get("plugged-memory", 0))

    def send_to(self, uri: str, bandwidth: int = 0) -> None:
        """Start a migration, limited to ``bandwidth`` MiB per second, with progress events."""
        if bandwidth:
            limit = {"max-bandwidth": bandwidth * 1024 * 1024}
            self._monitors.execute(self.path, "migrate-set-parameters", **limit)
        events = {"capability": "events", "state": True}
        self._monitors.execute(self.path, "migrate-set-capabilities", capabilities=[events])
        self._monitors.execute(self.path, "migrate", uri=uri)

    def sending(self) -> "MigrationProgress":
        reply = self._monitors.execute(self.path, "query-migrate")
        memory = reply.get("ram", {})
        return MigrationProgress(
            str(reply.get("status", "none")),
            str(reply.get("error-desc", "")),
            int(memory.get("total", 0)) - int(memory.get("remaining", 0)),
            int(memory.get("total", 0)),
        )

    def stop_sending(self) -> None:
        self._monitors.execute(self.path, "migrate_cancel")

    def run(self, name: str, words: list[str]) -> None:
        """Run one of the operator's commands for this machine."""
        command = self._settings.command(words, self.vm, self.host)
        # A machine that the command starts may keep inherited files open, so its stderr is a file and not a pipe.
        with tempfile.TemporaryFile() as stderr:
            try:
                process = subprocess.Popen(  # noqa: S603 the operator's own command
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
            except OSError as error:
                raise MonitorProblem(
                    f"'{name}' ({command[0]}) cannot be run for {self.vm}: {error.strerror}"
                ) from None
            if not _ends_within(process, self._settings.timeout):
                raise MonitorProblem(
                    f"'{name}' ({command[0]}) took longer than {self._settings.timeout:.0f} s for {self.vm}"
                )
            stderr.seek(0)
            if process.returncode:
                reason = _last_line(stderr.read().decode(errors="replace"))
                raise MonitorProblem(f"'{name}' ({Path(command[0]).name}) failed for {self.vm}: {reason}")


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a process to end, and kill it after the timeout; return whether it ended by itself.

    ``Popen.wait`` with a timeout polls at growing intervals, which would delay a guest that is being moved.
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
