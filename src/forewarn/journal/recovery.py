"""From the directory to the fleet: the newest snapshot that can be trusted, and the entries after it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.parts import Part
from forewarn.journal import file, snapshot
from forewarn.journal.codec import unpack
from forewarn.journal.port import DamagedJournal, Recovered
from forewarn.journal.sharing import Sharing


def recover(connection: sqlite3.Connection, directory: Path) -> Recovered:
    """Fold what the directory holds; what is damaged is refused, or passed by where the same fleet can be had."""
    place = directory / file.NAME
    found = snapshot.snapshots(directory)  # before the bounds: a snapshot taken meanwhile may lie above them
    first, last = file.bounds(connection)
    if found and found[0][0] > last:
        raise DamagedJournal(
            f"{place} ends at revision {last}, but {found[0][1].name} holds revision {found[0][0]}: "
            "restore the directory from a backup, or delete the snapshots to go on without what is lost; "
            "nothing was changed"
        )
    sharing = Sharing()
    warnings: list[str] = []
    fleet, after = Fleet(), 0
    for revision, path in found:
        try:
            must_belong(path, connection, revision)
            fleet = Fleet.restore(shared_parts(path, sharing))
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
    fold(fleet, after, last, connection, place, sharing)
    return Recovered(fleet, last, tuple(warnings))


def fold(fleet: Fleet, after: int, last: int, connection: sqlite3.Connection, place: Path, sharing: Sharing) -> None:
    """Take the entries above revision ``after`` up to ``last`` into the fleet."""
    for entry in unpack(file.rows(connection, after, last - after), place, after):
        sharing.share_entry(entry)
        enter(fleet, entry, place)


def enter(fleet: Fleet, entry: Entry, place: Path) -> None:
    """Take one entry into the fleet; refuse one that does not follow from those before it."""
    try:
        fleet.enter(entry)
    except LookupError as error:
        raise DamagedJournal(
            f"{place} speaks at revision {entry.revision} of something that is not there: "
            "restore it from a backup; nothing was changed"
        ) from error


def must_belong(path: Path, connection: sqlite3.Connection, revision: int) -> None:
    """Refuse a snapshot that was not made from this very journal."""
    header = snapshot.read_header(path)
    entry = connection.execute("SELECT checksum FROM entries WHERE revision = ?", (revision,)).fetchone()
    if header.revision != revision or entry != (header.checksum,):
        raise DamagedJournal(f"{path} was not made from the journal beside it: delete it; nothing was changed")


def shared_parts(path: Path, sharing: Sharing) -> Iterator[Part]:
    """Yield a snapshot's parts with equal strings and records kept once."""
    for part in snapshot.read_parts(path):
        sharing.share_groups(part.groups)
        sharing.share_vms(part.vms)
        yield part
