"""The journal's file: made whole or not at all, recognised before it is touched, opened to read or to write."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from forewarn.core.fact import FORMAT
from forewarn.files import PRIVATE, sync_directory, sync_file
from forewarn.journal.codec import Row
from forewarn.journal.port import DamagedJournal, JournalFailed, NewerJournal, NotAJournal
from forewarn.journal.sqlite import long_entries
from forewarn.journal.sqlite.errors import BUSY, describe_damage, describe_foreign_file, translate_errors

NAME = "journal.sqlite3"
APPLICATION = 0x46577261
"""Marks a SQLite file as ours ("FWra"); SQLite keeps it in the file's header."""

_SCHEMA = Path(__file__).with_name("schema.sql")
_MAGIC = b"SQLite format 3\x00"
_BOUNDS = "SELECT (SELECT min(revision) FROM entries), (SELECT max(revision) FROM entries)"
_PAGE = 256
_CHECKED_WHOLE = 512 * 1024 * 1024
"""Above this size, opening checks only what it loads; ``forewarn journal verify`` checks everything."""


def create(path: Path, schema: Path = _SCHEMA, format_: int = FORMAT) -> None:
    """Make an empty file of ours; a crash on the way leaves none."""
    unfinished = path.with_name(path.name + ".new")
    with translate_errors(path):
        for left in path.parent.glob(f"{unfinished.name}*"):
            left.unlink()
        unfinished.touch(PRIVATE, exist_ok=False)  # SQLite gives the files beside it the same mode
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {format_}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(schema.read_text("utf-8"))
        unfinished.replace(path)
        sync_directory(path.parent)


def recognise(path: Path) -> None:
    """Refuse what is not a journal or is newer than this release, by its first bytes alone."""
    with translate_errors(path), path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise NotAJournal(describe_foreign_file(path))
    if int.from_bytes(header[68:72], "big") != APPLICATION:
        raise NotAJournal(describe_foreign_file(path))
    format_ = int.from_bytes(header[60:64], "big")
    if format_ > long_entries.FORMAT:
        raise NewerJournal(
            f"{path} has format {format_}, and this release knows formats up to {long_entries.FORMAT}: "
            "install the release that wrote it; nothing was changed"
        )
    if format_ < 1:
        raise DamagedJournal(describe_damage(path, "its format is missing"))


def open_writer(path: Path) -> sqlite3.Connection:
    """Open the journal for appending; a commit is on the disk when it returns."""
    with translate_errors(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_mode = WAL")
        return connection


def identity(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return which files are the journal and its log at present: a file that replaces one has another identity."""
    return tuple(_identity(each) for each in (path, path.with_name(f"{path.name}-wal")))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def settle(writer: sqlite3.Connection, path: Path) -> None:
    """Write all that the journal shows through to the disk, and empty its log, after a commit of unknown outcome.

    Such a commit may be shown without being on the disk, or stand in the log without being shown.
    """
    with translate_errors(path):
        (is_busy, _, _) = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise JournalFailed(f"{path} {BUSY}")
        sync_file(path.with_name(f"{path.name}-wal"))


def sync_log(path: Path) -> None:
    """Make the journal's log durable: a killed process may have left commits in it that were not synced."""
    log = path.with_name(f"{path.name}-wal")
    with translate_errors(path):
        if log.exists():
            sync_file(log)
            sync_directory(path.parent)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the journal for reading only; it is never changed through this connection."""
    with translate_errors(path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        if not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists():
            uri += "&immutable=1"  # SQLite would insist on making files beside it
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        with closing(connection):
            yield connection


def check(connection: sqlite3.Connection, path: Path, *, whole: bool = False) -> None:
    """Refuse a file whose pages or numbering are damaged; large ones are looked through only when ``whole``."""
    if not whole and path.stat().st_size > _CHECKED_WHOLE:
        return
    (found,) = connection.execute("PRAGMA integrity_check(1)" if whole else "PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedJournal(describe_damage(path, " ".join(str(found).split())))
    first, last = bounds(connection)
    (kept,) = connection.execute("SELECT count(*) FROM entries").fetchone()
    if kept != last - first + 1:
        raise DamagedJournal(describe_damage(path, f"{last - first + 1 - kept} entries are missing"))


def bounds(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the first and the last kept revision; (1, 0) when there is none."""
    # One statement, so that both are of the same state; subqueries, because min and max in one query scan the table.
    first, last = connection.execute(_BOUNDS).fetchone()
    return (1, 0) if last is None else (first, last)


def last(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return revision and checksum of the last entry; (0, 0) when there is none."""
    found = connection.execute("SELECT revision, checksum FROM entries ORDER BY revision DESC LIMIT 1").fetchone()
    return (found[0], found[1]) if found else (0, 0)


def holds(connection: sqlite3.Connection, revision: int, checksum: int) -> bool:
    """Return whether an entry has that checksum."""
    found = connection.execute("SELECT checksum FROM entries WHERE revision = ?", (revision,)).fetchone()
    return bool(found == (checksum,))


def rows(connection: sqlite3.Connection, after: int, limit: int | None = None) -> Iterator[Row]:
    """Yield the rows above a revision with their whole bodies."""
    for revision, checksum, body in stored_rows(connection, after, limit):
        yield revision, checksum, long_entries.whole_body(connection, body)


def stored_rows(connection: sqlite3.Connection, after: int, limit: int | None = None) -> Iterator[Row]:
    """Yield the rows above a revision, page by page: a long read must not hold up the writer's checkpoints.

    Of bodies in parts they have the beginning only.
    """
    while limit is None or limit > 0:
        page = connection.execute(
            "SELECT revision, checksum, body FROM entries WHERE revision > ? ORDER BY revision LIMIT ?",
            (after, _PAGE if limit is None else min(limit, _PAGE)),
        ).fetchall()
        if not page:
            return
        yield from page
        after = page[-1][0]
        if limit is not None:
            limit -= len(page)
