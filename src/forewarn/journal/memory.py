"""The journal of the emulator and of tests: as strict as the others, gone with the process."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from threading import Lock

from forewarn.core.errors import BadInput
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import check_requests, check_revisions
from forewarn.journal.following import AppendNotifier
from forewarn.journal.port import NotWritten, Recovered, StaleWriter


class MemoryJournal:
    """Keeps every entry in memory."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._index: dict[str, list[int]] = {}
        self._adding = Lock()
        self._notifier = AppendNotifier(interval=60.0)
        self._is_open = False

    @classmethod
    def from_settings(cls, location: str, directory: Path, history: timedelta) -> "MemoryJournal":
        if location:
            raise BadInput(f"journal 'memory' takes no location, but {location!r} is given; write memory:")
        return cls()

    def load(self) -> Recovered:
        self._is_open = True
        fleet = Fleet()
        for entry in self._entries:
            fleet.enter(entry)
        return Recovered(fleet, len(self._entries))

    def reopen(self) -> int:
        self._is_open = True
        return len(self._entries)

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        if not self._is_open:
            raise NotWritten("the journal is closed: load it before appending")
        check_revisions(expected_revision, entries)
        if expected_revision != len(self._entries):
            raise StaleWriter
        batch = list(entries)
        check_requests(batch, lambda id_: f"command:{id_}" in self._index)
        self._add(batch)
        self._notifier.notify()

    def _add(self, entries: Iterable[Entry]) -> None:
        with self._adding:
            for entry in entries:
                self._entries.append(entry)
                for subject in subjects_of(entry):
                    self._index.setdefault(subject, []).append(entry.revision)

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        # The list only grows, so an iterator over it stays good beside the writer.
        return islice(self._entries, after, None if limit is None else after + limit)

    def follow(self, after: int, timeout: float) -> bool:
        return self._notifier.wait(lambda: len(self._entries) > after, timeout)

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        with self._adding:  # an entry that was read is found here
            revisions = list(self._index.get(subject, []))
        begin = bisect_right(revisions, after)
        end = len(revisions) if before is None else bisect_left(revisions, before)
        if limit is not None:
            begin, end = (begin, min(begin + limit, end)) if from_oldest else (max(end - limit, begin), end)
        return [self._entries[revision - 1] for revision in revisions[begin:end]]

    def close(self) -> None:
        self._is_open = False
        self._notifier.close()
