"""From the database to the fleet: the newest snapshot that can be trusted, and the entries after it."""

from forewarn.core.fleet import Fleet
from forewarn.journal.folding import apply_entry, interned
from forewarn.journal.interning import Interner
from forewarn.journal.port import DamagedJournal, Recovered
from forewarn.journal.postgres import snapshots
from forewarn.journal.postgres.chain import BEGINNING
from forewarn.journal.postgres.reader_pool import ReaderPool
from forewarn.journal.postgres.reading import EntryReader

_ATTEMPTS = 3
"""How often it begins again because newer snapshots replaced the one that was read, and the entries after it."""


def recover(reader: EntryReader, pool: ReaderPool, place: str) -> tuple[Recovered, bytes, int]:
    """Fold what the database holds; return it with the hash of the last entry, and how many follow the snapshot.

    What is damaged, or of a newer release, is refused, or passed by where the same fleet can be had.
    """
    for _ in range(_ATTEMPTS):
        interner = Interner()
        fleet, revision, hash_, warnings = _restore(pool, place, interner)
        snapshot_revision, first = revision, reader.first_revision()
        if first <= revision + 1:
            break
    else:
        for snapshot in snapshots.list_snapshots(pool):
            snapshot.check(place)  # one of a newer release is the reason, not damage
        raise DamagedJournal(
            f"{place} begins at revision {first}, and has no good snapshot to begin from: restore the database from a"
            " backup; nothing was changed"
        )
    reader.begin(revision, hash_)
    for stored in reader.stored_entries(revision):
        entry = reader.decode(stored)
        interner.share_entry(entry)
        apply_entry(fleet, entry, place)
        revision, hash_ = stored.revision, stored.hash
    return Recovered(fleet, revision, tuple(warnings)), hash_, revision - snapshot_revision


def _restore(pool: ReaderPool, place: str, interner: Interner) -> tuple[Fleet, int, bytes, list[str]]:
    for _ in range(_ATTEMPTS):
        warnings: list[str] = []
        try:
            for snapshot in snapshots.list_snapshots(pool):
                if snapshot.is_newer:
                    continue
                try:
                    snapshot.check(place)
                    fleet = Fleet.restore(interned(snapshots.read_chunks(pool, snapshot, place), interner))
                except DamagedJournal as error:
                    warnings.append(str(error))
                else:
                    return fleet, snapshot.revision, snapshot.hash, warnings
        except snapshots.SnapshotGone:
            continue
        break
    return Fleet(), 0, BEGINNING, warnings
