"""Snapshots in the database: two good ones are kept, and one that cannot be trusted is passed by."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from time import monotonic

import psycopg
import pytest

from forewarn.journal.port import DamagedJournal, JournalFailed, NewerJournal
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.journal.postgres.snapshot_process import take_snapshot
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY, SnapshotResult
from forewarn.testing.journal_contract import assert_same, folded, hosts
from tests.journal.postgres.journals import execute, leading

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def journal(database: str) -> Iterator[PostgresJournal]:
    """Yield a leader's journal of nine entries."""
    with leading(database) as journal:
        journal.append(0, hosts(1, 9))
        yield journal


def take(database: str, history: timedelta | None = DEFAULT_HISTORY) -> SnapshotResult:
    return take_snapshot(DatabaseAddress.parse(database), history)


def is_due(journal: PostgresJournal) -> bool:
    return journal.snapshot_due


def kept(database: str) -> list[object]:
    return [revision for (revision,) in execute(database, "SELECT revision FROM forewarn.snapshots ORDER BY 1")]


def test_a_journal_is_loaded_from_its_snapshot(journal: PostgresJournal, database: str) -> None:
    """Entries before it are not read."""
    assert take(database) == SnapshotResult(revision=9, released=0)
    execute(database, "UPDATE forewarn.entries SET body = 'damaged' WHERE revision < 9")
    journal.append(9, hosts(10, 11))

    recovered = journal.load()

    assert (recovered.revision, recovered.warnings) == (11, ())
    assert_same(recovered.fleet, folded(hosts(1, 11)))


def test_the_newest_two_are_kept(journal: PostgresJournal, database: str) -> None:
    """A third snapshot replaces the oldest; one at the same revision replaces nothing."""
    take(database)
    for revision in (10, 11):
        journal.append(revision - 1, hosts(revision, revision))
        take(database)
    assert kept(database) == [10, 11]

    assert take(database).revision == 11
    assert kept(database) == [10, 11]


def test_an_empty_journal_gets_no_snapshot(database: str) -> None:
    """There is nothing to fold before the first entry."""
    assert take(database) == SnapshotResult(0, 0)
    assert kept(database) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE forewarn.snapshot_chunks SET content = 'damaged' WHERE revision = 9",
        "UPDATE forewarn.snapshot_chunks SET checksum = checksum + 1 WHERE revision = 9",
        "DELETE FROM forewarn.snapshot_chunks WHERE revision = 9",
        "UPDATE forewarn.snapshots SET hash = 'of another journal' WHERE revision = 9",
    ],
)
def test_a_snapshot_that_cannot_be_trusted_is_passed_by_and_replaced(
    journal: PostgresJournal, database: str, damage: str
) -> None:
    """The fleet is right nevertheless, a warning says so, and the next snapshot is due."""
    take(database)
    execute(database, damage)

    recovered = journal.load()
    assert_same(recovered.fleet, folded(hosts(1, 9)))
    assert "the next one replaces it" in recovered.warnings[0]
    assert journal.snapshot_due

    assert take(database) == SnapshotResult(revision=9, released=0)
    assert journal.load().warnings == ()


@pytest.mark.usefixtures("journal")
def test_no_snapshot_is_taken_that_a_node_of_the_cluster_cannot_read(database: str) -> None:
    """While the format of the cluster is that of an older release; the next one comes when it has risen."""
    execute(database, "UPDATE forewarn.cluster SET fact_format = fact_format - 1")
    assert take(database) == SnapshotResult(0, 0)
    assert kept(database) == []
    execute(database, "UPDATE forewarn.cluster SET fact_format = fact_format + 1")

    assert take(database).revision == 9
    assert kept(database) == [9]


def test_a_snapshot_of_a_newer_release_is_passed_by(journal: PostgresJournal, database: str) -> None:
    """Where an older one or all entries are there; it is left to the release that wrote it."""
    take(database)
    execute(database, "UPDATE forewarn.snapshots SET fact_format = fact_format + 1")
    recovered = journal.load()
    assert (recovered.revision, recovered.warnings) == (9, ())
    assert_same(recovered.fleet, folded(hosts(1, 9)))

    journal.append(9, hosts(10, 10))
    take(database)
    assert kept(database) == [9, 10]
    execute(database, "DELETE FROM forewarn.entries WHERE revision < 10")
    assert journal.load().revision == 10
    execute(database, "UPDATE forewarn.snapshots SET fact_format = fact_format + 1")
    with pytest.raises(NewerJournal, match="install the release that wrote it"):
        journal.load()


def test_an_unfinished_snapshot_counts_for_nothing(journal: PostgresJournal, database: str) -> None:
    """One that was cut off is replaced by the next."""
    execute(database, "INSERT INTO forewarn.snapshots (revision, hash, fact_format) VALUES (9, '', 1)")

    assert journal.load().warnings == ()
    assert take(database).revision == 9
    assert kept(database) == [9]


def test_without_a_snapshot_deleted_entries_are_missed(journal: PostgresJournal, database: str) -> None:
    """A journal that has lost its beginning is refused."""
    execute(database, "DELETE FROM forewarn.entries WHERE revision < 3")

    with pytest.raises(DamagedJournal, match="begins at revision 3, and has no good snapshot"):
        journal.load()


def test_one_process_at_a_time_takes_snapshots(journal: PostgresJournal, database: str) -> None:
    """A second one is told so; the journal tries again later."""
    with psycopg.connect(DatabaseAddress.parse(database).conninfo) as other:
        other.execute("SELECT pg_advisory_lock(hashtext('forewarn snapshots'))")
        with pytest.raises(JournalFailed, match="another process takes a snapshot"):
            journal.take_snapshot()


def test_a_snapshot_is_due_after_so_many_entries_or_bytes(database: str) -> None:
    """Those count that were read from another leader, too."""
    with leading(database, snapshot_entries=5, snapshot_bytes=10_000) as journal:
        journal.append(0, hosts(1, 4))
        follower = PostgresJournal(DatabaseAddress.parse(database), snapshot_entries=5)
        follower.load()
        assert not is_due(journal)
        journal.append(4, hosts(5, 5))
        assert is_due(journal)
        assert list(follower.entries(4)) == hosts(5, 5)
        assert is_due(follower)
        follower.close()

        journal.take_snapshot()
        assert not is_due(journal)
        journal.append(5, hosts(6, 6))
        assert not is_due(journal)
        for revision in range(6, 30):
            journal.append(revision, hosts(revision + 1, revision + 1))
        assert is_due(journal)


def test_a_snapshot_is_due_a_day_after_the_last_if_anything_was_appended(
    journal: PostgresJournal, database: str
) -> None:
    """Months get their partitions, and old entries are deleted, also where little happens and nodes are restarted."""
    journal.load()
    assert not is_due(journal)
    execute(database, "UPDATE forewarn.entries SET recorded_at = recorded_at - interval '1 day'")
    journal.load()
    assert is_due(journal)

    journal.take_snapshot()
    assert not is_due(journal)
    execute(database, "UPDATE forewarn.snapshots SET taken_at = taken_at - interval '1 day'")
    journal.load()
    assert not is_due(journal)
    journal.append(9, hosts(10, 10))
    assert is_due(journal)


def test_a_snapshot_is_due_after_a_day_in_one_process(database: str) -> None:
    """It counts from the last one that this process had taken."""
    with leading(database, snapshot_interval=timedelta(seconds=1)) as journal:
        journal.append(0, hosts(1, 1))
        until(lambda: is_due(journal))
        journal.take_snapshot()
        journal.append(1, hosts(2, 2))
        assert not is_due(journal)
        until(lambda: is_due(journal))


def until(is_so: Callable[[], bool]) -> None:
    end = monotonic() + 30
    while not is_so():
        assert monotonic() < end
