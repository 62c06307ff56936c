"""A directory as the source or the target of a copy."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from forewarn.core.errors import Refused
from forewarn.core.fact import FORMAT
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.files import FileLock, private_directory
from forewarn.journal.codec import pack, unpack
from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite import database, snapshot_files
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.recovery import check_belongs, recover


class SqliteSource:
    """Reads a directory at one moment; a service may run on it."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.place = f"sqlite:{directory}"
        self._directory = directory
        self._path = directory / database.NAME
        self._connection = connection

    def bounds(self) -> tuple[int, int]:
        return database.bounds(self._connection)

    def base(self) -> tuple[int, Fleet]:
        first, _ = self.bounds()
        for revision, path in reversed(snapshot_files.list_snapshots(self._directory)):
            if revision >= first - 1:
                check_belongs(path, self._connection, revision)
                return revision, Fleet.restore(snapshot_files.read_chunks(path))
        raise DamagedJournal(
            f"{self._path} begins at revision {first}, and there is no good snapshot to begin from: restore the"
            " directory from a backup; nothing was changed"
        )

    def entries(self) -> Iterator[Entry]:
        first, _ = self.bounds()
        return unpack(database.rows(self._connection, first - 1), self._path, first - 1)


class SqliteTarget(SqliteSource):
    """Writes a directory, which no service uses."""

    def begin(self, first: int) -> None:
        """Nothing is needed: the first row has its revision."""

    def append(self, entries: Sequence[Entry]) -> None:
        with translate_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", pack(entries))
            self._connection.execute("COMMIT")

    def store_base(self, revision: int, fleet: Fleet) -> None:
        if any(each == revision for each, _ in snapshot_files.list_snapshots(self._directory)):
            return
        with translate_errors(self._directory):
            ((checksum,),) = self._connection.execute("SELECT checksum FROM entries WHERE revision = ?", (revision,))
            header = snapshot_files.SnapshotHeader(FORMAT, revision, checksum)
            snapshot_files.publish(snapshot_files.write(self._directory, header, fleet.parts()))

    def check(self) -> None:
        recover(self._connection, self._directory)


@contextmanager
def opened_source(directory: Path) -> Iterator[SqliteSource]:
    """Yield a directory that has a journal."""
    path = directory / database.NAME
    if not path.exists():
        raise Refused(f"there is no journal in {directory}; name the right directory")
    database.recognise(path)
    with database.reading(path) as connection:
        connection.execute("BEGIN")  # one view of the file, whatever is appended or deleted meanwhile
        yield SqliteSource(directory, connection)


@contextmanager
def opened_target(directory: Path) -> Iterator[SqliteTarget]:
    """Yield a directory that has no journal yet, or an unfinished copy."""
    path, lock = directory / database.NAME, FileLock(directory / "lock")
    with translate_errors(directory):
        private_directory(directory)
        lock.acquire()
    try:
        if not path.exists():
            database.create(path)
        database.recognise(path)
        with closing(database.open_writer(path)) as connection:
            yield SqliteTarget(directory, connection)
    finally:
        lock.release()
