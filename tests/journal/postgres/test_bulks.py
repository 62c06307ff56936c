"""Long entries are stored in parts before they are appended, and read like any other."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from forewarn.core.facts import FleetChanged
from forewarn.core.model import Host
from forewarn.journal.port import DamagedJournal, NotWritten, RepeatedCommand
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.testing.journal_contract import assert_same, entry, folded, hosts, request
from tests.journal.postgres.journals import before_query, execute, leading
from tests.journal.postgres.test_retention import compact, snapshot_twice

pytestmark = pytest.mark.end_to_end

FACTS = (FleetChanged(hosts=tuple(Host(f"many-{number}") for number in range(3_000))),)
LONG = entry(2, *FACTS)


@pytest.fixture
def journal(database: str) -> Iterator[PostgresJournal]:
    """Yield a leader's journal of one entry, with small parts."""
    with leading(database, part_size=10_000) as journal:
        journal.append(0, hosts(1, 1))
        yield journal


def test_a_prepared_entry_is_read_like_any_other(journal: PostgresJournal, database: str) -> None:
    """In order, by whom it concerns, and after a load; short ones may be appended meanwhile."""
    journal.prepare(LONG.facts)
    assert list(journal.entries()) == hosts(1, 1)
    assert journal.history("host:many-7") == []
    journal.append(1, [LONG, *hosts(3, 3)])

    ((parts,),) = execute(database, "SELECT count(*) FROM forewarn.bulk_parts")
    assert isinstance(parts, int)
    assert parts > 3
    assert list(journal.entries()) == [*hosts(1, 1), LONG, *hosts(3, 3)]
    assert journal.history("host:many-7") == [LONG]
    assert journal.history("host:many-7", before=2) == journal.history("host:many-7", after=2) == []
    assert journal.history("command:command-2") == [LONG]
    assert journal.history("caller:ada") == [*hosts(1, 1), LONG, *hosts(3, 3)]
    assert_same(journal.load().fleet, folded([*hosts(1, 1), LONG, *hosts(3, 3)]))


def test_what_is_prepared_may_come_later_than_others(journal: PostgresJournal) -> None:
    """Its revision is known with the append only."""
    facts = FACTS
    journal.prepare(facts)
    journal.append(1, hosts(2, 5))
    late = entry(6, *facts)
    journal.append(5, [late])

    assert list(journal.entries(4)) == [*hosts(5, 5), late]
    assert journal.history("host:many-2999") == [late]


@pytest.mark.parametrize("by_subject", [False, True])
def test_an_entry_is_read_whole_although_it_is_deleted_meanwhile(
    journal: PostgresJournal, database: str, monkeypatch: pytest.MonkeyPatch, *, by_subject: bool
) -> None:
    """Its row and its parts are of one state; else it would be taken for damaged."""
    journal.prepare(LONG.facts)
    journal.append(1, [LONG])
    assert journal.history("host:many-7") == [LONG]  # from now on it knows whom the newest entries concern
    delete = "DELETE FROM forewarn.bulk_parts; DELETE FROM forewarn.entries WHERE revision <= 2"
    before_query(monkeypatch, "read_parts", lambda: execute(database, delete))

    found = journal.history("host:many-7") if by_subject else list(journal.entries(1))

    assert found == [LONG]
    assert execute(database, "SELECT count(*) FROM forewarn.entries") == [(0,)]


def test_short_facts_are_not_stored_beforehand(journal: PostgresJournal, database: str) -> None:
    """They are encoded only."""
    short = hosts(2, 2)
    journal.prepare(short[0].facts)
    journal.append(1, short)

    assert execute(database, "SELECT count(*) FROM forewarn.bulks") == [(0,)]
    assert list(journal.entries(1)) == short


def test_an_opened_journal_knows_nothing_of_what_was_prepared(database: str) -> None:
    """The entry, which is shorter than two parts, is appended whole; what was stored is deleted a day later."""
    with leading(database, part_size=40_000) as journal:
        journal.append(0, hosts(1, 1))
        journal.prepare(LONG.facts)
        journal.reopen()
        journal.append(1, [LONG])
        assert journal.history("host:many-7") == [LONG]
        assert execute(database, "SELECT count(*) FROM forewarn.bulks") == [(1,)]

        execute(database, "UPDATE forewarn.bulks SET begun_at = begun_at - interval '2 days'")
        journal.take_snapshot()
        assert execute(database, "SELECT count(*) FROM forewarn.bulks") == [(0,)]
        assert execute(database, "SELECT count(*) FROM forewarn.bulk_parts") == [(0,)]
        assert execute(database, "SELECT count(*) FROM forewarn.subjects WHERE revision < 0") == [(0,)]
        assert journal.history("host:many-7") == [LONG]


def test_a_long_entry_that_nobody_prepared_is_stored_in_parts_too(journal: PostgresJournal, database: str) -> None:
    """However it comes, no row is too long."""
    journal.append(1, [LONG])

    assert execute(database, "SELECT count(*) FROM forewarn.bulks") == [(1,)]
    assert list(journal.entries(1)) == [LONG]
    assert journal.history("host:many-7") == [LONG]


def test_an_append_that_is_refused_can_be_repeated_with_what_was_prepared(journal: PostgresJournal) -> None:
    """The last part, which has the entry's own end, is replaced."""
    journal.append(1, [request(2, "key")])
    facts = FACTS
    journal.prepare(facts)
    late = entry(3, *facts)
    with pytest.raises(RepeatedCommand):
        journal.append(2, [late, request(4, "key")])
    journal.append(2, [late, request(4, "other key")])

    assert list(journal.entries(2)) == [late, request(4, "other key")]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM forewarn.bulk_parts WHERE part = 2",
        "UPDATE forewarn.bulk_parts SET content = overlay(content PLACING 'x' FROM 3) WHERE part = 2",
    ],
)
def test_a_damaged_part_is_noticed(journal: PostgresJournal, database: str, damage: str) -> None:
    """The entry is refused, and the remedy named."""
    journal.prepare(LONG.facts)
    journal.append(1, [LONG])
    execute(database, damage)

    with pytest.raises(DamagedJournal, match="damaged at revision 2: restore the database from a backup"):
        journal.load()


def test_parts_go_with_their_entry(journal: PostgresJournal, database: str) -> None:
    """What retention deletes leaves nothing behind."""
    journal.prepare(LONG.facts)
    journal.append(1, [LONG, *hosts(3, 3)])
    execute(
        database,
        "CREATE TABLE forewarn.entries_2020_01 PARTITION OF forewarn.entries"
        " FOR VALUES FROM ('2020-01-01') TO ('2020-02-01')",
    )
    execute(database, "UPDATE forewarn.entries SET recorded_at = '2020-01-05' WHERE revision <= 2")
    snapshot_twice(journal, timedelta(0))
    compact(journal)

    assert list(journal.entries()) == hosts(3, 4)
    assert execute(database, "SELECT count(*) FROM forewarn.bulks") == [(0,)]
    assert execute(database, "SELECT count(*) FROM forewarn.bulk_parts") == [(0,)]
    assert execute(database, "SELECT count(*) FROM forewarn.subjects WHERE revision < 0") == [(0,)]
    assert_same(journal.load().fleet, folded([*hosts(1, 1), LONG, *hosts(3, 4)]))


def test_preparing_without_a_database_is_refused(journal: PostgresJournal, database: str) -> None:
    """Nothing was written, and the journal is opened again."""
    execute(database, "ALTER TABLE forewarn.bulk_parts RENAME TO elsewhere")
    with pytest.raises(NotWritten):
        journal.prepare(LONG.facts)
    execute(database, "ALTER TABLE forewarn.elsewhere RENAME TO bulk_parts")
    journal.append(1, [LONG])
