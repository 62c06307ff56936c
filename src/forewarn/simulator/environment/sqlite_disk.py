"""A real SQLite journal in a simulation: at each commit its files are copied as a power failure leaves them.

After every append a copy is opened, and must hold what was appended; a copy with the write-ahead log cut off
somewhere in the last transaction must hold what was there before it, or all of it. A killed process leaves its files
to the next one as a copy, because its own connection cannot be ended without closing it in order.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

from forewarn.core.facts import AnyFact, Entry
from forewarn.journal.port import AppendUnknown, NotWritten
from forewarn.journal.sqlite import database
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.simulator.environment.journal import AppendFault, SimulatedDisk

_SNAPSHOT_ENTRIES = 60
"""Few, so that a simulation takes snapshots."""

_PART_SIZE = 100
"""Little, so that the large changes of a simulation are stored in parts."""


class SqliteDisk(SimulatedDisk):
    """A directory with a journal, which is copied whenever a process was killed."""

    def __init__(self, directory: Path, random: Random) -> None:
        super().__init__()
        self._root = directory
        self._random = random
        self._generation = 0
        self._opened: list[CopiedSqliteJournal] = []
        self._journal: CopiedSqliteJournal | None = None

    def open(self) -> "CopiedSqliteJournal":
        """Return the journal for a new process."""
        if self._journal is not None and not self._journal.is_closed:
            before = self._directory
            self._generation += 1
            shutil.copytree(before, self._directory, ignore=shutil.ignore_patterns("lock", "fold-lock"))
        self._journal = CopiedSqliteJournal(self, self._directory)
        self._opened.append(self._journal)
        return self._journal

    def close(self) -> None:
        """Let go of the journals of all processes, at the end."""
        for journal in self._opened:
            journal.close()

    @property
    def log_size(self) -> int:
        """The bytes of the write-ahead log."""
        log = self._directory / f"{database.NAME}-wal"
        return log.stat().st_size if log.exists() else 0

    def check_copy(self, before: int, after: int, log_size: int) -> None:
        """Open copies of the files as they are now, and with the log cut off behind what it held before."""
        self._expect(None, {after})
        if self.log_size > log_size:  # else it was begun anew
            self._expect(self._random.randint(log_size, self.log_size), {before, after})

    @property
    def _directory(self) -> Path:
        return self._root / f"journal-{self._generation}"

    def _expect(self, log_size: int | None, revisions: set[int]) -> None:
        copy = self._root / "copy"
        shutil.copytree(self._directory, copy, ignore=shutil.ignore_patterns("lock", "fold-lock", "history*"))
        try:
            if log_size is not None:
                with (copy / f"{database.NAME}-wal").open("r+b") as log:
                    log.truncate(log_size)
            journal = SqliteJournal(copy)
            found = journal.load().revision
            journal.close()
            if found not in revisions:
                cut = f", its log cut off at {log_size}," if log_size is not None else ""
                self.wrong.append(f"a copy of the journal{cut} holds revision {found}, not {sorted(revisions)}")
        finally:
            shutil.rmtree(copy)


class CopiedSqliteJournal(SqliteJournal):
    """A SQLite journal with the faults of a simulated disk."""

    def __init__(self, disk: SqliteDisk, directory: Path) -> None:
        super().__init__(directory, snapshot_entries=_SNAPSHOT_ENTRIES, part_size=_PART_SIZE)
        self._disk = disk
        self.is_closed = False

    def prepare(self, facts: tuple[AnyFact, ...]) -> None:
        if self._disk.is_full:
            self._disk.on_fault("disk full")
            raise NotWritten("the simulated disk is full: free space on it")
        super().prepare(facts)

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        disk = self._disk
        if disk.is_full:
            disk.on_fault("disk full")
            raise NotWritten("the simulated disk is full: free space on it")
        fault = disk.next_faults.pop(0) if disk.next_faults else None
        if fault:
            disk.on_fault(f"append {fault}")
        if fault is AppendFault.REFUSED:
            raise NotWritten("the simulated disk refused to write: look at it")
        if fault is AppendFault.CRASH_BEFORE:
            disk.on_crash()
            return
        if fault is AppendFault.UNKNOWN_LOST:
            self._lose_answer()
            raise AppendUnknown("the simulated disk did not answer: look at it")
        log_size = disk.log_size
        super().append(expected_revision, entries)
        disk.check_copy(expected_revision, expected_revision + len(entries), log_size)
        if fault is AppendFault.CRASH_AFTER:
            disk.on_crash()
        if fault is AppendFault.UNKNOWN_WRITTEN:
            self._lose_answer()
            raise AppendUnknown("the simulated disk did not answer: look at it")

    def close(self) -> None:
        super().close()
        self.is_closed = True

    def _lose_answer(self) -> None:
        """Take nothing more until the journal is opened again."""
        self._is_unsure = True
        self._close_writer()
