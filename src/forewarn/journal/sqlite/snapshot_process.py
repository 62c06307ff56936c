"""The process beside the server that takes snapshots, and what runs it there.

    python -m forewarn.journal.sqlite.snapshot_process DIRECTORY KEEP [NOW]

It reads the journal's file, never the server's memory, and runs at the lowest priority. It writes a snapshot and
reads it back before it counts, brings the index of history up to date, and takes out of it the entries that are
older than KEEP seconds of history; ``all`` keeps all of them. It names what is to be deleted
in its one line of output; the server deletes it.
"""

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from forewarn.core.fact import FORMAT
from forewarn.files import FileLock
from forewarn.journal.codec import unpack
from forewarn.journal.port import DamagedJournal
from forewarn.journal.retention import batches_to_release
from forewarn.journal.snapshot_runner import SnapshotResult, run_snapshot_process
from forewarn.journal.sqlite import database, index, snapshot_files
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.recovery import check_belongs, recover

LOCK = "fold-lock"

_KEPT = 2
"""How many snapshots are kept: should the newest be damaged one day, the other and the entries after it are there."""
_BATCH = 2_000


def take_snapshot(
    directory: Path, history: timedelta | None, now: datetime | None = None, batch_size: int = _BATCH
) -> SnapshotResult:
    """Take a snapshot of all that is durable now, and see to the index; without ``history`` nothing is released."""
    lock = FileLock(directory / LOCK)
    with translate_errors(lock.path):
        lock.acquire()
    place = directory / database.NAME
    try:
        with translate_errors(directory):
            database.recognise(place)
            with database.reading(place) as connection:
                snapshot_files.remove_partial(directory)
                revision = _write_snapshot(directory, connection)
                kept = _good_snapshots(directory, connection)
                with closing(index.open_writer(directory, connection)) as history_index:
                    _index_entries(history_index, connection, place, batch_size)
                    released = 0
                    if len(kept) == _KEPT and history is not None:
                        present = now or datetime.now(UTC)
                        released = _release(history_index, connection, place, kept[-1], present, history, batch_size)
            return SnapshotResult(revision, released)
    finally:
        lock.release()


def _write_snapshot(directory: Path, connection: sqlite3.Connection) -> int:
    _, last = database.bounds(connection)
    newest = next(iter(snapshot_files.list_snapshots(directory)), (0, directory))
    if newest[0] == last and (last == 0 or _is_good(newest[1], connection, last)):
        return last
    recovered = recover(connection, directory)
    revision = recovered.revision
    ((checksum,),) = connection.execute("SELECT checksum FROM entries WHERE revision = ?", (revision,))
    header = snapshot_files.SnapshotHeader(FORMAT, revision, checksum)
    partial = snapshot_files.write(directory, header, recovered.fleet.parts())
    if not snapshot_files.holds(partial, recovered.fleet):
        partial.unlink()
        raise DamagedJournal(f"{partial} was read back otherwise than it was written: check the disk")
    snapshot_files.publish(partial)
    return revision


def _good_snapshots(directory: Path, connection: sqlite3.Connection) -> list[int]:
    """Keep the newest good snapshots, delete the others, and return the revisions of the kept ones."""
    kept: list[int] = []
    for revision, path in snapshot_files.list_snapshots(directory):
        if len(kept) < _KEPT and _is_good(path, connection, revision):
            kept.append(revision)
        else:
            path.unlink()
    return kept


def _is_good(path: Path, connection: sqlite3.Connection, revision: int) -> bool:
    try:
        check_belongs(path, connection, revision)
        snapshot_files.check(path)
    except DamagedJournal:
        return False
    return True


def _index_entries(
    history_index: sqlite3.Connection, connection: sqlite3.Connection, place: Path, batch_size: int
) -> None:
    first, _ = database.bounds(connection)
    _, reached = index.reach(history_index)
    after = max(reached, first - 1)
    rows = database.rows(connection, after)
    while batch := list(islice(rows, batch_size)):
        index.add(history_index, unpack(batch, place, after), batch[-1])
        after = batch[-1][0]


def _release(
    history_index: sqlite3.Connection,
    connection: sqlite3.Connection,
    place: Path,
    floor: int,
    now: datetime,
    history: timedelta,
    batch_size: int,
) -> int:
    """Take the entries below ``floor`` that are older than ``history`` out of the index; return the last of them."""
    first, _ = database.bounds(connection)
    # What an earlier fold released may still be there, if the process that deletes it was killed. It stays released.
    released, _ = index.reach(history_index)
    after = max(released, first - 1)
    oldest = unpack(database.rows(connection, after, max(floor - 1 - after, 0)), place, after)
    for batch in batches_to_release(oldest, now, history, batch_size):
        released = batch[-1].revision
        index.remove(history_index, batch, released)
    return released


def main() -> int:
    """Fold the directory that the command line names."""
    return run_snapshot_process(lambda history, now: take_snapshot(Path(sys.argv[1]), history, now), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
