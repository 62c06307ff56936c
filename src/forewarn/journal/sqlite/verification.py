"""Whether a journal is whole: every page, entry and snapshot, and the index, beside a running server or not."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from forewarn.core.fleet import Fleet
from forewarn.journal.codec import unpack
from forewarn.journal.folding import apply_entry, interned
from forewarn.journal.interning import Interner
from forewarn.journal.port import DamagedJournal, NotAJournal
from forewarn.journal.sqlite import database, index, snapshot_files
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.recovery import check_belongs


class VerifyReport(msgspec.Struct, frozen=True):
    """What was looked at, and what was found wrong with it."""

    ok: bool
    problems: tuple[str, ...]
    """One sentence each."""
    first_revision: int
    last_revision: int
    """0 when there is no entry."""
    entries: int
    """How many entries were read and found good."""
    snapshots: int
    """How many snapshots are good: equal to the fold of the entries, or, where those were deleted, whole."""
    indexed: int
    """How many entries were found in the index of history; those that came since the last snapshot are not."""


def verify(directory: Path) -> VerifyReport:
    """Verify the journal in a directory without changing it; a newer format, or no journal, is refused."""
    with translate_errors(directory):
        return _Verification(directory).report()


class _Verification:
    """One look through a directory, and what it came to."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._place = directory / database.NAME
        self._problems: list[str] = []
        self._first, self._last = 1, 0
        self._entries = self._snapshots = self._indexed = 0

    def report(self) -> VerifyReport:
        database.recognise(self._place)
        listed = snapshot_files.list_snapshots(
            self._directory
        )  # first: one that is taken meanwhile may lie above what is seen
        with self._noting(self._place), database.reading(self._place) as connection:
            connection.execute("BEGIN")
            self._first, self._last = database.bounds(connection)
            with self._noting(self._place):
                database.check(connection, self._place, whole=True)
            good = dict(self._readable(listed, connection))
            with self._noting(self._place):
                self._check_entries(connection, good)
            with self._noting(self._place):
                self._check_index(connection)
        return VerifyReport(
            not self._problems,
            tuple(self._problems),
            self._first if self._last else 0,
            self._last,
            self._entries,
            self._snapshots,
            self._indexed,
        )

    @contextmanager
    def _noting(self, place: Path) -> Iterator[None]:
        """Note what is found damaged, and go on behind the block."""
        try:
            with translate_errors(place):
                yield
        except (DamagedJournal, NotAJournal) as error:
            self._problems.append(str(error))

    def _readable(self, listed: list[tuple[int, Path]], connection: sqlite3.Connection) -> Iterator[tuple[int, Path]]:
        for revision, path in listed:
            with self._noting(path):
                try:
                    check_belongs(path, connection, revision)
                    snapshot_files.check(path)
                except FileNotFoundError:
                    continue  # a newer one has just replaced it
                yield revision, path

    def _check_entries(self, connection: sqlite3.Connection, snapshots: dict[int, Path]) -> None:
        """Read every entry, and hold the fold of them against each snapshot on the way."""
        fleet, after = Fleet(), 0
        if self._first > 1:
            after = min(snapshots, default=-1)
            if after < self._first - 1:
                raise DamagedJournal(
                    f"{self._place} begins at revision {self._first}, and there is no good snapshot to begin from: "
                    "restore the directory from a backup"
                )
            fleet = Fleet.restore(interned(snapshot_files.read_chunks(snapshots[after]), Interner()))
            self._snapshots += 1  # its checksums are right, and there is nothing left to hold it against
        for entry in unpack(database.rows(connection, self._first - 1), self._place, self._first - 1):
            self._entries += 1
            if entry.revision <= after:
                continue
            apply_entry(fleet, entry, self._place)
            if path := snapshots.get(entry.revision):
                with self._noting(path):
                    self._compare(path, fleet)

    def _compare(self, path: Path, fleet: Fleet) -> None:
        if not snapshot_files.holds(path, fleet):
            raise DamagedJournal(f"{path} is not the fold of the entries before it: delete it")
        self._snapshots += 1

    def _check_index(self, connection: sqlite3.Connection) -> None:
        path = self._directory / index.NAME
        if not path.exists() or self._entries <= self._last - self._first:
            return  # where entries are damaged, nothing can be said of what leads to them
        try:
            with database.reading(path) as history_index:
                why = self._missing(history_index, connection)
        except (DamagedJournal, NotAJournal) as error:
            why = str(error)
        if why:
            remedy = "delete it; the next snapshot makes it anew"
            raise DamagedJournal(f"{path} is damaged or not complete: {remedy} ({why})")

    def _missing(self, history_index: sqlite3.Connection, connection: sqlite3.Connection) -> str:
        """Say which entry the index should lead to and does not; empty when there is none."""
        history_index.execute("BEGIN")
        if not index.is_current(history_index):
            return ""  # the next snapshot makes it anew
        released, reached = index.reach(history_index)
        after = max(released, self._first - 1)
        for entry in unpack(database.rows(connection, after, max(reached - after, 0)), self._place, after):
            if not index.holds(history_index, entry):
                return f"it has {released} to {reached}, but not {entry.revision}"
            self._indexed += 1
        return ""
