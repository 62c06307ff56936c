"""Folds entries into a fleet, as every journal does when it is loaded."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from forewarn.core.chunks import FleetChunk
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.interning import Interner
from forewarn.journal.port import DamagedJournal


def apply_entry(fleet: Fleet, entry: Entry, place: Path | str) -> None:
    """Take one entry into the fleet; refuse one that does not follow from those before it."""
    try:
        fleet.enter(entry)
    except LookupError as error:
        raise DamagedJournal(
            f"{place} refers at revision {entry.revision} to a record that does not exist: "
            "restore it from a backup; nothing was changed"
        ) from error


def interned(chunks: Iterable[FleetChunk], interner: Interner) -> Iterator[FleetChunk]:
    """Yield a snapshot's chunks with equal strings and records kept once."""
    for chunk in chunks:
        interner.share_groups(chunk.groups)
        interner.share_vms(chunk.vms)
        yield chunk
