"""What SQLite and the operating system report, as one sentence with the place and the remedy."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forewarn.journal.port import DamagedJournal, JournalFailed, NotAJournal

_FULL = "cannot be written because the disk is full: free some space"
_READ_ONLY = "cannot be written: make the directory and its files writable for this user"
_CLOSED = "cannot be opened: check that it exists and that this user may read and write it"
BUSY = "is kept busy by another program: end whatever else has it open"

_BY_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _CLOSED,
    sqlite3.SQLITE_AUTH: _CLOSED,
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
}
_BY_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EEXIST: "is a file: name a directory",
    errno.ENOENT: "cannot be reached: create the directory that is to hold it",
    errno.ENOTDIR: "cannot be reached: a part of its path is not a directory",
}
_LEAST = 1 << 16
"""Free bytes without which SQLite cannot open a file: it needs a shared-memory file beside it."""


@contextmanager
def translate_errors(place: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of files into the journal's own, about ``place``."""
    try:
        yield
    except sqlite3.Error as error:
        # Python's module raises some errors itself; those carry no code of SQLite's.
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_NOTADB:
                raise NotAJournal(describe_foreign_file(place)) from error
            # SQLite's general error means here that a table is missing, for no statement of ours is wrong.
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_MISMATCH | sqlite3.SQLITE_ERROR:
                raise DamagedJournal(describe_damage(place, str(error))) from error
            case code:
                remedy = _BY_SQLITE.get(code, f"cannot be used ({error}): check the disk")
                if code == sqlite3.SQLITE_IOERR and _is_full(place):
                    remedy = _FULL
                raise JournalFailed(f"{place} {remedy}") from error
    except UnicodeDecodeError as error:  # SQLite tried to name what it found, and could not
        raise DamagedJournal(describe_damage(place, "it holds a text that is none")) from error
    except OSError as error:
        remedy = _BY_SYSTEM.get(error.errno or 0, f"cannot be used ({error.strerror}): check the disk")
        raise JournalFailed(f"{place} {remedy}") from error


def describe_damage(place: Path, what: str) -> str:
    """Say that a journal is damaged."""
    return f"{place} is damaged ({what}): restore it from a backup; nothing was changed"


def describe_foreign_file(place: Path) -> str:
    """Say that a file is not ours, or not any more."""
    return f"{place} is not a journal of Forewarn: move it away or name another directory; nothing was changed"


def _is_full(place: Path) -> bool:
    """Return whether the disk is full; SQLite then reports an input or output error where it opens a file."""
    try:
        return shutil.disk_usage(place.parent).free < _LEAST
    except OSError:
        return False
