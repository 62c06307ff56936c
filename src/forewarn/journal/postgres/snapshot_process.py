"""The process beside the server that takes snapshots.

    python -m forewarn.journal.postgres.snapshot_process KEEP [NOW]

It reads the address of the database from its standard input, and all else from the database, never from the server's
memory. It writes a snapshot and reads it back before that counts, makes the partitions of the months to come, and
takes entries that are older than KEEP seconds of history out of the index; the server deletes them.
"""

import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice

from psycopg.errors import LockNotAvailable

from forewarn.core.fact import FORMAT
from forewarn.core.subjects import subjects_of
from forewarn.journal.port import DamagedJournal, JournalFailed
from forewarn.journal.postgres import snapshots
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.bulks import COMMAND
from forewarn.journal.postgres.chain import ChainPosition
from forewarn.journal.postgres.connection import READ_LIMIT, LimitedConnection
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.partitions import create_partitions
from forewarn.journal.postgres.reader_pool import ReaderPool
from forewarn.journal.postgres.reading import EntryReader
from forewarn.journal.postgres.recovery import recover
from forewarn.journal.postgres.sessions import opened
from forewarn.journal.retention import batches_to_release
from forewarn.journal.snapshot_runner import SnapshotResult, run_snapshot_process

_KEPT = 2
"""How many snapshots are kept: should the newest be damaged one day, the other and the entries after it are there."""
_BATCH = 2_000
_KEYS = 50_000


def take_snapshot(address: DatabaseAddress, history: timedelta | None, now: datetime | None = None) -> SnapshotResult:
    """Take a snapshot of all that is durable now, and see to the index; without ``history`` nothing is released."""
    pool = ReaderPool(address)
    try:
        with opened(address, READ_LIMIT) as connection, translate_errors(address.place):
            return _Maintenance(connection, pool, address.place).run(history, now or datetime.now(UTC))
    finally:
        pool.close()


class _Maintenance:
    """One run."""

    def __init__(self, connection: LimitedConnection, pool: ReaderPool, place: str) -> None:
        self._connection = connection
        self._pool = pool
        self._place = place
        self._reader = EntryReader(pool, place, ChainPosition(place))

    def run(self, history: timedelta | None, now: datetime) -> SnapshotResult:
        ((is_alone,),) = self._connection.run("lock_snapshots")
        if not is_alone:
            raise JournalFailed(f"another process takes a snapshot of {self._place}: wait until it is done")
        revision = self._take()
        kept = self._keep_good()
        ((clock,),) = self._connection.run("read_clock")
        with suppress(LockNotAvailable):  # the next run makes them: there are some for months to come
            create_partitions(self._connection, clock, clock)
        self._delete_unused()
        self._index()
        released = self._release(kept[-1], now, history) if len(kept) == _KEPT and history is not None else 0
        return SnapshotResult(revision, released)

    def _take(self) -> int:
        """Write a snapshot of all entries, unless the newest one is that; return the revision of the newest.

        None is written while the cluster has nodes of an older release, which could not read it.
        """
        ((last,),) = self._connection.run("last_revision")
        ((_, _, cluster_format),) = self._connection.run("read_formats")
        found = snapshots.list_snapshots(self._pool)
        if cluster_format < FORMAT:
            return found[0].revision if found else 0
        if not last or (found and found[0].revision == last and self._is_good(found[0])):
            return int(last)
        recovered, hash_, _ = recover(self._reader, self._pool, self._place)
        good = [each.revision for each in found if each.revision != recovered.revision]
        self._connection.run("delete_snapshots", kept=good)  # with what an earlier run did not finish
        snapshots.write(self._connection, self._pool, recovered.revision, hash_, recovered.fleet, self._place)
        return recovered.revision

    def _keep_good(self) -> list[int]:
        """Keep the newest good snapshots, delete the others, and return the revisions of the kept ones.

        Those of a newer release are left to it.
        """
        found = snapshots.list_snapshots(self._pool)
        newer = [each.revision for each in found if each.is_newer]
        readable = (each for each in found if not each.is_newer)
        kept = [each.revision for each in islice(filter(self._is_good, readable), _KEPT)]
        self._connection.run("delete_snapshots", kept=kept + newer)
        return kept

    def _is_good(self, snapshot: snapshots.StoredSnapshot) -> bool:
        try:
            snapshot.check(self._place)
            for _ in snapshots.read_chunks(self._pool, snapshot, self._place):
                pass
        except DamagedJournal:
            return False
        return True

    def _index(self) -> None:
        """Note the subjects of the entries since the last time; those of long ones were noted beforehand."""
        ((after,),) = self._connection.run("read_indexed")
        after = max(after, self._reader.first_revision() - 1)
        entries = EntryReader(self._pool, self._place, ChainPosition(self._place)).stored_entries(after)
        while batch := list(islice(entries, _BATCH)):
            keys = sorted(
                (subject, stored.revision)
                for stored in batch
                for subject in self._reader.subjects(stored)
                if not subject.startswith(COMMAND)
            )
            self._connection.run(
                "index_entries",
                after=after,
                last=batch[-1].revision,
                subjects=[subject for subject, _ in keys],
                revisions=[revision for _, revision in keys],
            )
            after = batch[-1].revision

    def _release(self, floor: int, now: datetime, history: timedelta) -> int:
        """Take the entries below ``floor`` that are older than ``history`` out of the index; return the last one."""
        ((released,),) = self._connection.run("read_released")
        after = max(released, self._reader.first_revision() - 1)
        oldest = self._reader.entries(after, max(floor - 1 - after, 0))
        for batch in batches_to_release(oldest, now, history, _BATCH):
            released = batch[-1].revision
            keys = iter(sorted((subject, entry.revision) for entry in batch for subject in subjects_of(entry)))
            while some := list(islice(keys, _KEYS)):
                subjects, revisions = zip(*some, strict=True)
                self._connection.run("forget_subjects", subjects=list(subjects), revisions=list(revisions))
            commands = [entry.command for entry in batch]
            self._connection.run("release_entries", commands=commands, released=released)
        return int(released)

    def _delete_unused(self) -> None:
        bulks = [number for (number,) in self._connection.run("unused_bulks")]
        if bulks:
            self._connection.run("delete_unused_parts", bulks=bulks)


def main() -> int:
    """Fold the database that the standard input names."""
    address = DatabaseAddress.parse(sys.stdin.read())
    return run_snapshot_process(lambda history, now: take_snapshot(address, history, now), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
