"""The journal that several nodes share: a schema of PostgreSQL.

    one session appends, one sends heartbeats, one listens, some read

The head, one row, is where all nodes meet: an append and a lease both lock it, so that they come one after another.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

from forewarn.core.facts import AnyFact, Entry
from forewarn.journal.codec import PART_SIZE, check_revisions
from forewarn.journal.port import JournalFailed, Recovered, StaleWriter
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.bulks import COMMAND
from forewarn.journal.postgres.chain import ChainPosition
from forewarn.journal.postgres.connection import READ_LIMIT
from forewarn.journal.postgres.errors import LACKS_RIGHTS, translate_errors
from forewarn.journal.postgres.leases import LeaseKeeper
from forewarn.journal.postgres.listening import AppendListener
from forewarn.journal.postgres.reader_pool import ReaderPool
from forewarn.journal.postgres.reading import EntryReader
from forewarn.journal.postgres.recovery import recover
from forewarn.journal.postgres.retention import delete_old
from forewarn.journal.postgres.schema import check_schema
from forewarn.journal.postgres.sessions import opened
from forewarn.journal.postgres.tail_index import TailIndex
from forewarn.journal.postgres.writing import EntryWriter
from forewarn.journal.shared import ClusterState, NodeReport
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY, SNAPSHOT_BYTES, SNAPSHOT_ENTRIES, SnapshotRunner

_SNAPSHOT_PROCESS = "forewarn.journal.postgres.snapshot_process"


class PostgresJournal:
    """Keeps entries in a database."""

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        history: timedelta = DEFAULT_HISTORY,
        snapshot_entries: int = SNAPSHOT_ENTRIES,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        snapshot_interval: timedelta = timedelta(days=1),
        part_size: int = PART_SIZE,
        read_limit: float = READ_LIMIT,
    ) -> None:
        self._address = address
        self._place = address.place
        self._snapshots = SnapshotRunner(_SNAPSHOT_PROCESS, self._place, history, secret=address.conninfo)
        self._snapshot_entries = snapshot_entries
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_interval = snapshot_interval.total_seconds()
        """A snapshot also makes the partitions of the months to come, and lets old entries be deleted."""
        self._snapshot_at = (0, 0)
        """Where the newest snapshot stands: its revision, and how many bytes were read and appended before it."""
        self._snapshot_time = monotonic()
        self._pool = ReaderPool(address, read_limit)
        self._chain = ChainPosition(self._place)
        self._reader = EntryReader(self._pool, self._place, self._chain)
        self._tail = TailIndex(EntryReader(self._pool, self._place, ChainPosition(self._place)), self._pool)
        self._writer = EntryWriter(address, part_size)
        self._leases = LeaseKeeper(address)
        self._listener = AppendListener(address)

    @property
    def place(self) -> str:
        """Hosts and name of the database."""
        return self._place

    @classmethod
    def from_settings(cls, location: str, directory: Path, history: timedelta) -> "PostgresJournal":
        return cls(DatabaseAddress.parse(location), history=history)

    def load(self) -> Recovered:
        self._open()
        self._tail.forget()
        recovered, _, tail = recover(self._reader, self._pool, self._place)
        self._snapshot_at = (recovered.revision - tail, 0)
        if recovered.warnings:
            self._snapshot_at = (recovered.revision - self._snapshot_entries, 0)  # a damaged one is replaced soon
        ((age,),) = self._pool.read(lambda connection: connection.run("snapshot_age"))
        self._snapshot_time = monotonic() - age
        self._listener.begin(recovered.revision)
        return recovered

    def reopen(self) -> int:
        """Open it again; ``JournalDiverged`` where it does not hold what this process has written or read."""
        self._open()
        for _ in self._reader.stored_entries(self._chain.at[0]):
            pass  # reading them is all: the chain goes on to the last one
        revision, _ = self._chain.at
        self._listener.note(revision)
        return revision

    def _open(self) -> None:
        """Open all sessions anew; other servers may have taken the place of those before."""
        self._pool.close()
        self._pool.read(lambda connection: check_schema(connection, self._place))
        self._writer.open()

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        check_revisions(expected_revision, entries)
        known = self._chain.at
        if self._writer.is_open and expected_revision != known[0]:
            raise StaleWriter(
                f"{self._place} is at revision {known[0]}, not {expected_revision}: load it again before appending"
            )
        revision, hash_, size = self._writer.append(known, entries)
        self._chain.reach(revision, hash_, size)
        self._listener.note(revision)

    def prepare(self, facts: tuple[AnyFact, ...]) -> None:
        self._writer.prepare(facts)

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        return self._reader.entries(after, limit)

    def follow(self, after: int, timeout: float) -> bool:
        if timeout <= 0 or self._listener.revision < after:  # what the listener knows may be older than the caller
            ((revision,),) = self._pool.read(lambda connection: connection.run("last_revision"))
            if revision < after:
                raise self._chain.diverged(after)
            self._listener.note(revision)
            if timeout <= 0:
                return bool(revision > after)
        is_there = self._listener.wait(after, timeout)
        if self._listener.has_fallen:
            raise self._chain.diverged(after)
        return is_there

    def history(
        self,
        subject: str,
        *,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        from_oldest: bool = False,
    ) -> list[Entry]:
        newest = [] if subject.startswith(COMMAND) else self._tail.revisions(subject)
        return self._reader.history(subject, after, before, limit, newest, from_oldest=from_oldest)

    @property
    def snapshot_due(self) -> bool:
        revision, size = self._snapshot_at
        return (
            self._chain.at[0] - revision >= self._snapshot_entries
            or self._chain.size - size >= self._snapshot_bytes
            or (self._chain.at[0] > revision and monotonic() - self._snapshot_time >= self._snapshot_interval)
        )

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        (revision, _), size = self._chain.at, self._chain.size
        self._snapshot_at, self._snapshot_time = (revision, size), monotonic()
        try:
            self._snapshots.run(release=release, now=now)
        except JournalFailed:
            # Tried again after a tenth as many, or as long, not at once.
            self._snapshot_at = (revision - self._snapshot_entries * 9 // 10, size)
            self._snapshot_time -= self._snapshot_interval * 0.9
            raise

    def compact(self, limit: int = 500) -> bool:
        with opened(self._address) as connection, translate_errors(self._place):
            return delete_old(connection, limit)

    def keep_history(self, history: timedelta) -> None:
        self._snapshots.history = history

    def heartbeat(self, report: NodeReport, lease: float) -> ClusterState:
        return self._leases.heartbeat(report, lease)

    def cluster_id(self) -> str:
        with opened(self._address) as connection, translate_errors(self._place):
            if lacking := [name for (name,) in connection.run("lacking_rights")]:
                raise JournalFailed(f"{self._place} {LACKS_RIGHTS} (tables {', '.join(lacking)})")
            ((id_,),) = connection.run("read_cluster_id")
        return str(id_)

    def join(self, fingerprints: Sequence[str]) -> bool:
        with opened(self._address) as connection, translate_errors(self._place):
            return bool(connection.run("join_cluster", fingerprints=list(fingerprints)))

    def begin_term(self, term: int) -> None:
        self._writer.begin_term(term)

    def release_lease(self, node: str, term: int) -> None:
        self._leases.release(node, term)

    def leave(self, name: str, process: str) -> None:
        self._leases.leave(name, process)

    def close(self) -> None:
        self._snapshots.stop()
        self._writer.close()
        self._listener.close()
        self._leases.close()
        self._pool.close()
