"""Entries as the arrays of the statement that appends them."""

from collections.abc import Sequence

import msgspec

from forewarn.core.facts import Entry
from forewarn.journal.codec import pack
from forewarn.journal.postgres.bulks import Bulk
from forewarn.journal.postgres.chain import next_hash
from forewarn.journal.postgres.connection import LimitedConnection


class AppendBatch(msgspec.Struct):
    """What one append adds."""

    revision: int
    """The revision and the hash of the entry before the first."""
    hash: bytes
    last_revision: int
    last_hash: bytes
    commands: list[str] = []
    checksums: list[int] = []
    hashes: list[bytes] = []
    bulks: list[int] = []
    bodies: list[bytes] = []
    times: list[float] = []
    """When the entries were recorded, of a copy; else empty, and the database's clock counts."""

    def add(self, entry: Entry, connection: LimitedConnection, bulk: Bulk | None, part_size: int) -> int:
        """Add one entry; return the size of its body. One longer than two parts is stored in parts, at once."""
        if bulk and bulk.facts is entry.facts and bulk.number:
            return self._add_bulk(entry, connection, bulk)
        ((_, checksum, body),) = pack((entry,), bulk.encoded if bulk else None)
        if len(body) > 2 * part_size:
            return self._add_bulk(entry, connection, Bulk(connection, entry.facts, part_size))
        self._add(entry.command, checksum, body)
        return len(body)

    def _add_bulk(self, entry: Entry, connection: LimitedConnection, bulk: Bulk) -> int:
        checksum, beginning, part_hashes = bulk.complete(connection, entry)
        self._add(entry.command, checksum, beginning, bulk.number, part_hashes)
        return bulk.encoded.stored_bytes

    def _add(
        self, command: str, checksum: int, body: bytes, bulk: int = 0, part_hashes: Sequence[bytes] = ()
    ) -> None:
        self.last_revision += 1
        self.last_hash = next_hash(self.last_hash, body, part_hashes)
        self.commands.append(command)
        self.checksums.append(checksum)
        self.hashes.append(self.last_hash)
        self.bulks.append(bulk)
        self.bodies.append(body)
