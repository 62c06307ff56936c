"""Snapshots: the fleet as it stood at one revision, in chunks of the database.

The checksum of a chunk covers all before it, so that one that is damaged, missing or out of place is noticed.
"""

from collections.abc import Iterable, Iterator
from zlib import crc32

import msgspec

from forewarn.core.chunks import FleetChunk
from forewarn.core.fact import FORMAT
from forewarn.core.fleet import Fleet
from forewarn.journal.port import DamagedJournal, JournalFailed, NewerJournal
from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.reader_pool import ReaderPool

_READ_AT_ONCE = 4

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FleetChunk).decode


class SnapshotGone(JournalFailed):
    """The snapshot was deleted while it was read; a newer one is there."""


class StoredSnapshot(msgspec.Struct, frozen=True):
    """A snapshot that counts."""

    revision: int
    hash: bytes
    """The hash of its last entry, by which it knows its journal."""
    format: int
    chunks: int
    entry_hash: bytes | None
    """The hash that this entry has; None if it was deleted."""

    @property
    def is_newer(self) -> bool:
        """Whether only a newer release can read it."""
        return self.format > FORMAT

    def check(self, place: str) -> None:
        """Refuse a snapshot of a newer release, or of other entries than the journal's."""
        if self.is_newer:
            raise NewerJournal(
                f"{place} has a snapshot of format {self.format}, and this release knows formats up to {FORMAT}:"
                " install the release that wrote it; nothing was changed"
            )
        if self.entry_hash not in (None, self.hash):
            raise DamagedJournal(
                f"the snapshot of revision {self.revision} in {place} was not made from its entries: the next one"
                " replaces it"
            )


def list_snapshots(pool: ReaderPool) -> list[StoredSnapshot]:
    """Return the verified snapshots, newest first."""
    return [StoredSnapshot(*row) for row in pool.read(lambda connection: connection.run("list_snapshots"))]


def read_chunks(pool: ReaderPool, snapshot: StoredSnapshot, place: str) -> Iterator[FleetChunk]:
    """Yield the chunks of a snapshot, each checked."""
    return _read_chunks(pool, snapshot.revision, snapshot.chunks, place)


def write(
    connection: LimitedConnection, pool: ReaderPool, revision: int, hash_: bytes, fleet: Fleet, place: str
) -> None:
    """Write a snapshot, read it back, and let it count when it is equal."""
    connection.run("begin_snapshot", revision=revision, hash=hash_, fact_format=FORMAT)
    chunks = checksum = 0
    for chunks, payload in enumerate(map(_encode, fleet.parts()), 1):
        checksum = crc32(payload, checksum)
        connection.run("add_chunk", revision=revision, number=chunks, checksum=checksum, content=payload)
    if not holds(_read_chunks(pool, revision, chunks, place), fleet):
        raise DamagedJournal(f"{place} returned another snapshot than was written: check the server's disk")
    connection.run("publish_snapshot", revision=revision, chunks=chunks)


def holds(chunks: Iterable[FleetChunk], fleet: Fleet) -> bool:
    """Return whether chunks are of exactly this fleet."""
    written = iter(chunks)
    return all(next(written, None) == part for part in fleet.parts()) and next(written, None) is None


def _read_chunks(pool: ReaderPool, revision: int, count: int, place: str) -> Iterator[FleetChunk]:
    checksum = read = 0
    while read < count:
        after = read
        rows = pool.read(
            lambda connection: connection.run("read_chunks", revision=revision, after=after, limit=_READ_AT_ONCE)  # noqa: B023 - called at once
        )
        for number, expected, content in rows:
            checksum = crc32(content, checksum)
            if number != read + 1 or checksum != expected:
                raise _damaged(revision, place)
            read = number
            try:
                yield _decode(content)
            except ValueError as error:
                raise _damaged(revision, place) from error
        if not rows:
            if not any(each.revision == revision for each in list_snapshots(pool)):
                raise SnapshotGone(f"the snapshot of revision {revision} in {place} was replaced: read it again")
            raise _damaged(revision, place)


def _damaged(revision: int, place: str) -> DamagedJournal:
    return DamagedJournal(f"the snapshot of revision {revision} in {place} is damaged: the next one replaces it")
