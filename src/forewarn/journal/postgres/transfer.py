"""A database as the source or the target of a copy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import sleep
from uuid import uuid4

from forewarn import __version__
from forewarn.core.errors import Refused
from forewarn.core.fact import FORMAT
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.port import DamagedJournal, JournalFailed
from forewarn.journal.postgres import snapshots
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.chain import ChainPosition
from forewarn.journal.postgres.connection import READ_LIMIT
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.leases import LONGEST_LEASE, LeaseKeeper
from forewarn.journal.postgres.partitions import create_partitions
from forewarn.journal.postgres.reader_pool import ReaderPool
from forewarn.journal.postgres.reading import EntryReader
from forewarn.journal.postgres.recovery import recover
from forewarn.journal.postgres.schema import check_schema
from forewarn.journal.postgres.sessions import opened
from forewarn.journal.postgres.writing import EntryWriter
from forewarn.journal.shared import NodeReport

_LONGEST_HISTORY = timedelta(days=3650)
_FIRST_LEASE = 3.0
"""Seconds; a copy that was cut off has not given the lease back, and a node that lives renews its own by then."""


class PostgresSource:
    """Reads a database, which nodes may use meanwhile, up to the revision that it had at first."""

    def __init__(self, address: DatabaseAddress, pool: ReaderPool) -> None:
        self.place = address.place
        self._address = address
        self._pool = pool
        self._bounds: tuple[int, int] | None = None

    def bounds(self) -> tuple[int, int]:
        if self._bounds is None:
            ((first, last),) = self._pool.read(lambda connection: connection.run("kept_bounds"))
            self._bounds = first, last
        return self._bounds

    def base(self) -> tuple[int, Fleet]:
        first, _ = self.bounds()
        for snapshot in reversed(snapshots.list_snapshots(self._pool)):
            if snapshot.revision >= first - 1:
                snapshot.check(self.place)
                return snapshot.revision, Fleet.restore(snapshots.read_chunks(self._pool, snapshot, self.place))
        raise DamagedJournal(
            f"{self.place} begins at revision {first}, and has no good snapshot to begin from: restore the database"
            " from a backup; nothing was changed"
        )

    def entries(self) -> Iterator[Entry]:
        expected, last = self.bounds()
        for entry in self._reader().entries(expected - 1, last - expected + 1):
            if entry.revision != expected:
                raise JournalFailed(f"{self.place} has deleted entries while they were read: copy again")
            yield entry
            expected += 1

    def _reader(self) -> EntryReader:
        return EntryReader(self._pool, self.place, ChainPosition(self.place))


class PostgresTarget(PostgresSource):
    """Writes a database, as a node that leads: no other one does meanwhile."""

    def __init__(self, address: DatabaseAddress, pool: ReaderPool) -> None:
        super().__init__(address, pool)
        self._leases = LeaseKeeper(address)
        self._writer = EntryWriter(address)
        self._writer.keeps_times = True
        process = uuid4().hex
        self._report = NodeReport(
            name=f"journal-copy-{process[:8]}", process=process, address="", release=__version__, format=FORMAT
        )
        self._term = 0

    def lead(self) -> None:
        """Take the lease, or renew it."""
        if not self._term:
            self._wait_for_lease()
        state = self._leases.heartbeat(self._report, LONGEST_LEASE)  # within which a batch is appended
        if state.lease.process != self._report.process:
            raise Refused(
                f"node {state.lease.node!r} leads in {self.place}: stop all nodes, wait until its lease has ended,"
                " and copy again; nothing was changed"
            )
        self._term = state.lease.term
        self._writer.begin_term(self._term)
        if not self._writer.is_open:
            self._writer.open()

    def _wait_for_lease(self) -> None:
        """Take a lease that has ended."""
        while not (lease := self._leases.heartbeat(self._report, _FIRST_LEASE).lease).node and lease.remaining > 0:
            sleep(lease.remaining)

    def bounds(self) -> tuple[int, int]:
        self._bounds = None
        return super().bounds()

    def begin(self, first: int) -> None:
        self._run("begin_at", revision=first - 1)

    def append(self, entries: Sequence[Entry]) -> None:
        self.lead()
        with opened(self._address, READ_LIMIT) as connection, translate_errors(self.place):
            times = [entry.at for entry in entries]
            ((clock,),) = connection.run("read_clock")
            # A wrong clock may have recorded any time: those entries go to the default partition.
            create_partitions(connection, max(min(times), clock - _LONGEST_HISTORY), min(max(times), clock))
            ((revision, hash_, *_),) = connection.run("read_head")
        self._writer.append((revision, hash_), entries)

    def store_base(self, revision: int, fleet: Fleet) -> None:
        if any(each.revision == revision for each in snapshots.list_snapshots(self._pool)):
            return
        with opened(self._address, READ_LIMIT) as connection, translate_errors(self.place):
            connection.run("delete_snapshots", kept=[])
            ((hash_,),) = connection.run("read_hash", revision=revision)
            snapshots.write(connection, self._pool, revision, hash_, fleet, self.place)

    def check(self) -> None:
        recover(self._reader(), self._pool, self.place)

    def close(self) -> None:
        self._writer.close()
        if self._term:
            self._leases.release(self._report.name, self._term)
        self._leases.leave(self._report.name, self._report.process)
        self._leases.close()

    def _run(self, name: str, **values: object) -> None:
        with opened(self._address) as connection, translate_errors(self.place):
            connection.run(name, **values)


@contextmanager
def opened_source(address: DatabaseAddress) -> Iterator[PostgresSource]:
    """Yield a database that has a journal."""
    pool = ReaderPool(address)
    try:
        pool.read(lambda connection: check_schema(connection, address.place))
        yield PostgresSource(address, pool)
    finally:
        pool.close()


@contextmanager
def opened_target(address: DatabaseAddress) -> Iterator[PostgresTarget]:
    """Yield a database with an empty journal, or an unfinished copy."""
    pool = ReaderPool(address)
    try:
        pool.read(lambda connection: check_schema(connection, address.place))
        target = PostgresTarget(address, pool)
        try:
            target.lead()
            yield target
        finally:
            target.close()
    finally:
        pool.close()
