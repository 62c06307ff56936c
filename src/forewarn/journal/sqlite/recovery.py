"""From the directory to the fleet: the newest snapshot that can be trusted, and the entries after it."""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.codec import unpack
from forewarn.journal.folding import apply_entry, interned
from forewarn.journal.interning import Interner
from forewarn.journal.port import DamagedJournal, Recovered
from forewarn.journal.sqlite import database, snapshot_files


def recover(
    connection: sqlite3.Connection, directory: Path, note: Callable[[Iterable[Entry]], None] = lambda _: None
) -> Recovered:
    """Fold what the directory holds; what is damaged is refused, or passed by where the same fleet can be had.

    ``note`` is called with the entries after the snapshot.
    """
    place = directory / database.NAME
    found = snapshot_files.list_snapshots(
        directory
    )  # before the bounds: a snapshot taken meanwhile may lie above them
    first, last = database.bounds(connection)
    if found and found[0][0] > last:
        raise DamagedJournal(
            f"{place} ends at revision {last}, but {found[0][1].name} holds revision {found[0][0]}: "
            "restore the directory from a backup, or delete the snapshots to go on without what is lost; "
            "nothing was changed"
        )
    interning = Interner()
    warnings: list[str] = []
    fleet, after = Fleet(), 0
    for revision, path in found:
        try:
            check_belongs(path, connection, revision)
            fleet = Fleet.restore(interned(snapshot_files.read_chunks(path), interning))
        except DamagedJournal as error:
            warnings.append(str(error))
        except FileNotFoundError:
            continue  # a newer one has just replaced it
        else:
            after = revision
            break
    if first > after + 1:
        raise DamagedJournal(
            f"{place} begins at revision {first}, and there is no good snapshot to begin from: "
            "restore the directory from a backup; nothing was changed"
        )
    for entry in unpack(database.rows(connection, after, last - after), place, after):
        interning.share_entry(entry)
        apply_entry(fleet, entry, place)
        note((entry,))
    return Recovered(fleet, last, tuple(warnings))


def check_belongs(path: Path, connection: sqlite3.Connection, revision: int) -> None:
    """Refuse a snapshot that was not made from this very journal."""
    header = snapshot_files.read_header(path)
    entry = connection.execute("SELECT checksum FROM entries WHERE revision = ?", (revision,)).fetchone()
    if header.revision != revision or entry != (header.checksum,):
        raise DamagedJournal(f"{path} was not made from the journal beside it: delete it; nothing was changed")
