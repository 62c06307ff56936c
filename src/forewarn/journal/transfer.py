"""Copies a journal into another one, entry by entry, and verifies the copy.

    source ──▶ snapshot, where old entries were deleted ──▶ entries ──▶ target ──▶ read back and compared

A copy that was cut off is continued by the same call: what is there already is compared and passed by.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Protocol

import msgspec

from forewarn.core.errors import Refused
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.port import DamagedJournal

_BATCH = 500
_encode = msgspec.json.Encoder().encode


class JournalSource(Protocol):
    """What can be copied."""

    place: str

    def bounds(self) -> tuple[int, int]:
        """Return the first and the last kept revision; (1, 0) when there is none."""

    def base(self) -> tuple[int, Fleet]:
        """Return a snapshot from which the kept entries go on. Called before ``entries``, unless those begin at 1."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries between the bounds, each checked."""


class JournalTarget(JournalSource, Protocol):
    """What a copy can be made in; no other process writes it meanwhile."""

    def begin(self, first: int) -> None:
        """Let ``first`` be the revision of the first entry. Called on an empty target."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries behind the last one; on return they are durable."""

    def store_base(self, revision: int, fleet: Fleet) -> None:
        """Store a snapshot, once its entry is there."""

    def check(self) -> None:
        """Load what was copied; raise what is wrong with it."""


class TransferReport(msgspec.Struct, frozen=True):
    """What was copied."""

    source: str
    target: str
    first_revision: int
    last_revision: int
    copied: int
    """Entries that this call has copied; those that were there before do not count."""


def transfer(source: JournalSource, target: JournalTarget) -> TransferReport:
    """Copy all entries of a journal into another one that is empty, or that holds the beginning of the same copy."""
    first, last = source.bounds()
    there, reached = target.bounds()
    if reached and (there != first or reached > last):
        raise _holds_another(target)
    base = source.base() if first > 1 else None
    if not reached and first > 1:
        target.begin(first)
    digest = sha256()
    rest = _missing(_summed(source.entries(), digest.update), target, reached)
    copied = 0
    while batch := list(islice(rest, _BATCH)):
        target.append(batch)
        copied += len(batch)
    if base is not None:
        target.store_base(*base)
    read_back = sha256()
    for _ in _summed(target.entries(), read_back.update):
        pass
    if read_back.digest() != digest.digest() or target.bounds() != (first, last):
        raise DamagedJournal(f"{target.place} was read back otherwise than it was written: delete it, and copy again")
    target.check()
    return TransferReport(source.place, target.place, first, last, copied)


def _summed(entries: Iterable[Entry], note: Callable[[bytes], object]) -> Iterator[Entry]:
    for entry in entries:
        note(_encode(entry))
        yield entry


def _missing(entries: Iterable[Entry], target: JournalTarget, reached: int) -> Iterator[Entry]:
    """Yield the entries that the target lacks; refuse one that holds other entries."""
    present = target.entries() if reached else iter(())
    for entry in entries:
        if entry.revision > reached:
            yield entry
        elif next(present, None) != entry:
            raise _holds_another(target)


def _holds_another(target: JournalTarget) -> Refused:
    return Refused(f"{target.place} holds another journal: name an empty one; nothing was changed")
