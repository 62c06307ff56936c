"""What QEMU says unasked, as sightings: a guest that rebooted or shut down, a process that died."""

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
    "host-qmp-quit": "its process was told to quit",
    "host-signal": "its process was ended by a signal",
    "host-ui": "at its display",
    "subsystem-reset": "by its firmware",
}


class MonitorObserver:
    """Makes sightings of what monitors say."""

    def __init__(self, settings: QemuSettings, clock: Clock) -> None:
        self.report: Callable[[Observation], None] = lambda _: None
        self._settings = settings
        self._clock = clock
        self._down: set[Path] = set()
        """The machines that said that they go down, so that their end is no surprise."""
        self._landing: set[Path] = set()
        self._looks = 0
        self._dead_at_first: set[Path] = set()

    def expect_landing(self, path: Path) -> None:
        """Say nothing of a machine that waits for another's memory: until it has it, the guest is not there."""
        self._landing.add(path)

    def landed(self, path: Path) -> None:
        self._landing.discard(path)

    def handle_message(self, path: Path, said: dict[str, Any] | None) -> None:
        """Take in what QEMU said, or that it hung up."""
        vm = self._settings.vm_at(path)
        if path in self._landing or not vm:
            self._down.discard(path)
            return
        data = said.get("data", {}) if said else {}
        why = _WHY.get(str(data.get("reason", "")), str(data.get("reason", "")))
        match said["event"] if said else None:
            case "RESET":
                self._down.discard(path)
                self._tell(vm, ObservationKind.REBOOTED, why)
            case "SHUTDOWN":
                self._down.add(path)
                self._tell(vm, ObservationKind.STOPPED, why)
            case None if path in self._down:
                self._down.discard(path)
            case None:
                self._tell(vm, ObservationKind.CRASHED, "its process on the host died")

    def update_sockets(self, alive: Collection[Path], dead: Collection[Path]) -> None:
        """Take in which sockets have somebody behind them, and which are left of processes that died.

        Who was dead before anybody listened is told once, at the second look: at the first it may be about to start.
        A VM of which a machine lives on any host is alive.
        """
        self._looks += 1
        if self._looks == 1:
            self._dead_at_first.update(dead)
        elif self._looks == 2:
            still = self._dead_at_first.intersection(dead) - self._landing
            lost = set(map(self._settings.vm_at, still)) - set(map(self._settings.vm_at, alive)) - {""}
            for vm in sorted(lost):
                self._tell(
                    vm,
                    ObservationKind.CRASHED,
                    "its process on the host had died before anybody listened",
                    is_found=True,
                )

    def _tell(self, vm: str, what: ObservationKind, detail: str, *, is_found: bool = False) -> None:
        self.report(Observation(vm, what, self._clock.now(), detail, is_found=is_found))
