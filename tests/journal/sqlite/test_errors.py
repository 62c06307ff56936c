"""Errors of SQLite and of the system become one sentence with the place and the remedy."""

import errno
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from forewarn.core.errors import ForewarnError
from forewarn.journal.port import DamagedJournal, JournalFailed, NotAJournal
from forewarn.journal.sqlite.errors import translate_errors

PLACE = Path("data/journal.sqlite3")


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite said")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        (sqlite3.SQLITE_FULL, JournalFailed, "free some space"),
        (sqlite3.SQLITE_READONLY, JournalFailed, "writable"),
        (sqlite3.SQLITE_READONLY_DBMOVED, JournalFailed, "writable"),
        (sqlite3.SQLITE_CANTOPEN, JournalFailed, "check that it exists"),
        (sqlite3.SQLITE_BUSY, JournalFailed, "end whatever else"),
        (sqlite3.SQLITE_IOERR_FSYNC, JournalFailed, "check the disk"),
        (sqlite3.SQLITE_CORRUPT, DamagedJournal, "from a backup"),
        (sqlite3.SQLITE_ERROR, DamagedJournal, "from a backup"),
        (sqlite3.SQLITE_NOTADB, NotAJournal, "move it away"),
    ],
)
def test_sqlite_errors_are_said_clearly(code: int, kind: type[ForewarnError], remedy: str) -> None:
    """The kind of error follows SQLite's code, extended codes included."""
    with pytest.raises(kind, match=f"{PLACE} .*: .*{remedy}"), translate_errors(PLACE):
        raise sqlite_error(code)


def test_an_input_or_output_error_on_a_full_disk_names_the_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite finds no room for its shared memory, and does not say so."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))

    with pytest.raises(JournalFailed, match=f"{PLACE} .*: free some space"), translate_errors(PLACE):
        raise sqlite_error(sqlite3.SQLITE_IOERR_SHMSIZE)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "writable"),
        (errno.EACCES, "writable"),
        (errno.EEXIST, "name a directory"),
        (errno.ENOENT, "create the directory"),
        (errno.ENOTDIR, "not a directory"),
        (errno.EIO, "check the disk"),
    ],
)
def test_system_errors_are_said_clearly(code: int, remedy: str) -> None:
    """What the system refuses is the journal's failure at this place."""
    with pytest.raises(JournalFailed, match=f"{PLACE} .*: .*{remedy}"), translate_errors(PLACE):
        raise OSError(code, os.strerror(code))


def test_our_own_errors_pass() -> None:
    """What is clear already is not wrapped again."""
    with pytest.raises(DamagedJournal, match=r"^as it is$"), translate_errors(PLACE):
        raise DamagedJournal("as it is")
