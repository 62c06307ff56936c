"""Finds the entries that concern a subject.

    first kept ....... index reaches ....... remembered from ....... last
           the index             looked through          memory

The index on disk reaches as far as the last snapshot. The entries after it are remembered by their subjects,
and read for that only for a query, so that appending costs nothing more. What lies between is normally
nothing; where the index is missing there is much, and the bodies are looked through.
"""

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Lock as Mutex

import msgspec
from msgspec.structs import replace

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Entry
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import Row, unpack_beginning, unpack_cause, unpack_one
from forewarn.journal.sqlite import database, index, long_entries
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.index import RevisionRange

REMEMBERED = 50_000
"""Newest entries whose subjects are kept in memory, where the index does not reach."""
_LARGE = 64 * 1024
"""A body above this size concerns so many that it is remembered by its cause only, and looked through otherwise."""
_BY_CAUSE = ("command:", "caller:")
_ONE = f"{long_entries.MATCHING_ROWS} AND revision = ?"
_BETWEEN = f"{long_entries.MATCHING_ROWS} AND revision > ? AND revision < ? ORDER BY revision"


class HistoryReader:
    """Looks things up in one directory; one question at a time, from any thread."""

    def __init__(self, directory: Path, remembered: int = REMEMBERED) -> None:
        self._directory = directory
        self._most = remembered
        self._place = directory / database.NAME
        self._mutex = Mutex()
        self._view: _HistoryView | None = None

    def about(self, subject: str, span: RevisionRange) -> list[Entry]:
        """Return the entries that concern a subject, oldest first; with a limit, those at one end of the span."""
        limit = span.limit
        found: list[Entry] = []
        with self._mutex, translate_errors(self._place):
            if self._view and self._view.is_full:
                self._view.close()
                self._view = None
            self._view = self._view or _HistoryView(self._directory, self._most)
            with closing(self._view.rows_about(subject, span)) as rows:
                while (limit is None or len(found) < limit) and (row := next(rows, None)):
                    entry = unpack_one(*row, self._place)
                    if subject in subjects_of(entry):
                        found.append(entry)
        if not span.from_oldest:
            found.reverse()
        return found

    def forget(self) -> None:
        """Close the files; the next question opens them as they are then."""
        with self._mutex:
            if self._view:
                self._view.close()
            self._view = None


class _HistoryView:
    """The files of one directory, open for reading, and what is remembered of the newest entries."""

    def __init__(self, directory: Path, most: int) -> None:
        self._most = most
        self._place = directory / database.NAME
        self._files = ExitStack()
        self._journal = self._files.enter_context(database.reading(self._place))
        self._index, self._reach = self._open_index(directory / index.NAME)
        first, last = database.bounds(self._journal)
        self._remembered_from = self._read_to = max(self._reach, last - most, first - 1)
        self._remembered: dict[str, list[int]] = {}
        self._large: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether it remembers far more than a snapshot leaves to it: snapshots fail, or none are taken."""
        return self._read_to - self._remembered_from > 2 * self._most

    def close(self) -> None:
        self._files.close()

    def rows_about(self, subject: str, span: RevisionRange) -> Generator[Row, None, None]:
        """Yield the rows that may concern a subject, from one end; the reader leaves out those that do not."""
        self._read_on()
        written = _as_written(subject)
        indexed = self._look_up(subject, span)
        newest = {*self._remembered.get(subject, ())}
        if not subject.startswith(_BY_CAUSE):
            newest.update(self._large)
        remembered = (revision for revision in newest if span.after < revision < span.before)
        parts = (
            self._rows(indexed, written),
            self._look_through(span, written),
            self._rows(sorted(remembered, reverse=not span.from_oldest), written),
        )
        for part in parts if span.from_oldest else reversed(parts):
            yield from part

    def _rows(self, revisions: Iterable[int], written: bytes) -> Iterator[Row]:
        for revision in revisions:
            self._journal.execute("BEGIN")  # one view of a row and its parts, whatever is deleted meanwhile
            try:
                found = self._journal.execute(_ONE, (written, revision)).fetchall()
                rows = list(self._matching(found, written))
            finally:
                self._journal.execute("COMMIT")
            yield from rows

    def _look_through(self, span: RevisionRange, written: bytes) -> Iterator[Row]:
        """Read what is neither indexed nor remembered."""
        begin, end = max(self._reach, span.after), min(self._remembered_from + 1, span.before)
        if begin + 1 < end:
            found = self._journal.execute(f"{_BETWEEN} {span.order}", (written, begin, end))
            yield from self._matching(found, written)

    def _matching(self, rows: Iterable[Row], written: bytes) -> Iterator[Row]:
        """Complete the bodies that are in parts, and leave out those without the bytes that were looked for."""
        for revision, checksum, body in rows:
            whole = long_entries.whole_body(self._journal, body)
            if whole is body or written in whole:
                yield revision, checksum, whole

    def _read_on(self) -> None:
        for revision, checksum, body in database.stored_rows(self._journal, self._read_to):
            for subject in subjects_of(self._entry(revision, checksum, body)):
                self._remembered.setdefault(subject, []).append(revision)
            self._read_to = revision

    def _entry(self, revision: int, checksum: int, body: bytes) -> Entry:
        """Decode a row, without its facts where they are many."""
        beginning = long_entries.beginning_of(body)
        if beginning is None and len(body) <= _LARGE:
            return unpack_one(revision, checksum, body, self._place)
        self._large.append(revision)
        if beginning is None:
            return unpack_cause(revision, checksum, body, self._place)
        return unpack_beginning(revision, beginning, self._place)

    def _open_index(self, path: Path) -> tuple[sqlite3.Connection | None, int]:
        try:
            with translate_errors(path):
                connection = self._files.enter_context(database.reading(path))
                reach = index.reach_in(self._journal, connection)
        except ForewarnError:
            return None, 0
        return (None, 0) if reach is None else (connection, reach)

    def _look_up(self, subject: str, span: RevisionRange) -> list[int]:
        """Ask the index as far as it reached; where it turns out to be damaged, do without it from now on.

        Another process may have added entries to it since, which are remembered here.
        """
        if self._index is None:
            return []
        indexed = replace(span, before=min(span.before, self._reach + 1))
        try:
            with translate_errors(self._place):
                return index.revisions_about(subject, self._index, indexed)
        except ForewarnError:
            self._index, self._reach = None, 0
            return []


def _as_written(subject: str) -> bytes:
    """Return bytes that stand in the body of every entry about this subject."""
    _, _, name = subject.partition(":")
    return msgspec.json.encode(name) if name else b""  # an empty name is left out of a body
