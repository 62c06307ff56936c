"""The chain of hashes: each entry carries the SHA-256 of its predecessor's hash and its own body.

A database that lost entries in a failover, and got others in their place, has another chain. The journal of a process
knows the last entry that it has read or written, and notices.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from threading import Lock as Mutex

import msgspec

from forewarn.journal.port import DamagedJournal
from forewarn.journal.shared import JournalDiverged

BEGINNING = b""
"""The hash before the first entry."""


class StoredEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry as the database has it."""

    revision: int
    checksum: int
    hash: bytes
    body: bytes
    parts: tuple[bytes, ...] = ()
    """What follows the body, where that is only its beginning."""

    @property
    def whole_body(self) -> bytes:
        """All bytes of the body."""
        return b"".join((self.body, *self.parts)) if self.parts else self.body


def next_hash(previous: bytes, body: bytes, part_hashes: Iterable[bytes] = ()) -> bytes:
    """Return the hash of an entry; of parts, which were stored before their place was known, it covers the hashes."""
    summed = sha256(previous)
    summed.update(body)
    for each in part_hashes:
        summed.update(each)
    return summed.digest()


def check_links(previous: bytes | None, entries: Sequence[StoredEntry], place: str) -> None:
    """Refuse entries that are damaged; what comes before the first one is unknown where ``previous`` is None."""
    for entry in entries:
        parts = (sha256(part).digest() for part in entry.parts)
        if previous is not None and next_hash(previous, entry.body, parts) != entry.hash:
            raise DamagedJournal(
                f"{place} is damaged at revision {entry.revision}: restore the database from a backup;"
                " nothing was changed"
            )
        previous = entry.hash


class ChainPosition:
    """The last entry that this process has read or written, for all its threads."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._mutex = Mutex()
        self._at = (0, BEGINNING)
        self.size = 0
        """How many bytes the entries have that it passed since it began."""

    @property
    def at(self) -> tuple[int, bytes]:
        """Revision and hash."""
        return self._at

    def begin(self, revision: int, hash_: bytes) -> None:
        """Begin anew at an entry: what was read before does not matter any more."""
        with self._mutex:
            self._at = (revision, hash_)
            self.size = 0

    def advance(self, entries: Iterable[StoredEntry]) -> None:
        """Go on to the last of entries that continue the chain."""
        with self._mutex:
            for entry in entries:
                if entry.revision == self._at[0] + 1:
                    self._at = (entry.revision, entry.hash)
                    self.size += len(entry.body) + sum(map(len, entry.parts))

    def reach(self, revision: int, hash_: bytes, size: int) -> None:
        """Go on to an entry that this process has appended."""
        with self._mutex:
            if revision > self._at[0]:
                self._at = (revision, hash_)
                self.size += size

    def check(self, known: tuple[int, bytes], links: Iterable[tuple[int, bytes]], *, is_end: bool) -> None:
        """Refuse entries that are other ones than were known before they were read; the last of all if ``is_end``."""
        revision, hash_ = known
        last = None
        for each, found in links:
            last = each
            if each == revision and found != hash_:
                raise self.diverged(revision)
        if is_end and last is not None and last < revision:
            raise self.diverged(revision)

    def diverged(self, revision: int) -> JournalDiverged:
        return JournalDiverged(
            f"{self._place} does not hold revision {revision} as this node has read it, as after a failover that lost"
            " commits: the journal is loaded again"
        )
