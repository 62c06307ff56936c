"""Observations from QMP events: a guest that rebooted or shut down, a process that died."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from forewarn.clocks import Clock
from forewarn.core.model import Observation, ObservationKind
from forewarn.drivers.qemu.settings import QemuSettings

_WHY = {
    "guest-reset": "by the guest itself",
    "guest-shutdown": "by the guest itself",
    "guest-panic": "the guest panicked",
    "host-qmp-system-reset": "reset over QMP",
    "host-qmp-quit": "its process received a quit command",
    "host-signal": "its process was ended by a signal",
    "host-ui": "at its display",
    "subsystem-reset": "by its firmware",
}


class MonitorObserver:
    """Converts QMP events to observations."""

    def __init__(self, settings: QemuSettings, clock: Clock) -> None:
        self.report: Callable[[Observation], None] = lambda _: None
        self._settings = settings
        self._clock = clock
        self._down: set[Path] = set()
        """Machines that reported their shutdown, so that the end of their process is no crash."""
        self._landing: set[Path] = set()
        self._scans = 0
        self._begins_again = False
        self._dead_at_first: set[Path] = set()

    def expect_landing(self, path: Path) -> None:
        """Report nothing about a machine that waits for a migration: the guest is not there yet."""
        self._landing.add(path)

    def landed(self, path: Path) -> None:
        self._landing.discard(path)

    def begin_again(self) -> None:
        """Report machines that are found dead once more, with the next two scans."""
        self._begins_again = True

    def handle_message(self, path: Path, said: dict[str, Any] | None) -> None:
        """Process a QMP event, or the end of a process (None)."""
        vm = self._settings.vm_at(path)
        if path in self._landing or not vm:
            self._down.discard(path)
            return
        data = said.get("data", {}) if said else {}
        why = _WHY.get(str(data.get("reason", "")), str(data.get("reason", "")))
        match said["event"] if said else None:
            case "RESET":
                self._down.discard(path)
                self._observe(vm, ObservationKind.REBOOTED, why)
            case "SHUTDOWN":
                self._down.add(path)
                self._observe(vm, ObservationKind.STOPPED, why)
            case None if path in self._down:
                self._down.discard(path)
            case None:
                self._observe(vm, ObservationKind.CRASHED, "its process on the host died")

    def update_sockets(self, alive: Collection[Path], dead: Collection[Path]) -> None:
        """Process which sockets have a process, and which are left of processes that died.

        A process that was dead when observation began is reported once, at the second scan: at the first it may be
        about to start. A VM with a running machine on any host counts as alive.
        """
        if self._begins_again:
            self._begins_again, self._scans = False, 0
        self._scans += 1
        if self._scans == 1:
            self._dead_at_first = set(dead)
        elif self._scans == 2:
            still = self._dead_at_first.intersection(dead) - self._landing
            lost = set(map(self._settings.vm_at, still)) - set(map(self._settings.vm_at, alive)) - {""}
            for vm in sorted(lost):
                self._observe(
                    vm,
                    ObservationKind.CRASHED,
                    "its process on the host had died before observation began",
                    is_found=True,
                )

    def _observe(self, vm: str, what: ObservationKind, detail: str, *, is_found: bool = False) -> None:
        self.report(Observation(vm, what, self._clock.now(), detail, is_found=is_found))
