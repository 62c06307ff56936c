"""A real SQLite journal in a simulation: at each commit its files are copied as a power failure leaves them.

After every append a copy is opened, and must hold what was appended; a copy with the write-ahead log cut off
somewhere in the last transaction must hold what was there before it, or all of it. A killed process leaves its files
to the next one as a copy, because its own connection cannot be ended without closing it in order; if it was killed
while it appended, with the log cut off. What is loaded must be the fleet that the appended entries make.
"""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.port import AppendUnknown, NotWritten, Recovered
from forewarn.journal.sqlite import database
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.simulator.environment.journal import AppendFault, SimulatedDisk

_SNAPSHOT_ENTRIES = 60
"""Few, so that a simulation takes snapshots."""

_PART_SIZE = 100
"""Little, so that the large changes of a simulation are stored in parts."""

_NOT_COPIED = shutil.ignore_patterns("lock", "fold-lock")


class SqliteDisk(SimulatedDisk):
    """A directory with a journal, which is copied whenever a process was killed."""

    def __init__(self, directory: Path, random: Random) -> None:
        super().__init__()
        self._root = directory
        self._random = random
        self._generation = 0
        self._opened: list[CopiedSqliteJournal] = []
        self._journal: CopiedSqliteJournal | None = None
        self._folds = {0: Fleet()}
        """The fleets before and after the last append, by their revisions."""

    def open(self) -> "CopiedSqliteJournal":
        """Return the journal for a new process."""
        if self._journal is not None and not self._journal.is_closed:
            before = self._directory
            self._generation += 1
            if self._torn.exists():
                self._torn.rename(self._directory)
            else:
                shutil.copytree(before, self._directory, ignore=_NOT_COPIED)
        self._journal = CopiedSqliteJournal(self, self._directory)
        self._opened.append(self._journal)
        return self._journal

    def close(self) -> None:
        """Let go of the journals of all processes, at the end."""
        for journal in self._opened:
            journal.close()

    def append(self, before: int, entries: Sequence[Entry], append: Callable[[], None]) -> None:
        """Make an append, and open copies: of the files as they are then, and with the log cut off within it."""
        log_size = self._log_size
        append()
        self._fold(before, entries)
        self._expect(None, {before + len(entries)})
        if self._log_size > log_size:  # else it was begun anew
            self._expect(self._random.randint(log_size, self._log_size), set(self._folds))

    def tear(self, before: int, entries: Sequence[Entry], append: Callable[[], None]) -> None:
        """Make an append, and leave the next process the files as they are when it is made in part."""
        shutil.copytree(self._directory, self._torn, ignore=_NOT_COPIED)
        held = self._log.read_bytes() if self._log.exists() else b""
        try:
            append()
        except BaseException:
            shutil.rmtree(self._torn)
            raise
        self._fold(before, entries)
        log = self._log.read_bytes()
        if log.startswith(held):  # else it was begun anew
            (self._torn / self._log.name).write_bytes(log[: self._random.randint(len(held), len(log))])

    def check_loaded(self, found: Recovered) -> None:
        """Compare what a process has loaded with what was appended."""
        self._compare(found, set(self._folds), "the journal")
        self._folds = {found.revision: self._folds.get(found.revision, found.fleet).copy()}

    def _fold(self, before: int, entries: Sequence[Entry]) -> None:
        fleet = self._folds[before]
        after = fleet.copy()
        for entry in entries:
            after.enter(entry)
        self._folds = {before: fleet, before + len(entries): after}

    def _compare(self, found: Recovered, revisions: set[int], what: str) -> None:
        if found.revision not in revisions:
            self.wrong.append(f"{what} holds revision {found.revision}, not {sorted(revisions)}")
        elif list(found.fleet.parts()) != list(self._folds[found.revision].parts()):
            self.wrong.append(f"{what} makes another fleet of revision {found.revision} than was appended")

    @property
    def _log(self) -> Path:
        """The write-ahead log."""
        return self._directory / f"{database.NAME}-wal"

    @property
    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    @property
    def _torn(self) -> Path:
        """What a process leaves that is killed while it appends."""
        return self._root / "torn"

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
            found = journal.load()
            journal.close()
            cut = f", its log cut off at {log_size}," if log_size is not None else ""
            self._compare(found, revisions, f"a copy of the journal{cut}")
        finally:
            shutil.rmtree(copy)


class CopiedSqliteJournal(SqliteJournal):
    """A SQLite journal with the faults of a simulated disk."""

    def __init__(self, disk: SqliteDisk, directory: Path) -> None:
        super().__init__(directory, snapshot_entries=_SNAPSHOT_ENTRIES, part_size=_PART_SIZE)
        self._disk = disk
        self.is_closed = False

    def load(self) -> Recovered:
        found = super().load()
        self._disk.check_loaded(found)
        return found

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
        append = partial(super().append, expected_revision, entries)
        if fault is AppendFault.CRASH_TORN:
            disk.tear(expected_revision, entries, append)
            disk.on_crash()
            return
        disk.append(expected_revision, entries, append)
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
