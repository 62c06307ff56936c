"""Long bodies: most of an entry is stored in parts, in short transactions before the one that appends the entry.

    entries        revision | checksum of the whole body | {"parts":[first,last]}, newline, beginning of the body
    entry_parts    number   | revision (last part only)  | content

The body is its beginning followed by the parts. The last part is added together with the entry. Parts behind the
newest one with a revision belong to no entry: they were stored for one that was never appended.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

FORMAT = 2
"""The format of a journal with an entry in parts: releases that know format 1 only refuse it."""
_TABLE = """
CREATE TABLE IF NOT EXISTS entry_parts (
    number INTEGER PRIMARY KEY,
    revision INTEGER,  -- in the last part of an entry only
    content BLOB NOT NULL
) STRICT
"""
_MARK = b'{"parts":['
_IS_IN_PARTS = f"substr(body, 1, {len(_MARK)}) = x'{_MARK.hex()}'"
_OLDEST = "revision IN (SELECT revision FROM entries WHERE revision <= ? ORDER BY revision LIMIT ?)"
MATCHING_ROWS = f"SELECT revision, checksum, body FROM entries WHERE (instr(body, ?) OR {_IS_IN_PARTS})"  # noqa: S608 - constants
"""The rows that contain some bytes, and those in parts, of which this is not known yet."""
End = tuple[int, int, bytes]
"""The last part of an entry: its number, the entry's revision, and its content."""


class _PartsLine(msgspec.Struct, frozen=True):
    """The first line of a row: the numbers of the first and the last part."""

    parts: tuple[int, int]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_PartsLine).decode


def store(connection: sqlite3.Connection, content: bytes) -> int:
    """Store one more part of an entry that is not appended yet; return its number."""
    connection.execute(_TABLE)
    return connection.execute("INSERT INTO entry_parts (content) VALUES (?)", (content,)).lastrowid or 0


def store_ends(connection: sqlite3.Connection, ends: Sequence[End]) -> None:
    """Store the last parts of entries, in the transaction that appends these."""
    if ends:
        connection.executemany("INSERT INTO entry_parts VALUES (?, ?, ?)", ends)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def row_body(first: int, last: int, beginning: bytes) -> bytes:
    """Return the body of the row of an entry in parts."""
    return _encode(_PartsLine((first, last))) + b"\n" + beginning


def beginning_of(body: object) -> bytes | None:
    """Return the beginning of the body that a row has in parts; None if the row has all of it."""
    if isinstance(body, bytes) and body.startswith(_MARK):  # a damaged column may hold any type
        return body.partition(b"\n")[2]
    return None


def whole_body(connection: sqlite3.Connection, body: bytes) -> bytes:
    """Return the whole body of a row; one that lacks a part fails its checksum."""
    beginning = beginning_of(body)
    if beginning is None:
        return body
    contents = connection.execute(
        "SELECT content FROM entry_parts WHERE number BETWEEN ? AND ? ORDER BY number", _numbers(body)
    )
    return b"".join((beginning, *(content for (content,) in contents)))


def stored_bytes(connection: sqlite3.Connection, after: int) -> int:
    """Return how many bytes the entries above a revision have in parts."""
    return sum(
        connection.execute(
            "SELECT coalesce(sum(length(content)), 0) FROM entry_parts WHERE number BETWEEN ? AND ?", _numbers(body)
        ).fetchone()[0]
        for body in _bodies_in_parts(connection, "revision > ?", (after,))
    )


def delete_oldest(connection: sqlite3.Connection, up_to: int, limit: int) -> int:
    """Delete the oldest entries up to a revision, with their parts; return how many."""
    for body in _bodies_in_parts(connection, _OLDEST, (up_to, limit)):
        connection.execute("DELETE FROM entry_parts WHERE number BETWEEN ? AND ?", _numbers(body))
    return connection.execute(f"DELETE FROM entries WHERE {_OLDEST}", (up_to, limit)).rowcount  # noqa: S608 - constants


def discard_unused(connection: sqlite3.Connection) -> None:
    """Delete the parts that were stored for an entry that was never appended."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'entry_parts'").fetchone():
        return
    # From the end: only what belongs to no entry is looked at.
    newest = connection.execute(
        "SELECT number FROM entry_parts WHERE revision IS NOT NULL ORDER BY number DESC LIMIT 1"
    ).fetchone()
    used = newest[0] if newest else 0
    if connection.execute("SELECT 1 FROM entry_parts WHERE number > ? LIMIT 1", (used,)).fetchone():
        connection.execute("DELETE FROM entry_parts WHERE number > ?", (used,))


def _bodies_in_parts(connection: sqlite3.Connection, condition: str, values: Sequence[int]) -> list[bytes]:
    if connection.execute("PRAGMA user_version").fetchone()[0] < FORMAT:
        return []
    found = connection.execute(f"SELECT body FROM entries WHERE {condition} AND {_IS_IN_PARTS}", values)  # noqa: S608 - constants
    return [body for (body,) in found]


def _numbers(body: bytes) -> tuple[int, int]:
    try:
        return _decode(body.partition(b"\n")[0]).parts
    except ValueError:  # it is damaged
        return 1, 0
