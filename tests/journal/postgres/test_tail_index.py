"""The newest entries are found by whom they concern, before the table of subjects has them and after."""

import pytest

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.testing.journal_contract import hosts
from tests.journal.postgres.journals import execute, leading

pytestmark = pytest.mark.end_to_end


def test_a_snapshot_moves_the_index_into_the_database(database: str) -> None:
    """What is found is the same, for this process and for others, which go on from there."""
    with leading(database) as journal:
        other = PostgresJournal(DatabaseAddress.parse(database))
        other.load()
        journal.append(0, hosts(1, 5))
        assert execute(database, "SELECT count(*) FROM forewarn.subjects") == [(0,)]
        assert journal.history("caller:ada") == other.history("caller:ada") == hosts(1, 5)

        journal.take_snapshot()
        assert execute(database, "SELECT indexed FROM forewarn.cluster") == [(5,)]
        journal.append(5, hosts(6, 8))

        for each in (journal, other):
            assert each.history("caller:ada") == hosts(1, 8)
            assert each.history("caller:ada", limit=4) == hosts(5, 8)
            assert each.history("caller:ada", after=3, before=7) == hosts(4, 6)
            assert each.history("host:host-3") == hosts(3, 3)
            assert each.history("host:host-7") == hosts(7, 7)
        other.close()


def test_other_entries_after_a_failover_are_found(database: str) -> None:
    """What was remembered of those that were lost is forgotten."""
    with leading(database) as journal:
        journal.append(0, hosts(1, 3))
        assert journal.history("host:host-3") == hosts(3, 3)
        execute(database, "DELETE FROM forewarn.entries WHERE revision = 3; DELETE FROM forewarn.commands")
        execute(
            database,
            "UPDATE forewarn.head SET revision = 2, hash = (SELECT hash FROM forewarn.entries WHERE revision = 2)",
        )

        assert journal.history("host:host-3") == []
        assert journal.history("host:host-2") == hosts(2, 2)
