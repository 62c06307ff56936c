"""Reads entries from the database, in order or by what they concern."""

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from forewarn.core.facts import Entry
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import unpack_beginning, unpack_one
from forewarn.journal.port import DamagedJournal, JournalFailed
from forewarn.journal.postgres.chain import BEGINNING, ChainPosition, StoredEntry, check_links
from forewarn.journal.postgres.connection import LimitedConnection, Record
from forewarn.journal.postgres.reader_pool import ReaderPool

_PAGE = 1_000
_COMMAND = "command:"


class _EntryRange(msgspec.Struct, frozen=True):
    """Entries that follow one another, and the hash of the one before them, where it is known."""

    previous: bytes | None
    entries: list[StoredEntry]


class EntryReader:
    """Reads the entries of one database; from any thread."""

    def __init__(self, pool: ReaderPool, place: str, chain: ChainPosition) -> None:
        self._pool = pool
        self._place = place
        self._chain = chain

    def begin(self, revision: int, hash_: bytes) -> None:
        """Forget what was read before: the entries after this one are read next."""
        self._chain.begin(revision, hash_)

    def first_revision(self) -> int:
        """Return the first kept revision; 1 where there is none."""
        ((first,),) = self._pool.read(lambda connection: connection.run("first_revision"))
        return int(first)

    def entries(self, after: int, limit: int | None = None) -> Iterator[Entry]:
        """Yield the entries above a revision, each checked."""
        for stored in self.stored_entries(after, limit):
            yield self.decode(stored)

    def decode(self, stored: StoredEntry) -> Entry:
        return unpack_one(stored.revision, stored.checksum, stored.whole_body, self._place)

    def subjects(self, stored: StoredEntry) -> set[str]:
        """Return the subjects of an entry; of a long one only caller and command: its bulk has noted the others."""
        if stored.parts:
            return subjects_of(unpack_beginning(stored.revision, stored.body, self._place))
        return subjects_of(self.decode(stored))

    def stored_entries(self, after: int, limit: int | None = None) -> Iterator[StoredEntry]:
        """Yield the entries above a revision as they are stored, page by page.

        What is damaged is refused. ``JournalDiverged``: they do not continue what this process has read before.
        """
        may_be_deleted = True
        while limit is None or limit > 0:
            count = _PAGE if limit is None else min(limit, _PAGE)
            known = self._chain.at
            page = self._read(after, count)
            self._check(page, after, known, is_end=len(page.entries) < count)
            if not may_be_deleted and page.previous is None:
                raise JournalFailed(f"{self._place} has deleted entries while they were read: read it again")
            self._chain.advance(page.entries)
            yield from page.entries
            if len(page.entries) < count:
                return
            may_be_deleted, after = False, page.entries[-1].revision
            if limit is not None:
                limit -= count

    def _read(self, after: int, count: int) -> _EntryRange:
        return self._pool.read(lambda connection: _read_page(connection, after, count))

    def _check(self, page: _EntryRange, after: int, known: tuple[int, bytes], *, is_end: bool) -> None:
        links = [(each.revision, each.hash) for each in page.entries]
        if page.previous is not None:
            links.insert(0, (after, page.previous))
        elif not links and after:
            raise self._chain.diverged(after)
        self._chain.check(known, links, is_end=is_end)
        for (one, _), (two, _) in pairwise(links):
            if two != one + 1:
                raise DamagedJournal(
                    f"{self._place} lacks revision {one + 1}: restore the database from a backup; nothing was changed"
                )
        check_links(page.previous, page.entries, self._place)

    def history(
        self,
        subject: str,
        after: int,
        before: int | None,
        limit: int | None,
        newest: Sequence[int],
        *,
        from_oldest: bool,
    ) -> list[Entry]:
        """Return the entries that concern a subject, oldest first; with a limit, those at one end.

        ``newest`` are those that the table of subjects does not have yet.
        """
        values = {
            "subject": subject,
            "command": subject.removeprefix(_COMMAND) if subject.startswith(_COMMAND) else "",
            "newest": list(newest),
            "after": after,
            "before": sys.maxsize if before is None else before,
            "limit": sys.maxsize if limit is None else limit,
        }
        name = "oldest_about" if from_oldest else "newest_about"
        found = self._pool.read(lambda connection: _read_stored(connection, name, **values))
        return sorted(map(self.decode, found), key=lambda entry: entry.revision)


def _read_page(connection: LimitedConnection, after: int, count: int) -> _EntryRange:
    stored = _read_stored(connection, "read_entries", after=after, limit=count + 1)
    if stored and stored[0].revision == after:
        return _EntryRange(stored[0].hash, stored[1:])
    is_beginning = bool(stored) and stored[0].revision == 1
    return _EntryRange(BEGINNING if is_beginning else None, stored[:count])


def _read_stored(connection: LimitedConnection, name: str, **values: object) -> list[StoredEntry]:
    """Run a query for entries, and read their parts."""
    rows = connection.run(name, **values)
    if not any(map(_is_in_parts, rows)):
        return [_stored(row) for row in rows]
    with connection.transaction():
        connection.run("see_one_state")
        return [
            _stored(row, _read_parts(connection, row) if _is_in_parts(row) else ())
            for row in connection.run(name, **values)
        ]


def _read_parts(connection: LimitedConnection, row: Record) -> tuple[bytes, ...]:
    return tuple(content for (content,) in connection.run("read_parts", bulk=row[3]))


def _is_in_parts(row: Record) -> bool:
    *_, bulk, body = row
    return bool(bulk) and body is not None


def _stored(row: Record, parts: tuple[bytes, ...] = ()) -> StoredEntry:
    revision, checksum, hash_, _, body = row
    return StoredEntry(revision, checksum, hash_, body or b"", parts)
