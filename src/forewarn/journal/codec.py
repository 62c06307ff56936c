"""An entry as a row: its revision, a checksum that covers both, and its body as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

import msgspec

from forewarn.core.errors import BadInput
from forewarn.core.facts import Entry
from forewarn.journal.port import DamagedJournal

Row = tuple[int, int, bytes]
"""Revision, checksum, body."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def pack(entries: Iterable[Entry]) -> list[Row]:
    """Encode entries, each once."""
    return [
        (revision := entry.revision, crc32(body := _encode(entry), revision & 0xFFFFFFFF), body) for entry in entries
    ]


def unpack(rows: Iterable[Row], place: Path, after: int) -> Iterator[Entry]:
    """Decode the rows that follow revision ``after``; a gap or a damaged row is refused."""
    for revision, checksum, body in rows:
        after += 1
        if revision != after:
            raise DamagedJournal(f"{place} lacks revision {after}: restore it from a backup; nothing was changed")
        yield unpack_one(revision, checksum, body, place)


def unpack_one(revision: int, checksum: int, body: bytes, place: Path) -> Entry:
    """Decode one row, whatever came before it."""
    try:
        if crc32(body, revision & 0xFFFFFFFF) == checksum and (entry := _decode(body)).revision == revision:
            return entry
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors; a damaged column may hold any type
        pass
    raise DamagedJournal(f"{place} is damaged at revision {revision}: restore it from a backup; nothing was changed")


def check_revisions(expected_revision: int, entries: Sequence[Entry]) -> None:
    """Refuse entries that do not follow the expected revision one by one."""
    if any(entry.revision != revision for revision, entry in enumerate(entries, expected_revision + 1)):
        raise BadInput(f"entries appended after revision {expected_revision} must carry the numbers that follow it")
