"""The embedded journal: one SQLite file, written by one process, with snapshots and an index beside it.

    journal.sqlite3    the entries: the truth
    snapshot-REVISION  the fleet as it stood then, the newest two
    history.sqlite3    which entries concern whom
    restore.*          what a restore that was cut off left to be finished
    lock, fold-lock    held by the server, and by the process that folds snapshots

Everything but the first can be made from it again, as long as no entry was deleted.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from forewarn.core.facts import Entry
from forewarn.files import Lock, private_directory, restrict_files
from forewarn.journal import file, index, snapshot, wal
from forewarn.journal.codec import check_revisions, pack, unpack
from forewarn.journal.failures import clearly
from forewarn.journal.folding import Folding
from forewarn.journal.history import History
from forewarn.journal.index import END, Span
from forewarn.journal.port import AppendUnknown, DamagedJournal, JournalFailed, NotWritten, Recovered, StaleWriter
from forewarn.journal.recovery import recover
from forewarn.journal.restore import finish as finish_restore

DEFAULT_HISTORY = timedelta(days=400)
_OURS = (f"{file.NAME}*", f"{index.NAME}*", "snapshot-*", "lock", "fold-lock", "control.sock", "driver/*-*-*-*-*")
"""What earlier releases, or a copy, may have left readable for others; it holds secrets of subscriptions."""


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
        self._files: tuple[tuple[int, int] | None, ...] = ()
        """Which files the writer has open."""
        self._last: tuple[int, int] | None = None
        """Revision and checksum of the last durable entry; None before the first load."""
        self._is_unsure = False
        """Whether the outcome of the last append is unknown."""

    def keep_history(self, history: timedelta) -> None:
        """Keep what is over for another time, from the next snapshot on."""
        self._folding.history = history

    def load(self) -> Recovered:
        self._close_writer()
        self._history.forget()
        with clearly(self._directory):
            if self._last and not self._path.exists():
                raise JournalFailed(
                    f"{self._path} was removed while it was in use: put it back, or restart the service to begin anew"
                )
            private_directory(self._directory)
        with clearly(self._lock.path):
            self._lock.acquire()
            finish_restore(self._directory)
            restrict_files(path for pattern in _OURS for path in self._directory.glob(pattern))
        try:
            self._make_if_new()
            file.recognise(self._path)
            with file.reading(self._path) as connection:
                file.check(connection, self._path)
                ((page_size,),) = connection.execute("PRAGMA page_size")
                behind = wal.check(self._path, page_size)
                file.sync_log(self._path)
                self._check_last(connection)
                recovered = recover(connection, self._directory)
                self._count_new(connection)
                if recovered.warnings:
                    self._new_entries = self._snapshot_entries  # a damaged snapshot is to be replaced soon
                # Opened before the reader closes: with none open, SQLite would read the WAL's end anew, and might
                # find there what was written, but never acknowledged, before a crash.
                self._writer = file.open_writer(self._path)
                if self._is_unsure and (behind or self._last != file.last(connection)):
                    file.settle(self._writer, self._path)
                self._files = file.identity(self._path)
                self._last = file.last(connection)
                self._is_unsure = False
        except BaseException:
            self._release()
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
        self._last = rows[-1][:2] if rows else self._last
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

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        self._new_entries = self._new_bytes = 0
        try:
            self._folding.run(release=release, now=now)
        except JournalFailed:
            self._new_entries += self._snapshot_entries * 9 // 10  # tried again after a tenth as many, not at once
            raise
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
        self._release()
        self._last = None  # what is found at the next load may be another journal

    def _release(self) -> None:
        self._folding.stop()
        self._history.forget()
        self._close_writer()
        self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the writer inside a transaction; after a failure there is no writer until the next load."""
        connection = self._writer
        if connection is None:
            raise NotWritten(f"{self._path} is not open for writing: load it again")
        if self._files != file.identity(self._path):
            self._close_writer()  # what is written to a file without a name is lost with the process
            raise NotWritten(f"{self._path} was removed or replaced while it was in use: put it back")
        failure: type[NotWritten | AppendUnknown] = NotWritten
        try:
            with clearly(self._path):
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                # The commit may be on the disk although it is reported as failed: the next start would find it.
                failure = AppendUnknown
                self._is_unsure = True
                connection.execute("COMMIT")
                self._is_unsure = False
        except StaleWriter:
            connection.execute("ROLLBACK")
            raise
        except BaseException as error:
            self._close_writer()
            if isinstance(error, Exception):
                raise failure(str(error)) from error
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

    def _check_last(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that lacks what this process has written or read: another one took its place."""
        if self._last and self._last[0] and not file.holds(connection, *self._last):
            raise JournalFailed(
                f"{self._path} was replaced while it was in use, and lacks revision {self._last[0]}: put the right"
                " file back, or restart the service to continue with this one"
            )

    def _count_new(self, connection: sqlite3.Connection) -> None:
        """Count what came after the newest snapshot."""
        newest = max((revision for revision, _ in snapshot.snapshots(self._directory)), default=0)
        self._new_entries, self._new_bytes = connection.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM entries WHERE revision > ?", (newest,)
        ).fetchone()
