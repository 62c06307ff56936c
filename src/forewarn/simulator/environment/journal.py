"""A journal on a simulated disk: it refuses, loses its answer, is full or unreadable, and survives its process.

It keeps rows as bytes, as the others do, so that every entry is encoded and decoded. An append is atomic, as a
transaction of a database is: after a crash all of its entries are there, or none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import Row, check_revisions, pack, unpack
from forewarn.journal.port import AppendUnknown, JournalFailed, NotWritten, Recovered, StaleWriter

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
    """The process dies when it is durable, before anybody is told."""


class SimulatedDisk:
    """What is durable."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.is_full = False
        self.is_unreadable = False
        self.next_faults: list[AppendFault] = []
        """Faults of the next appends, the first one first."""
        self.on_crash: Callable[[], None] = lambda: None
        """Kills the process that appends."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told of every fault that happens."""


class SimulatedJournal:
    """The journal of one process; another process opens the same disk again."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._is_open = False
        self._entries: list[Entry] = []
        self._index: dict[str, list[int]] = {}

    def load(self) -> Recovered:
        self._read()
        fleet = Fleet()
        for entry in self._entries:
            fleet.enter(entry)
        return Recovered(fleet, len(self._entries))

    def reopen(self) -> int:
        self._read()
        return len(self._entries)

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        disk = self._disk
        if not self._is_open:
            raise NotWritten("the simulated journal is closed: load it before appending")
        check_revisions(expected_revision, entries)
        if expected_revision != len(disk.rows):
            raise StaleWriter
        if disk.is_full:
            disk.on_fault("disk full")
            raise NotWritten("the simulated disk is full: free space on it")
        fault = disk.next_faults.pop(0) if disk.next_faults else None
        if fault:
            disk.on_fault(f"append {fault}")
        match fault:
            case AppendFault.REFUSED:
                raise NotWritten("the simulated disk refused to write: look at it")
            case AppendFault.UNKNOWN_LOST:
                self._is_open = False
                raise AppendUnknown("the simulated disk did not answer: look at it")
            case AppendFault.CRASH_BEFORE:
                disk.on_crash()
                return
        disk.rows.extend(pack(entries))
        self._take(entries)
        if fault is AppendFault.UNKNOWN_WRITTEN:
            self._is_open = False
            raise AppendUnknown("the simulated disk did not answer: look at it")
        if fault is AppendFault.CRASH_AFTER:
            disk.on_crash()

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        self._check_readable()
        return iter(self._entries[after : None if limit is None else after + limit])

    def follow(self, after: int, timeout: float) -> bool:
        return len(self._disk.rows) > after

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        self._check_readable()
        revisions = self._index.get(subject, [])
        begin = bisect_right(revisions, after)
        end = len(revisions) if before is None else bisect_left(revisions, before)
        if limit is not None:
            begin, end = (begin, min(begin + limit, end)) if from_oldest else (max(end - limit, begin), end)
        return [self._entries[revision - 1] for revision in revisions[begin:end]]

    def close(self) -> None:
        self._is_open = False

    def _read(self) -> None:
        self._check_readable()
        self._entries, self._index = [], {}
        self._take(unpack(self._disk.rows, _PLACE, 0))
        self._is_open = True

    def _take(self, entries: Sequence[Entry] | Iterator[Entry]) -> None:
        for entry in entries:
            self._entries.append(entry)
            for subject in subjects_of(entry):
                self._index.setdefault(subject, []).append(entry.revision)

    def _check_readable(self) -> None:
        if self._disk.is_unreadable:
            self._disk.on_fault("disk unreadable")
            raise JournalFailed("the simulated disk cannot be read: look at it")
