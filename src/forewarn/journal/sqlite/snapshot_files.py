"""A snapshot: the fleet as it stood at one revision, in a file of its own.

A file is its magic bytes, then frames: length, running checksum, payload. The first payload is the header, then
come the fleet's parts, and an empty payload ends it. The checksum of a frame covers everything before it, so a
frame that is damaged, missing or out of place is noticed before it is used.
"""

import re
import struct
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec

from forewarn.core.chunks import FleetChunk
from forewarn.core.fact import FORMAT
from forewarn.core.fleet import Fleet
from forewarn.files import sync_directory, write_atomically
from forewarn.journal.port import DamagedJournal, NewerJournal

_MAGIC = b"FWsnapshot\n"
_FRAME = struct.Struct(">II")
_NAME = re.compile(r"snapshot-([0-9]+)")
_PARTIAL = ".partial"

_encode = msgspec.msgpack.Encoder().encode


class SnapshotHeader(msgspec.Struct, frozen=True):
    """What a snapshot is a snapshot of."""

    format: int
    revision: int
    """The last entry that is folded into it."""
    checksum: int
    """The checksum of that entry, by which the snapshot knows its journal."""


_decode_header = msgspec.msgpack.Decoder(SnapshotHeader).decode
_decode_chunk = msgspec.msgpack.Decoder(FleetChunk).decode


def list_snapshots(directory: Path) -> list[tuple[int, Path]]:
    """Return the revisions and paths of the snapshots in a directory, newest first."""
    found = [(int(match[1]), path) for path in directory.iterdir() if (match := _NAME.fullmatch(path.name))]
    return sorted(found, reverse=True)


def write(directory: Path, header: SnapshotHeader, parts: Iterable[FleetChunk]) -> Path:
    """Write an unpublished snapshot; it counts for nothing before ``publish``."""
    path = directory / f"snapshot-{header.revision}{_PARTIAL}"
    with write_atomically(path) as file:
        file.write(_MAGIC)
        checksum = 0
        for payload in _payloads(header, parts):
            checksum = crc32(payload, checksum)
            file.write(_FRAME.pack(len(payload), checksum))
            file.write(payload)
    return path


def publish(path: Path) -> Path:
    """Give a verified snapshot its name."""
    published = path.rename(path.with_name(path.name.removesuffix(_PARTIAL)))
    sync_directory(path.parent)
    return published


def remove_partial(directory: Path) -> None:
    """Remove what a crash left of unfinished snapshots."""
    for path in directory.glob(f"snapshot-*{_PARTIAL}"):
        path.unlink(missing_ok=True)


def read_header(path: Path) -> SnapshotHeader:
    """Read what the snapshot is of, and nothing else."""
    with path.open("rb") as file:
        return _header(next(_frames(file, path)), path)


def read_chunks(path: Path) -> Iterator[FleetChunk]:
    """Yield the parts of a snapshot, each checked; damage is noticed at the latest at its end."""
    with path.open("rb") as file:
        frames = _frames(file, path)
        _header(next(frames), path)
        for payload in frames:
            try:
                yield _decode_chunk(payload)
            except ValueError as error:
                raise _damaged(path) from error


def check(path: Path) -> SnapshotHeader:
    """Read a whole snapshot for its checksums; raise DamagedJournal if one is wrong."""
    with path.open("rb") as file:
        frames = _frames(file, path)
        header = _header(next(frames), path)
        for _ in frames:
            pass
    return header


def holds(path: Path, fleet: Fleet) -> bool:
    """Return whether a snapshot is of exactly this fleet."""
    return all(written == folded for written, folded in zip_longest(read_chunks(path), fleet.parts()))


def _payloads(header: SnapshotHeader, parts: Iterable[FleetChunk]) -> Iterator[bytes]:
    yield _encode(header)
    yield from map(_encode, parts)
    yield b""


def _frames(file: BinaryIO, path: Path) -> Iterator[bytes]:
    left = path.stat().st_size - len(_MAGIC)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise _damaged(path)
    checksum = 0
    while True:
        head = file.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise _damaged(path)
        length, expected = _FRAME.unpack(head)
        left -= _FRAME.size + length
        if left < 0:
            raise _damaged(path)
        payload = file.read(length)
        checksum = crc32(payload, checksum)
        if len(payload) < length or checksum != expected:
            raise _damaged(path)
        if not payload:
            if left:
                raise _damaged(path)
            return
        yield payload


def _header(payload: bytes, path: Path) -> SnapshotHeader:
    try:
        header = _decode_header(payload)
    except ValueError as error:
        raise _damaged(path) from error
    if header.format > FORMAT:
        raise NewerJournal(
            f"{path} has format {header.format}, and this release knows formats up to {FORMAT}: "
            "install the release that wrote it; nothing was changed"
        )
    return header


def _damaged(path: Path) -> DamagedJournal:
    return DamagedJournal(f"{path} is damaged: delete it once a newer snapshot was taken; nothing was changed")
