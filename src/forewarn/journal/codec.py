"""An entry as a row: its revision, a checksum that covers both, and its body as JSON."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import msgspec

from forewarn.core.errors import BadInput
from forewarn.core.facts import Entry
from forewarn.core.model import Caller
from forewarn.journal.port import DamagedJournal, RepeatedCommand

Row = tuple[int, int, bytes]
"""Revision, checksum, body."""


class _EntryCause(msgspec.Struct, frozen=True):
    """An entry but for its facts."""

    revision: int
    at: datetime
    command: str
    by: Caller


_Decoded = TypeVar("_Decoded", Entry, _EntryCause)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode
_decode_cause = msgspec.json.Decoder(_EntryCause).decode


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
    return _checked(revision, checksum, body, place, _decode)


def unpack_cause(revision: int, checksum: int, body: bytes, place: Path) -> Entry:
    """Decode one row without its facts, which takes little time and memory however many they are."""
    cause = _checked(revision, checksum, body, place, _decode_cause)
    return Entry(cause.revision, cause.at, cause.command, cause.by, ())


def _checked(revision: int, checksum: int, body: bytes, place: Path, decode: Callable[[bytes], _Decoded]) -> _Decoded:
    try:
        if crc32(body, revision & 0xFFFFFFFF) == checksum and (decoded := decode(body)).revision == revision:
            return decoded
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors; a damaged column may hold any type
        pass
    raise DamagedJournal(f"{place} is damaged at revision {revision}: restore it from a backup; nothing was changed")


def check_requests(entries: Iterable[Entry], is_recorded: Callable[[str], bool]) -> None:
    """Refuse a request whose command is recorded, or occurs twice."""
    found: set[str] = set()
    for entry in entries:
        if entry.request:
            if entry.command in found or is_recorded(entry.command):
                raise RepeatedCommand(f"the request of command {entry.command} is recorded already; ask what it did")
            found.add(entry.command)


def check_revisions(expected_revision: int, entries: Sequence[Entry]) -> None:
    """Refuse entries that do not follow the expected revision one by one."""
    if any(entry.revision != revision for revision, entry in enumerate(entries, expected_revision + 1)):
        raise BadInput(f"entries appended after revision {expected_revision} must carry the numbers that follow it")
