"""The process beside the server that takes snapshots, and what runs it there.

    python -m forewarn.journal.sqlite.snapshot_process DIRECTORY KEEP [NOW]

It reads the journal's file, never the server's memory, and runs at the lowest priority. It writes a snapshot and
reads it back before it counts, brings the index of history up to date, and takes out of it the entries that are
older than KEEP seconds of history; ``all`` keeps all of them. It names what is to be deleted
in its one line of output; the server deletes it.
"""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from pathlib import Path
from threading import Lock as Mutex

import msgspec

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import FORMAT, Entry
from forewarn.files import FileLock
from forewarn.journal.codec import unpack
from forewarn.journal.port import DamagedJournal, JournalFailed
from forewarn.journal.sqlite import database, index, snapshot_files
from forewarn.journal.sqlite.errors import translate_errors
from forewarn.journal.sqlite.recovery import check_belongs, recover

LOCK = "fold-lock"
KEEP_ALL = "all"

_KEPT = 2
"""How many snapshots are kept: should the newest be damaged one day, the other and the entries after it are there."""
_BATCH = 2_000


class SnapshotResult(msgspec.Struct, frozen=True):
    """What the process has done."""

    revision: int
    """The revision of the newest snapshot."""
    released: int
    """Entries up to this revision may be deleted; 0 when none may."""


def take_snapshot(directory: Path, history: timedelta | None, now: datetime | None = None) -> SnapshotResult:
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
                    _index_entries(history_index, connection, place)
                    released = 0
                    if len(kept) == _KEPT and history is not None:
                        present = now or datetime.now(UTC)
                        released = _release(history_index, connection, place, kept[-1], present, history)
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


def _index_entries(history_index: sqlite3.Connection, connection: sqlite3.Connection, place: Path) -> None:
    first, _ = database.bounds(connection)
    _, reached = index.reach(history_index)
    after = max(reached, first - 1)
    rows = database.rows(connection, after)
    while batch := list(islice(rows, _BATCH)):
        index.add(history_index, unpack(batch, place, after), batch[-1])
        after = batch[-1][0]


def _release(
    history_index: sqlite3.Connection,
    connection: sqlite3.Connection,
    place: Path,
    floor: int,
    now: datetime,
    history: timedelta,
) -> int:
    """Take the entries below ``floor`` that are older than ``history`` out of the index; return the last of them.

    Entries dated in the future, by a clock that was wrong, neither go by themselves nor keep older ones.
    """
    first, _ = database.bounds(connection)
    # What an earlier fold released may still be there: whoever was to delete it was killed. It stays released.
    already, _ = index.reach(history_index)
    after = max(already, first - 1)
    oldest = unpack(database.rows(connection, after, max(floor - 1 - after, 0)), place, after)
    released = already
    waiting: list[Entry] = []
    for entry in takewhile(lambda entry: entry.at < now - history or entry.at > now, oldest):
        waiting.append(entry)
        if entry.at <= now and len(waiting) >= _BATCH:
            released = entry.revision
            index.remove(history_index, waiting, released)
            waiting.clear()
    while waiting and waiting[-1].at > now:
        waiting.pop()
    if waiting:
        released = waiting[-1].revision
        index.remove(history_index, waiting, released)
    return released


class SnapshotRunner:
    """Runs the process, one at a time, and remembers what it allowed to be deleted."""

    def __init__(self, directory: Path, history: timedelta) -> None:
        self.released = 0
        """Entries up to this revision may be deleted."""
        self._directory = directory
        self.history = history
        """How long entries are kept."""
        self._process: subprocess.Popen[bytes] | None = None
        self._mutex = Mutex()

    def run(self, *, release: bool = True, now: datetime | None = None) -> None:
        """Fold, and return when it is done; raise JournalFailed where a step of it failed."""
        command = [sys.executable, "-P", "-m", "forewarn.journal.sqlite.snapshot_process"]
        command += [str(self._directory), str(self.history.total_seconds()) if release else KEEP_ALL]
        command += [now.isoformat()] if now else []
        with self._mutex:
            try:
                self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 - ourselves
            except OSError as error:
                raise JournalFailed(f"{self._directory} gets no snapshot now: {error.strerror}") from error
            with self._process as process:
                answer, complaint = process.communicate()
            self._process = None
        if process.returncode:
            reason = complaint.decode(errors="replace").strip().rpartition("\n")[2] or "it was ended"
            raise JournalFailed(f"the process that takes snapshots of {self._directory} failed: {reason}")
        self.released = msgspec.json.decode(answer, type=SnapshotResult).released

    def stop(self) -> None:
        """End the process if it is running; what it had not finished counts for nothing."""
        if process := self._process:
            process.kill()


def main() -> int:
    """Fold the directory that the command line names."""
    if hasattr(os, "nice"):
        os.nice(19)
    try:
        history = None if sys.argv[2] == KEEP_ALL else timedelta(seconds=float(sys.argv[2]))
        now = datetime.fromisoformat(sys.argv[3]) if sys.argv[3:] else None
        folded = take_snapshot(Path(sys.argv[1]), history, now)
    except ForewarnError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(folded) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
