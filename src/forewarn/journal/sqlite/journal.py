"""The embedded journal: one SQLite file, written by one process, with snapshots and an index beside it.

    journal.sqlite3    the entries: the truth
    snapshot-REVISION  the fleet as it stood then, the newest two
    history.sqlite3    the entries of each subject
    restore.*          what a restore that was cut off left to be finished
    lock, fold-lock    held by the server, and by the process that folds snapshots

Everything but the first can be made from it again, as long as no entry was deleted.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock as Mutex
from typing import TypeVar

from forewarn.core.facts import AnyFact, Entry
from forewarn.files import FileLock, private_directory, restrict_files
from forewarn.journal.codec import PART_SIZE, EncodedFacts, Row, check_revisions, pack, unpack
from forewarn.journal.following import AppendNotifier
from forewarn.journal.port import (
    AppendUnknown,
    DamagedJournal,
    JournalFailed,
    NotWritten,
    Recovered,
    RepeatedCommand,
    StaleWriter,
)
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY, SNAPSHOT_BYTES, SNAPSHOT_ENTRIES, SnapshotRunner
from forewarn.journal.sqlite import database, index, long_entries, snapshot_files, write_ahead_log
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.history import REMEMBERED, HistoryReader
from forewarn.journal.sqlite.index import END, RevisionRange
from forewarn.journal.sqlite.recorded_requests import RecordedRequests
from forewarn.journal.sqlite.recovery import recover
from forewarn.journal.sqlite.restore import finish as finish_restore

_Value = TypeVar("_Value")
_SNAPSHOT_PROCESS = "forewarn.journal.sqlite.snapshot_process"
_POLL_INTERVAL = 0.5
"""Seconds after which a follower in another process than the writer notices an append."""
_PRIVATE_FILES = (
    f"{database.NAME}*",
    f"{index.NAME}*",
    "snapshot-*",
    "lock",
    "fold-lock",
    "control.sock",
    "driver/*-*-*-*-*",
)
"""What earlier releases, or a copy, may have left readable for others; it holds secrets of subscriptions."""


class _OpenedAnew(NotWritten):
    """The journal was opened again between two parts of an entry."""


class _FairMutex:
    """A mutex for two threads, neither of which gets it twice while the other one waits."""

    def __init__(self) -> None:
        self._next = Mutex()
        """Held by a thread that waits."""
        self._held = Mutex()

    def __enter__(self) -> None:
        with self._next:
            self._held.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.release()


class SqliteJournal:
    """Keeps entries in a directory."""

    def __init__(
        self,
        directory: Path,
        *,
        history: timedelta = DEFAULT_HISTORY,
        snapshot_entries: int = SNAPSHOT_ENTRIES,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        part_size: int = PART_SIZE,
        remembered: int = REMEMBERED,
    ) -> None:
        self._directory = directory
        self._path = directory / database.NAME
        self._lock = FileLock(directory / "lock")
        self._writer: sqlite3.Connection | None = None
        self._snapshots = SnapshotRunner(_SNAPSHOT_PROCESS, directory, history, [str(directory)])
        self._history = HistoryReader(directory, remembered)
        self._requests = RecordedRequests(directory)
        self._notifier = AppendNotifier(_POLL_INTERVAL)
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
        self._mutex = _FairMutex()
        """Held by the thread that uses the writer: parts of a long entry are stored beside the appends of others."""
        self._part_size = part_size
        self._encoded: EncodedFacts | None = None
        """The facts that were encoded for an entry to come; those that were stored in parts are in this journal."""
        self._parts: list[int] = []
        """The numbers of these parts."""

    @classmethod
    def from_settings(cls, location: str, directory: Path, history: timedelta) -> "SqliteJournal":
        return cls(directory, history=history)

    def load(self) -> Recovered:
        with self._mutex:
            return self._open(self._recover)

    def load_follower(self) -> Recovered:
        database.recognise(self._path)
        with database.reading(self._path) as connection:
            return recover(connection, self._directory)

    def reopen(self) -> int:
        with self._mutex:
            return self._open(self._read_on)

    def _read_on(self, connection: sqlite3.Connection) -> int:
        """Note what an append of unknown outcome left behind the last entry; return the last revision."""
        _, last = database.bounds(connection)
        after = self._last[0] if self._last else last
        self._requests.note(unpack(database.rows(connection, after), self._path, after))
        return last

    def _recover(self, connection: sqlite3.Connection) -> Recovered:
        self._requests = RecordedRequests(self._directory)
        recovered = recover(connection, self._directory, self._requests.note)
        self._count_new(connection)
        if recovered.warnings:
            self._new_entries = self._snapshot_entries  # a damaged snapshot is to be replaced soon
        return recovered

    def _open(self, read: Callable[[sqlite3.Connection], _Value]) -> _Value:
        """Open everything anew, find out what became of the last append, and return what was read meanwhile."""
        self._close_writer()
        self._history.forget()
        with translate_errors(self._directory):
            if self._last and not self._path.exists():
                raise JournalFailed(
                    f"{self._path} was removed while it was in use: put it back, or restart the service to begin anew"
                )
            private_directory(self._directory)
        with translate_errors(self._lock.path):
            self._lock.acquire()
            finish_restore(self._directory)
            restrict_files(path for pattern in _PRIVATE_FILES for path in self._directory.glob(pattern))
        try:
            self._make_if_new()
            database.recognise(self._path)
            with database.reading(self._path) as connection:
                database.check(connection, self._path)
                ((page_size,),) = connection.execute("PRAGMA page_size")
                behind = write_ahead_log.check(self._path, page_size)
                database.sync_log(self._path)
                self._check_last(connection)
                found = read(connection)
                # Opened before the reader closes: with none open, SQLite would read the WAL's end anew, and might
                # find there what was written, but never acknowledged, before a crash.
                self._writer = database.open_writer(self._path)
                if self._is_unsure and (behind or self._last != database.last(connection)):
                    database.settle(self._writer, self._path)
                with suppress(sqlite3.Error):  # they do no harm; a full disk must not keep it from being read
                    long_entries.discard_unused(self._writer)
                self._files = database.identity(self._path)
                self._last = database.last(connection)
                self._is_unsure = False
        except BaseException:
            self._release()
            raise
        return found

    def prepare(self, facts: tuple[AnyFact, ...]) -> None:
        with self._mutex:
            writer = self._writer
            self._forget_prepared()
        encoded = EncodedFacts(facts, lambda part: self._store(writer, part), self._part_size)
        with self._mutex:
            if self._writer is writer:
                self._encoded = encoded

    def _store(self, writer: sqlite3.Connection | None, part: bytes) -> None:
        """Store a part of the entry that is being prepared."""
        try:
            with self._writing() as connection:
                if connection is not writer:
                    raise _OpenedAnew(f"{self._path} was opened anew while a long entry was stored: try again")
                if not self._parts:
                    long_entries.discard_unused(connection)
                self._parts.append(long_entries.store(connection, part))
        except AppendUnknown as error:
            raise NotWritten(str(error)) from error  # of a part it does not matter: no entry has it

    def _forget_prepared(self) -> None:
        self._encoded = None
        self._parts = []

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        check_revisions(expected_revision, entries)
        encoded = self._encoded
        rows, ends = self._pack(entries, encoded)
        with self._writing() as connection:
            (last,) = connection.execute("SELECT max(revision) FROM entries").fetchone()
            if (last or 0) != expected_revision:
                raise StaleWriter(
                    f"{self._path} is at revision {last or 0}, not {expected_revision}: "
                    "load it again before appending"
                )
            self._requests.check(entries, connection)
            long_entries.store_ends(connection, ends)
            connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        self._requests.note(entries)
        self._last = rows[-1][:2] if rows else self._last
        self._new_entries += len(rows)
        self._new_bytes += sum(len(body) for _, _, body in rows)
        if encoded and any(entry.facts is encoded.facts for entry in entries):
            self._new_bytes += encoded.stored_bytes
            self._forget_prepared()
        self._notifier.notify()

    def _pack(
        self, entries: Sequence[Entry], encoded: EncodedFacts | None
    ) -> tuple[list[Row], list[long_entries.End]]:
        """Return the rows of entries, and the last part of the one that is stored in parts."""
        if encoded is None or not encoded.stored_bytes:
            return pack(entries, encoded), []
        rows: list[Row] = []
        ends: list[long_entries.End] = []
        for entry in entries:
            if entry.facts is not encoded.facts:
                rows += pack([entry])
                continue
            revision, number = entry.revision, self._parts[-1] + 1
            beginning, end = encoded.split(entry)
            checksum = encoded.checksum(revision, beginning, end)
            rows.append((revision, checksum, long_entries.row_body(self._parts[0], number, beginning)))
            ends.append((number, revision, end))
        return rows, ends

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        with database.reading(self._path) as connection:
            connection.execute("BEGIN")  # one view of the file, whatever is deleted meanwhile
            first, _ = database.bounds(connection)
            after = max(after, first - 1)
            yield from unpack(database.rows(connection, after, limit), self._path, after)

    def follow(self, after: int, timeout: float) -> bool:
        return self._notifier.wait(lambda: self._last_revision() > after, timeout)

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        return self._history.about(
            subject, RevisionRange(after, END if before is None else before, limit, from_oldest)
        )

    @property
    def snapshot_due(self) -> bool:
        return self._new_entries >= self._snapshot_entries or self._new_bytes >= self._snapshot_bytes

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        self._new_entries = self._new_bytes = 0
        try:
            self._snapshots.run(release=release, now=now)
        except JournalFailed:
            self._new_entries += self._snapshot_entries * 9 // 10  # tried again after a tenth as many, not at once
            raise
        self._history.forget()  # the index reaches further now

    def compact(self, limit: int = 500) -> bool:
        with self._writing() as connection:
            deleted = long_entries.delete_oldest(connection, self._snapshots.released, limit)
        return deleted == limit

    def keep_history(self, history: timedelta) -> None:
        self._snapshots.history = history

    def close(self) -> None:
        with self._mutex:
            self._release()
        self._last = None  # what is found at the next load may be another journal
        self._notifier.close()

    def _release(self) -> None:
        self._snapshots.stop()
        self._history.forget()
        self._close_writer()
        self._lock.release()

    def _last_revision(self) -> int:
        """Return the last durable revision: the writer knows it, a journal that was not loaded reads the file."""
        if self._last:
            return self._last[0]
        with database.reading(self._path) as connection:
            return database.bounds(connection)[1]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the writer inside a transaction; after a failure there is no writer until the next load."""
        with self._mutex:
            connection = self._writer
            if connection is None:
                raise NotWritten(f"{self._path} is not open for writing: load it again")
            if self._files != database.identity(self._path):
                self._close_writer()  # what is written to a file without a name is lost with the process
                raise NotWritten(f"{self._path} was removed or replaced while it was in use: put it back")
            failure: type[NotWritten | AppendUnknown] = NotWritten
            try:
                with translate_errors(self._path):
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection
                    # The commit may be on the disk although it is reported as failed: the next start would find it.
                    failure = AppendUnknown
                    self._is_unsure = True
                    connection.execute("COMMIT")
                    self._is_unsure = False
            except (StaleWriter, RepeatedCommand, _OpenedAnew):
                connection.execute("ROLLBACK")
                raise
            except BaseException as error:
                self._close_writer()
                if isinstance(error, Exception):
                    raise failure(str(error)) from error
                raise

    def _close_writer(self) -> None:
        self._forget_prepared()
        self._requests.close()
        if self._writer is not None:
            with suppress(sqlite3.Error):  # what matters was committed before; the next load looks anew
                self._writer.close()
            self._writer = None

    def _make_if_new(self) -> None:
        if self._path.exists():
            return
        if snapshot_files.list_snapshots(self._directory):
            raise DamagedJournal(
                f"{self._path} is missing beside its snapshots: restore it from a backup, "
                "or name another directory; nothing was changed"
            )
        database.create(self._path)

    def _check_last(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that lacks what this process has written or read: another one took its place."""
        if self._last and self._last[0] and not database.holds(connection, *self._last):
            raise JournalFailed(
                f"{self._path} was replaced while it was in use, and lacks revision {self._last[0]}: put the right"
                " file back, or restart the service to continue with this one"
            )

    def _count_new(self, connection: sqlite3.Connection) -> None:
        """Count what came after the newest snapshot."""
        newest = max((revision for revision, _ in snapshot_files.list_snapshots(self._directory)), default=0)
        self._new_entries, self._new_bytes = connection.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM entries WHERE revision > ?", (newest,)
        ).fetchone()
        self._new_bytes += long_entries.stored_bytes(connection, newest)
