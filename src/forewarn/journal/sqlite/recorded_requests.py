"""Which requests are recorded, so that none is appended twice.

The ids of the newest are remembered: those that the load reads, and those that are appended since. The index of
history has the older ones. Entries without a request cost nothing here: the ids of their commands are drawn anew.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Entry
from forewarn.journal.codec import check_requests
from forewarn.journal.sqlite import database, index
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.index import RevisionRange

_ONE = RevisionRange(limit=1)
_REMEMBERED = 200_000
"""Several times as many as entries may follow the last snapshot, up to which the index reaches."""


class RecordedRequests:
    """The ids of commands that were recorded with a request. One thread at a time calls it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / index.NAME
        self._newest: dict[str, None] = {}
        self._files = ExitStack()
        self._index: sqlite3.Connection | None = None

    def note(self, entries: Iterable[Entry]) -> None:
        """Remember the requests of durable entries."""
        for entry in entries:
            if entry.request:
                self._newest[entry.command] = None
        while len(self._newest) > _REMEMBERED:
            del self._newest[next(iter(self._newest))]

    def check(self, entries: Sequence[Entry], journal: sqlite3.Connection) -> None:
        """Refuse a request that is recorded, or occurs in the batch twice."""
        if any(entry.request for entry in entries):
            self._index = self._index or self._open(journal)
            check_requests(entries, lambda id_: id_ in self._newest or self._is_indexed(id_))

    def close(self) -> None:
        """Close the index; what is remembered stays."""
        self._files.close()
        self._index = None

    def _open(self, journal: sqlite3.Connection) -> sqlite3.Connection | None:
        """Open the index if it is there and this journal's."""
        with suppress(ForewarnError), ExitStack() as files:
            connection = files.enter_context(database.reading(self._path))
            if index.reach_in(journal, connection) is not None:
                self._files = files.pop_all()
                return connection
        return None

    def _is_indexed(self, id_: str) -> bool:
        try:
            with translate_errors(self._path):
                return bool(self._index and index.revisions_about(f"command:{id_}", self._index, _ONE))
        except ForewarnError:
            self.close()  # it is damaged; the next snapshot makes it anew
            return False
