"""A driver for tests with several processes: machines are files in a directory that all nodes share.

A machine stores the highest term that asked, atomically with each impact, and refuses a lower one. ``done`` has
a line for each impact, by whichever process. Where a file ``hold`` is, calls wait before they reach the machine.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.node.driver import Impact, ImpactDone, ImpactNotBegun, ImpactOutcome, ImpactUnknown


class MachineSettings(msgspec.Struct, frozen=True):
    """Where the machines are."""

    directory: str
    fences: bool = True


class MachineFilesDriver:
    """Writes impacts into files."""

    moves_live = False

    def __init__(self, settings: MachineSettings) -> None:
        self._directory = Path(settings.directory)
        self.fences_terms = settings.fences

    @classmethod
    def from_settings(
        cls, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> "MachineFilesDriver":
        return cls(read_table("drivers.machines", settings, MachineSettings))

    def perform(self, impact: Impact) -> ImpactOutcome:
        self._hold(impact)
        with self._machine(impact) as is_current:
            if not is_current:
                self._note("refused", impact)
                return ImpactUnknown("another leader has asked since")
            self._note("done", impact)
            return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        with self._machine(impact) as is_current:
            if not is_current:
                return ImpactUnknown("another leader has asked since")
            done = self._directory / "done"
            is_done = done.exists() and impact.event.id in done.read_text("ascii")
            return ImpactDone() if is_done else ImpactNotBegun()

    def close(self) -> None:
        """Nothing is to be closed."""

    def _hold(self, impact: Impact) -> None:
        if (self._directory / "hold").exists():
            self._note("held", impact)
            while (self._directory / "hold").exists():
                time.sleep(0.01)

    @contextmanager
    def _machine(self, impact: Impact) -> Iterator[bool]:
        """Lock all machines, store the term, and tell whether it is the highest."""
        with (self._directory / "term").open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            highest = int(file.read() or 0)
            if impact.term > highest or not self.fences_terms:
                file.truncate(0)
                file.write(str(max(impact.term, highest)))
                file.flush()
            yield impact.term >= highest or not self.fences_terms

    def _note(self, name: str, impact: Impact) -> None:
        line = f"{impact.event.id} {impact.term} {impact.attempt} {os.getpid()}\n"
        with (self._directory / name).open("a", encoding="ascii") as file:
            file.write(line)
