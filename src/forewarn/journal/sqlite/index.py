"""The index of history: the entries of each subject.

It stands in a file of its own and is brought up to date by the process that folds snapshots, so that an append
writes the entry alone. It holds nothing that is not in the journal: where it is missing, damaged or of another
journal, it is passed by, and made anew with the next snapshot.
"""

import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Entry
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import Row
from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite import database

NAME = "history.sqlite3"
FORMAT = 2
"""Rises when entries concern more or others than before: an index of another number is made anew."""

END = sys.maxsize
"""Above every revision."""

_SCHEMA = Path(__file__).with_name("index.sql")
_ABOUT = "SELECT revision FROM subjects WHERE subject = ? AND revision > ? AND revision < ? ORDER BY revision"


class RevisionRange(msgspec.Struct, frozen=True):
    """Which of the entries about a subject are meant: those between two revisions, from one end, up to a limit."""

    after: int = 0
    before: int = END
    limit: int | None = None
    from_oldest: bool = False

    @property
    def order(self) -> str:
        """The direction of reading, as SQL calls it."""
        return "ASC" if self.from_oldest else "DESC"


def open_writer(directory: Path, journal: sqlite3.Connection) -> sqlite3.Connection:
    """Open the index for writing; make it anew where it cannot be trusted."""
    path = directory / NAME
    try:
        with database.reading(path) as connection:
            sound = connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
            trusted = sound and reach_in(journal, connection) is not None
    except ForewarnError:
        trusted = False
    if not trusted:
        for name in (NAME, f"{NAME}-wal", f"{NAME}-shm"):
            (directory / name).unlink(missing_ok=True)
        database.create(path, _SCHEMA, FORMAT)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = NORMAL")  # a power failure may cost the last of it, never all of it
    return connection


def is_current(index: sqlite3.Connection) -> bool:
    """Return whether an index was made by the rules of this release."""
    ((found,),) = index.execute("PRAGMA user_version")
    return bool(found == FORMAT)


def reach(index: sqlite3.Connection) -> tuple[int, int]:
    """Return the revisions above which, and up to which, every entry is indexed."""
    released, revision, _ = _row(index)
    return released, revision


def add(index: sqlite3.Connection, entries: Iterable[Entry], last: Row) -> None:
    """Add entries, the last of which is ``last``, in one transaction."""
    index.execute("BEGIN")
    index.executemany("INSERT OR IGNORE INTO subjects VALUES (?, ?)", sorted(_keys(entries)))
    index.execute("UPDATE reach SET revision = ?, checksum = ?", last[:2])
    index.execute("COMMIT")


def remove(index: sqlite3.Connection, entries: Iterable[Entry], released: int) -> None:
    """Take out entries up to revision ``released``, which are about to be deleted, in one transaction."""
    index.execute("BEGIN")
    index.executemany("DELETE FROM subjects WHERE subject = ? AND revision = ?", sorted(_keys(entries)))
    index.execute("UPDATE reach SET released = ?", (released,))
    index.execute("COMMIT")


def holds(index: sqlite3.Connection, entry: Entry) -> bool:
    """Return whether an entry can be found by each of its subjects."""
    return all(
        index.execute("SELECT 1 FROM subjects WHERE subject = ? AND revision = ?", key).fetchone()
        for key in _keys((entry,))
    )


def revisions_about(subject: str, index: sqlite3.Connection, span: RevisionRange) -> list[int]:
    """Return the indexed entries that concern a subject, in the order of the span."""
    found = index.execute(
        f"{_ABOUT} {span.order} LIMIT ?",
        (subject, span.after, span.before, -1 if span.limit is None else span.limit),
    )
    return [revision for (revision,) in found]


def reach_in(journal: sqlite3.Connection, index: sqlite3.Connection) -> int | None:
    """Return how far the index reaches, or None where it is not this journal's, or of another release."""
    if not is_current(index):
        return None
    _, revision, checksum = _row(index)
    if revision == 0:
        return 0
    entry = journal.execute("SELECT checksum FROM entries WHERE revision = ?", (revision,)).fetchone()
    return revision if entry == (checksum,) else None


def _row(index: sqlite3.Connection) -> tuple[int, int, int]:
    row = index.execute("SELECT released, revision, checksum FROM reach").fetchone()
    if row is None or not all(isinstance(value, int) for value in row):
        raise DamagedJournal("the index of history has lost its own beginning and end")
    released, revision, checksum = row
    return released, revision, checksum


def _keys(entries: Iterable[Entry]) -> Iterator[tuple[str, int]]:
    for entry in entries:
        for subject in subjects_of(entry):
            yield subject, entry.revision
