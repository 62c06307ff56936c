"""Old entries go by the month, below a verified snapshot, and nothing else goes."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.testing.calls import begin, in_time
from forewarn.testing.journal_contract import NOON, assert_same, folded, hosts
from tests.journal.postgres.journals import before_query, execute, leading

pytestmark = pytest.mark.end_to_end

LATER = NOON + timedelta(days=1_000)


@pytest.fixture
def journal(database: str) -> Iterator[PostgresJournal]:
    """Yield a leader's journal of nine entries, of which the first six were recorded in two months long ago."""
    with leading(database) as journal:
        for month in ("2020-01", "2020-02"):
            execute(
                database,
                f"CREATE TABLE forewarn.entries_{month.replace('-', '_')} PARTITION OF forewarn.entries"
                f" FOR VALUES FROM ('{month}-01') TO ('{month}-28')",
            )
        journal.append(0, hosts(1, 9))
        execute(database, "UPDATE forewarn.entries SET recorded_at = '2020-01-05' WHERE revision <= 3")
        execute(database, "UPDATE forewarn.entries SET recorded_at = '2020-02-05' WHERE revision BETWEEN 4 AND 6")
        yield journal


def snapshot_twice(journal: PostgresJournal, history: timedelta, *, release: bool = True) -> None:
    """Take the two snapshots without which nothing is deleted, with an entry between them."""
    journal.keep_history(history)
    journal.take_snapshot(now=LATER)
    last = journal.reopen()
    journal.append(last, hosts(last + 1, last + 1))
    journal.take_snapshot(now=LATER, release=release)


def compact(journal: PostgresJournal) -> None:
    while journal.compact():
        pass


def partitions(database: str) -> set[object]:
    return {
        name
        for (name,) in execute(database, "SELECT relid::regclass::text FROM pg_partition_tree('forewarn.entries')")
    }


def test_months_of_which_all_entries_are_old_are_dropped(journal: PostgresJournal, database: str) -> None:
    """The rest stays, the fleet is the same, and appending goes on."""
    snapshot_twice(journal, timedelta(0))
    compact(journal)

    assert not {"forewarn.entries_2020_01", "forewarn.entries_2020_02"} & partitions(database)
    assert list(journal.entries()) == hosts(7, 10)
    assert journal.history("host:host-3") == []
    assert journal.history("command:command-3") == []
    recovered = journal.load()
    assert (recovered.revision, recovered.warnings) == (10, ())
    assert_same(recovered.fleet, folded(hosts(1, 10)))
    journal.append(10, hosts(11, 11))
    assert journal.load().revision == 11


def test_entries_within_the_history_are_kept(journal: PostgresJournal) -> None:
    """It goes by the time in the entry, not by when it was recorded here."""
    snapshot_twice(journal, LATER - NOON)
    compact(journal)

    assert list(journal.entries()) == hosts(1, 10)
    assert journal.history("host:host-3") == hosts(3, 3)


def test_nothing_is_deleted_without_leave(journal: PostgresJournal) -> None:
    """After a step of the clock, snapshots are taken and nothing is released."""
    snapshot_twice(journal, timedelta(0), release=False)
    compact(journal)

    assert list(journal.entries()) == hosts(1, 10)


def test_nothing_is_deleted_above_the_older_snapshot(journal: PostgresJournal) -> None:
    """One snapshot alone releases nothing."""
    journal.keep_history(timedelta(0))
    journal.take_snapshot(now=LATER)
    compact(journal)

    assert list(journal.entries()) == hosts(1, 9)


def test_a_month_with_an_entry_that_is_kept_stays(journal: PostgresJournal, database: str) -> None:
    """A month goes whole or not at all."""
    journal.keep_history(LATER - NOON - timedelta(seconds=5))
    snapshot_twice(journal, LATER - NOON - timedelta(seconds=5))
    compact(journal)

    assert "forewarn.entries_2020_02" in partitions(database)
    assert list(journal.entries()) == hosts(4, 10)


def test_entries_that_no_month_took_go_one_by_one(journal: PostgresJournal, database: str) -> None:
    """The default partition has them where nobody made partitions in time."""
    execute(database, "UPDATE forewarn.entries SET recorded_at = '1990-01-01' WHERE revision <= 8")
    assert execute(database, "SELECT count(*) FROM forewarn.entries_default") == [(8,)]
    snapshot_twice(journal, timedelta(0))
    compact(journal)

    assert execute(database, "SELECT count(*) FROM forewarn.entries_default") == [(0,)]
    assert list(journal.entries()) == hosts(9, 10)
    assert_same(journal.load().fleet, folded(hosts(1, 10)))


def test_a_reader_of_old_entries_delays_the_deletion_and_nobody_else(journal: PostgresJournal, database: str) -> None:
    """The partition stays until the next time; appends go on."""
    snapshot_twice(journal, timedelta(0))
    with psycopg.connect(DatabaseAddress.parse(database).conninfo) as reader:
        reader.execute("SELECT count(*) FROM forewarn.entries")
        assert not journal.compact()
        journal.append(10, hosts(11, 11))
    compact(journal)

    assert list(journal.entries()) == hosts(7, 11)


def test_a_month_that_gets_an_entry_at_the_last_moment_stays(
    journal: PostgresJournal, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was set back after the month was looked at."""
    snapshot_twice(journal, timedelta(0))
    append = "UPDATE forewarn.entries SET recorded_at = '2020-01-06' WHERE revision = 10"
    before_query(monkeypatch, "delete_bulks", lambda: execute(database, append))
    assert not journal.compact()

    assert "forewarn.entries_2020_01" in partitions(database)
    assert list(journal.entries(9)) == hosts(10, 10)


@pytest.mark.parametrize(
    ("second", "released"),
    [("2099-02-05", 9), ("1990-01-01", 9), ("1990-01-01", 5), ("2020-02-05", 9)],
    ids=["in a month to come", "in no month", "in no month, some of them", "in a month that has ended"],
)
def test_entries_that_another_clock_recorded_leave_no_gap(
    journal: PostgresJournal, database: str, second: str, released: int
) -> None:
    """Entries of one month stand before and after those that were recorded while the clock was wrong."""
    execute(
        database,
        "CREATE TABLE forewarn.entries_2099_02 PARTITION OF forewarn.entries"
        " FOR VALUES FROM ('2099-02-01') TO ('2099-03-01')",
    )
    execute(database, "UPDATE forewarn.entries SET recorded_at = '2020-01-05' WHERE revision <= 9")
    execute(database, f"UPDATE forewarn.entries SET recorded_at = '{second}' WHERE revision BETWEEN 4 AND 6")  # noqa: S608 - a time of this test
    snapshot_twice(journal, timedelta(0))
    execute(database, f"UPDATE forewarn.cluster SET released = {released}")  # noqa: S608 - a number of this test

    def kept() -> list[int]:
        return [entry.revision for entry in journal.entries()]

    while journal.compact(limit=2):
        assert kept() == list(range(kept()[0], 11))
    assert kept() == (list(range(1, 11)) if released == 5 else [10])
    assert_same(journal.load().fleet, folded(hosts(1, 10)))


def test_a_journal_is_loaded_while_its_old_entries_are_deleted(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of snapshots and the entries, snapshots are taken that the deletion goes by."""

    def delete() -> None:
        snapshot_twice(journal, timedelta(0))
        compact(journal)

    before_query(monkeypatch, "first_revision", delete)
    other = PostgresJournal(journal._address)
    recovered = other.load()
    other.close()

    assert recovered.revision == 10
    assert_same(recovered.fleet, folded(hosts(1, 10)))


def test_a_partition_that_cannot_be_made_now_is_made_later(journal: PostgresJournal, database: str) -> None:
    """Another session reads the entries for long, and appends must not wait behind this one."""
    newest = max(map(str, partitions(database) - {"forewarn.entries_default"}))
    execute(database, f"DROP TABLE {newest}")
    with psycopg.connect(DatabaseAddress.parse(database).conninfo) as reader:
        reader.execute("SELECT count(*) FROM forewarn.entries")
        in_time("snapshot", 25, begin(journal.take_snapshot))
    assert newest not in partitions(database)

    journal.take_snapshot()
    assert newest in partitions(database)


def test_partitions_are_made_ahead(journal: PostgresJournal, database: str) -> None:
    """Each snapshot sees to it that the months to come have theirs."""
    before = partitions(database)
    (newest,) = (
        name
        for name in before
        if isinstance(name, str) and name == max(map(str, before - {"forewarn.entries_default"}))
    )
    execute(database, f"DROP TABLE {newest}")
    journal.take_snapshot()

    assert newest in partitions(database)


def test_a_month_that_begins_without_a_partition_goes_to_the_default(journal: PostgresJournal, database: str) -> None:
    """Appends never fail for want of one; its partition is not made any more, and all entries are read."""
    (current,) = execute(database, "SELECT tableoid::regclass::text FROM forewarn.entries WHERE revision = 9")[0]
    execute(database, f"ALTER TABLE forewarn.entries DETACH PARTITION {current}; DROP TABLE {current}")
    execute(
        database,
        "UPDATE forewarn.head SET revision = 6, hash = (SELECT hash FROM forewarn.entries WHERE revision = 6)",
    )
    journal.load()
    execute(
        database, "DELETE FROM forewarn.commands WHERE revision > 6; DELETE FROM forewarn.subjects WHERE revision > 6"
    )
    journal.append(6, hosts(7, 8))
    journal.take_snapshot()

    assert current not in partitions(database)
    assert execute(database, "SELECT count(*) FROM forewarn.entries_default") == [(2,)]
    assert list(journal.entries()) == hosts(1, 8)
