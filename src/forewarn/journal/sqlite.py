"""The embedded journal: one SQLite file, written by one process, with snapshots and an index beside it.

    journal.sqlite3    the entries: the truth
    snapshot-REVISION  the fleet as it stood then, the newest two
    history.sqlite3    which entries concern whom
    lock, fold-lock    held by the server, and by the process that folds snapshots

Everything but the first can be made from it again, as long as no entry was deleted.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from forewarn.core.facts import Entry
from forewarn.files import Lock
from forewarn.journal import file, snapshot, wal
from forewarn.journal.codec import check_revisions, pack, unpack
from forewarn.journal.failures import clearly
from forewarn.journal.folding import Folding
from forewarn.journal.history import History
from forewarn.journal.index import END, Span
from forewarn.journal.port import DamagedJournal, JournalFailed, Recovered, StaleWriter
from forewarn.journal.recovery import recover

DEFAULT_HISTORY = timedelta(days=400)


class SqliteJournal:
    """Keeps entries in a directory."""

    def __init__(
        self,
        directory: Path,
        *,
        history: timedelta = DEFAULT_HISTORY,
        snapshot_entries: int = 50_000,
        snapshot_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._directory = directory
        self._path = directory / file.NAME
        self._lock = Lock(directory / "lock")
        self._writer: sqlite3.Connection | None = None
        self._folding = Folding(directory, history)
        self._history = History(directory)
        self._snapshot_entries = snapshot_entries
        self._snapshot_bytes = snapshot_bytes
        self._new_entries = 0
        self._new_bytes = 0

    def load(self) -> Recovered:
        self._close_writer()
        self._history.forget()
        with clearly(self._directory):
            self._directory.mkdir(exist_ok=True)
        with clearly(self._lock.path):
            self._lock.acquire()
        try:
            self._make_if_new()
            file.recognise(self._path)
            with file.reading(self._path) as connection:
                file.check(connection, self._path)
                ((page_size,),) = connection.execute("PRAGMA page_size")
                wal.check(self._path, page_size)
                recovered = recover(connection, self._directory)
                self._count_new(connection)
                if recovered.warnings:
                    self._new_entries = self._snapshot_entries  # a damaged snapshot is to be replaced soon
                # Opened before the reader closes: with none open, SQLite would read the WAL's end anew, and might
                # find there what was written, but never acknowledged, before a crash.
                self._writer = file.open_writer(self._path)
        except BaseException:
            self.close()
            raise
        return recovered

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        check_revisions(expected_revision, entries)
        rows = pack(entries)
        with self._writing() as connection:
            (last,) = connection.execute("SELECT max(revision) FROM entries").fetchone()
            if (last or 0) != expected_revision:
                raise StaleWriter(
                    f"{self._path} is at revision {last or 0}, not {expected_revision}: "
                    "load it again before appending"
                )
            connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        self._new_entries += len(rows)
        self._new_bytes += sum(len(body) for _, _, body in rows)

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        with file.reading(self._path) as connection:
            connection.execute("BEGIN")  # one view of the file, whatever is deleted meanwhile
            first, _ = file.bounds(connection)
            after = max(after, first - 1)
            yield from unpack(file.rows(connection, after, limit), self._path, after)

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        return self._history.about(subject, Span(after, END if before is None else before, limit, from_oldest))

    @property
    def snapshot_due(self) -> bool:
        return self._new_entries >= self._snapshot_entries or self._new_bytes >= self._snapshot_bytes

    def take_snapshot(self) -> None:
        # Counted anew even if it fails: the next attempt comes after as many entries again, not at once.
        self._new_entries = self._new_bytes = 0
        self._folding.run()
        self._history.forget()  # the index reaches further now

    def compact(self, limit: int = 500) -> bool:
        with self._writing() as connection:
            deleted = connection.execute(
                "DELETE FROM entries WHERE revision IN"
                " (SELECT revision FROM entries WHERE revision <= ? ORDER BY revision LIMIT ?)",
                (self._folding.released, limit),
            ).rowcount
        return deleted == limit

    def close(self) -> None:
        self._folding.stop()
        self._history.forget()
        self._close_writer()
        self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the writer inside a transaction; after a failure there is no writer until the next load."""
        connection = self._writer
        if connection is None:
            raise JournalFailed(f"{self._path} is not open for writing: load it again")
        try:
            with clearly(self._path):
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except StaleWriter:
            connection.execute("ROLLBACK")
            raise
        except BaseException:
            self._close_writer()
            raise

    def _close_writer(self) -> None:
        if self._writer is not None:
            with suppress(sqlite3.Error):  # what matters was committed before; the next load looks anew
                self._writer.close()
            self._writer = None

    def _make_if_new(self) -> None:
        if self._path.exists():
            return
        if snapshot.snapshots(self._directory):
            raise DamagedJournal(
                f"{self._path} is missing beside its snapshots: restore it from a backup, "
                "or name another directory; nothing was changed"
            )
        file.create(self._path)

    def _count_new(self, connection: sqlite3.Connection) -> None:
        """Count what came after the newest snapshot."""
        newest = max((revision for revision, _ in snapshot.snapshots(self._directory)), default=0)
        self._new_entries, self._new_bytes = connection.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM entries WHERE revision > ?", (newest,)
        ).fetchone()
