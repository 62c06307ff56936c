"""One guest: a QEMU process and what it says on its serial console."""

import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

from demo.site import Site
from forewarn.drivers.qemu.monitors import MonitorAbsent, Monitors

BOOT_TAKES = 180.0
"""Seconds after which a guest counts as lost, on a machine that does much else."""


class Guest:
    """A guest of a site, on one of its hosts."""

    def __init__(self, site: Site, name: str, host: str = "h1") -> None:
        self.site = site
        self.name = name
        self.host = host
        self.resets = 0
        """How often the machine was reset since we listen to it."""
        self._monitors = Monitors(self._hear)

    @property
    def monitor(self) -> Path:
        """The kit's own monitor; a machine has another for the service."""
        return self.site.place(self.name, self.host, "kit")

    def start(self, incoming: str = "") -> None:
        """Start the machine, to boot, or to take its memory from somewhere."""
        self.site.run(self.site.start, self.name, self.host, *([incoming] if incoming else []))
        self._monitors.open(self.monitor)

    def restore(self, saved: Path) -> None:
        """Start the machine where a saved one stopped."""
        self.start(f"exec:cat {saved}")
        self.wait_for("the guest to go on", lambda: self.status() == "running")

    def save(self, path: Path) -> None:
        """Write the guest's memory down, and end its machine."""
        self.execute("migrate", uri=f"exec:cat > {path}")
        self.wait_for("the guest to be saved", lambda: self.execute("query-migrate").get("status") == "completed")
        self.stop()

    def stop(self) -> None:
        """End the machine, if it is there."""
        with suppress(MonitorAbsent):
            self.execute("quit")
            self._monitors.await_end(self.monitor, 10)

    def kill(self) -> None:
        """Let the machine's process die at once, as a failing host would; return when nothing of it is left."""
        process = os.pidfd_open(self.process)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            # A monitor hangs up a moment before its socket stops listening: only the process's end tells both.
            select.select([process], [], [])
        finally:
            os.close(process)

    def close(self) -> None:
        """Let go of the monitor."""
        self._monitors.close()

    def _hear(self, path: Path, said: dict[str, Any] | None) -> None:
        if said and said["event"] == "RESET":
            self.resets += 1

    @property
    def process(self) -> int:
        return int(self.site.place(self.name, self.host, "pid").read_text(encoding="utf-8"))

    def execute(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 QMP answers anything
        return self._monitors.execute(self.monitor, command, **arguments)

    def status(self) -> str:
        """Return what QEMU says of the machine; ``gone`` when there is none."""
        try:
            return str(self.execute("query-status")["status"])
        except MonitorAbsent:
            return "gone"

    def order(self, line: str) -> None:
        """Have the guest run a line of shell, and return when it has."""
        mark = token_hex(4)
        with socket.socket(socket.AF_UNIX) as console:
            console.connect(str(self.site.place(self.name, self.host, "console")))
            console.sendall(f"{line}; say did {mark}\n".encode())
            # What the guest has not taken in when the console is left would be lost.
            self.wait_for(f"the guest to do {line!r}", lambda: mark in self.said("did"))

    def approve(self, whose: str) -> None:
        """Have the guest approve events from now on: ``self``, ``any`` or ``never``."""
        self.order(f"echo {whose} >/run/approve")

    def said(self, word: str) -> list[str]:
        """Return what the guest has said under that word: clock, events, approved, powerdown, did."""
        log = self.site.place(self.name, self.host, "log")
        text = log.read_bytes().decode(errors="replace") if log.exists() else ""
        said, parts = [], ""
        for line in (line.strip("\r") for line in text.split("\n")[:-1]):
            if line.startswith("@ "):
                kind, _, rest = line.removeprefix("@ ").partition(" ")
                if kind == f"+{word}":
                    parts += rest
                elif kind == word:
                    said.append(parts + rest)
                    parts = ""
        return said

    def boot_id(self) -> str:
        """Return the id of the guest's present boot, once it has one."""
        self.wait_for("the guest to boot", lambda: bool(self.said("clock")))
        return self.said("clock")[-1].split()[1]

    def uptime(self) -> float:
        """Return the next thing that the guest says of its own clock, which stands still with it."""
        before = len(self.said("clock"))
        self.wait_for("its clock to go on", lambda: len(self.said("clock")) > before)
        return float(self.said("clock")[-1].split()[0])

    def wait_for_boot(self, before: str) -> None:
        """Wait until the guest runs in another boot than that."""
        self.wait_for("another boot", lambda: self.boot_id() != before)

    def wait_for(self, what: str, is_so: Callable[[], bool], seconds: float = BOOT_TAKES) -> None:
        ending = monotonic() + seconds
        while not is_so():
            if monotonic() > ending:
                raise TimeoutError(f"{self.name} on {self.host}: waited {seconds:.0f} s for {what}")
            sleep(0.05)
