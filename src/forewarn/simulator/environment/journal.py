"""A journal on a simulated disk: it refuses, loses its answer, is full or unreadable, and survives its process.

It keeps rows as bytes, as the others do, so that every entry is encoded and decoded. An append is atomic, as a
transaction of a database is: after a crash all of its entries are there, or none.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Unpack

from forewarn.core.facts import Entry
from forewarn.journal.codec import Row, pack, unpack
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import AppendUnknown, HistoryBounds, JournalFailed, NotWritten, Recovered, StaleWriter

_PLACE = Path("simulated-disk")


class AppendFault(StrEnum):
    """What goes wrong with one append."""

    REFUSED = "refused"
    """Nothing is written, and the writer is told so."""
    UNKNOWN_WRITTEN = "unknown-written"
    """It is written, but the answer is lost."""
    UNKNOWN_LOST = "unknown-lost"
    """It is not written, and the answer is lost."""
    CRASH_BEFORE = "crash-before"
    """The process dies before it is durable."""
    CRASH_AFTER = "crash-after"
    """The process dies when it is durable, before any caller is answered."""
    CRASH_TORN = "crash-torn"
    """The process dies while it is written: a real journal finds a part of it, a simulated one nothing."""


class SimulatedDisk:
    """What is durable."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.is_full = False
        self.is_unreadable = False
        self.next_faults: list[AppendFault] = []
        """Faults of the next appends, the first one first."""
        self.wrong: list[str] = []
        """What must never be found on it."""
        self.on_crash: Callable[[], None] = lambda: None
        """Kills the process that appends."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told of every fault that happens."""


class SimulatedJournal(MemoryJournal):
    """The journal of one process; another process opens the same disk again."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self._disk = disk

    def load(self) -> Recovered:
        self._read()
        return super().load()

    def reopen(self) -> int:
        self._read()
        return super().reopen()

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        disk = self._disk
        if self._is_open and expected_revision != len(disk.rows):
            raise StaleWriter
        if disk.is_full:
            disk.on_fault("disk full")
            raise NotWritten("the simulated disk is full: free space on it")
        fault = disk.next_faults.pop(0) if self._is_open and disk.next_faults else None
        if fault:
            disk.on_fault(f"append {fault}")
        match fault:
            case AppendFault.REFUSED:
                raise NotWritten("the simulated disk refused to write: look at it")
            case AppendFault.UNKNOWN_LOST:
                self._is_open = False
                raise AppendUnknown("the simulated disk did not answer: look at it")
            case AppendFault.CRASH_BEFORE | AppendFault.CRASH_TORN:
                disk.on_crash()
                return
        super().append(expected_revision, entries)
        disk.rows.extend(pack(entries))
        if fault is AppendFault.UNKNOWN_WRITTEN:
            self._is_open = False
            raise AppendUnknown("the simulated disk did not answer: look at it")
        if fault is AppendFault.CRASH_AFTER:
            disk.on_crash()

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        self._check_readable()
        return super().entries(after, limit)

    def history(self, subject: str, **bounds: Unpack[HistoryBounds]) -> list[Entry]:
        self._check_readable()
        return super().history(subject, **bounds)

    def _read(self) -> None:
        self._check_readable()
        self._entries, self._index = [], {}
        self._add(unpack(self._disk.rows, _PLACE, 0))

    def _check_readable(self) -> None:
        if self._disk.is_unreadable:
            self._disk.on_fault("disk unreadable")
            raise JournalFailed("the simulated disk cannot be read: look at it")
