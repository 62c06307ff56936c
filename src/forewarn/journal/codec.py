"""An entry as a row: its revision, a checksum that covers both, and its body as JSON."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec.structs import replace

from forewarn.core.errors import BadInput
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import Caller
from forewarn.journal.port import DamagedJournal, NewerJournal, RepeatedCommand

Row = tuple[int, int, bytes]
"""Revision, checksum, body."""
_PIECE = 1_000
"""How many records are encoded at once: nothing else runs meanwhile."""
PART_SIZE = 4 * 1024 * 1024
"""How many bytes of a long entry are stored at once: other appends wait meanwhile."""
_NO_FACTS = b'"facts":[]'


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


class EncodedFacts:
    """The facts of one entry, encoded before its revision is known; in pieces, so that other threads go on.

    Where they are long, most of them is given to ``store`` in parts, and only what follows these is kept here.
    """

    def __init__(
        self,
        facts: tuple[AnyFact, ...],
        store: Callable[[bytes], None] | None = None,
        part_size: int = PART_SIZE,
        piece_size: int = _PIECE,
    ) -> None:
        self.facts = facts
        self.stored_bytes = 0
        self._part_size = part_size
        self._stored_checksum = 0
        self._rest: list[bytes] = []
        size = 0
        for piece in _pieces_of_all(facts, piece_size):
            self._rest.append(piece)
            size += len(piece)
            if store and size >= part_size:
                part = b"".join(self._rest)
                self._rest.clear()
                store(part)
                self.stored_bytes += size
                self._stored_checksum = crc32(part, self._stored_checksum)
                size = 0

    def split(self, entry: Entry) -> tuple[bytes, bytes]:
        """Return what the entry's body has before and after what was stored: together all bytes of it."""
        beginning, _, end = _encode(replace(entry, facts=())).partition(_NO_FACTS)
        return beginning + _NO_FACTS[:-1], b"".join((*self._rest, b"]", end))

    def checksum(self, revision: int, beginning: bytes, end: bytes) -> int:
        """Return the checksum of the whole body that was split."""
        checksum = crc32(beginning, revision & 0xFFFFFFFF)
        return crc32(end, _continued(checksum, self._stored_checksum, self.stored_bytes, self._part_size))


def _continued(checksum: int, other: int, size: int, part_size: int) -> int:
    """Return the CRC-32 of two texts from that of each; the second one has ``size`` bytes.

    What the first contributes does not depend on the second one's bytes, so that zeros take their place.
    """
    contribution, zeros = (checksum, 0), bytes(min(size, part_size))
    for begin in range(0, size, part_size):
        piece = zeros[: size - begin]
        contribution = crc32(piece, contribution[0]), crc32(piece, contribution[1])
    return contribution[0] ^ contribution[1] ^ other


def _pieces_of_all(facts: tuple[AnyFact, ...], size: int) -> Iterator[bytes]:
    for number, fact in enumerate(facts):
        yield b"," if number else b""
        yield from _pieces_of(fact, size)


def _pieces_of(fact: AnyFact, size: int) -> Iterator[bytes]:
    names = fact.__struct_fields__
    if not any(_is_long(getattr(fact, name), size) for name in names):
        yield _encode(fact)
        return
    yield b'{"fact":' + _encode(fact.__struct_config__.tag)
    defaults = fact.__struct_defaults__
    without_default = len(names) - len(defaults)
    for number, name in enumerate(names):
        value = getattr(fact, name)
        if number >= without_default and value == defaults[number - without_default]:
            continue
        yield b',"%b":' % name.encode()
        if _is_long(value, size):
            for begin in range(0, len(value), size):
                yield (b"," if begin else b"[") + _encode(value[begin : begin + size])[1:-1]
            yield b"]"
        else:
            yield _encode(value)
    yield b"}"


def _is_long(value: object, size: int) -> bool:
    return isinstance(value, tuple) and len(value) > size


def pack(entries: Iterable[Entry], encoded: EncodedFacts | None = None) -> list[Row]:
    """Encode entries, each once; the facts that were encoded before are not encoded again."""
    return [
        (revision := entry.revision, crc32(body := _body(entry, encoded), revision & 0xFFFFFFFF), body)
        for entry in entries
    ]


def _body(entry: Entry, encoded: EncodedFacts | None) -> bytes:
    """Return the very bytes that encoding the entry at once returns."""
    if encoded is None or encoded.facts is not entry.facts or encoded.stored_bytes:
        return _encode(entry)
    return b"".join(encoded.split(entry))


def unpack(rows: Iterable[Row], place: Path | str, after: int) -> Iterator[Entry]:
    """Decode the rows that follow revision ``after``; a gap or a damaged row is refused."""
    for revision, checksum, body in rows:
        after += 1
        if revision != after:
            raise DamagedJournal(f"{place} lacks revision {after}: restore it from a backup; nothing was changed")
        yield unpack_one(revision, checksum, body, place)


def unpack_one(revision: int, checksum: int, body: bytes, place: Path | str) -> Entry:
    """Decode one row, whatever came before it."""
    return _checked(revision, checksum, body, place, _decode)


def unpack_cause(revision: int, checksum: int, body: bytes, place: Path | str) -> Entry:
    """Decode one row without its facts, which takes little time and memory however many they are."""
    cause = _checked(revision, checksum, body, place, _decode_head)
    return Entry(cause.revision, cause.at, cause.command, cause.by, ())


def unpack_beginning(revision: int, beginning: bytes, place: Path | str) -> Entry:
    """Decode the beginning of a body without its facts; its checksum can only be compared when all of it is read."""
    try:
        return unpack_cause(revision, crc32(beginning, revision & 0xFFFFFFFF), beginning, place)
    except NewerJournal as error:  # no checksum says that it is not damaged
        raise _damaged(revision, place) from error


def _decode_head(body: bytes) -> _EntryCause:
    """Decode what stands before the facts; no string can hold the bytes that begin them."""
    end = body.find(_NO_FACTS[:-1])
    return _decode_cause(body if end < 0 else body[:end].rstrip(b",") + b"}")


def _checked(
    revision: int, checksum: int, body: bytes, place: Path | str, decode: Callable[[bytes], _Decoded]
) -> _Decoded:
    try:
        if crc32(body, revision & 0xFFFFFFFF) == checksum and (decoded := decode(body)).revision == revision:
            return decoded
    except msgspec.ValidationError as error:
        raise NewerJournal(
            f"{place} has at revision {revision} what this release does not know ({error}): install the release that"
            " wrote it, which other nodes may have; nothing was changed"
        ) from error
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors; a damaged column may hold any type
        pass
    raise _damaged(revision, place)


def _damaged(revision: int, place: Path | str) -> DamagedJournal:
    return DamagedJournal(f"{place} is damaged at revision {revision}: restore it from a backup; nothing was changed")


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
