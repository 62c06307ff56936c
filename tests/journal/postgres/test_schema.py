"""The schema is created by a command, and recognised before it is used."""

from zlib import crc32

import pytest

from forewarn.journal.codec import pack
from forewarn.journal.port import NewerJournal, NotAJournal
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.chain import BEGINNING, next_hash
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.journal.postgres.schema import migrate
from forewarn.testing.journal_contract import hosts
from tests.journal.postgres.journals import execute, leading
from tests.postgresql import PostgresServer

pytestmark = pytest.mark.end_to_end


def journal_in(postgresql: PostgresServer, name: str) -> PostgresJournal:
    return PostgresJournal(DatabaseAddress.parse(postgresql.location(name)))


def test_a_database_without_a_journal_is_refused_with_the_command(
    postgresql: PostgresServer, empty_database: str
) -> None:
    """A service does not create tables by itself; after the command it starts."""
    journal = journal_in(postgresql, empty_database)
    with pytest.raises(NotAJournal, match="create it with 'forewarn journal migrate'"):
        journal.load()

    report = migrate(DatabaseAddress.parse(postgresql.location(empty_database)))

    assert (report.before, report.after) == (0, 1)
    assert len(report.partitions) == 4
    assert journal.load().revision == 0
    journal.close()


def test_migrating_again_changes_nothing(postgresql: PostgresServer, empty_database: str) -> None:
    """What is there stays."""
    address = DatabaseAddress.parse(postgresql.location(empty_database))
    migrate(address)
    again = migrate(address)

    assert (again.before, again.after, again.partitions) == (1, 1, ())


@pytest.mark.parametrize(
    "statement", ["CREATE SCHEMA forewarn", "CREATE SCHEMA forewarn CREATE TABLE cluster (x int)"]
)
def test_tables_of_another_program_are_refused(
    postgresql: PostgresServer, empty_database: str, statement: str
) -> None:
    """Nothing of them is changed, neither by the service nor by the command."""
    postgresql.execute(statement, empty_database)

    with pytest.raises(NotAJournal, match="rename that schema, or name another database; nothing was changed"):
        journal_in(postgresql, empty_database).load()
    with pytest.raises(NotAJournal, match="rename that schema"):
        migrate(DatabaseAddress.parse(postgresql.location(empty_database)))


@pytest.mark.parametrize("change", ["usable_from = 99", "fact_format = 99"])
def test_a_newer_journal_is_refused(postgresql: PostgresServer, empty_database: str, change: str) -> None:
    """It names the remedy, and nothing is changed."""
    migrate(DatabaseAddress.parse(postgresql.location(empty_database)))
    postgresql.execute(f"UPDATE forewarn.cluster SET {change}", empty_database)  # noqa: S608 - ours

    with pytest.raises(NewerJournal, match="install that release here; nothing was changed"):
        journal_in(postgresql, empty_database).load()


def test_a_fact_of_a_newer_release_is_refused(database: str) -> None:
    """The entry is whole, and has a fact that this release does not know: the message names an upgrade as remedy."""
    body = pack(hosts(1, 1))[0][2].replace(b"fleet-changed", b"fleet-renamed")
    hash_ = next_hash(BEGINNING, body).hex()
    with leading(database) as journal:
        journal.append(0, hosts(1, 1))
        execute(
            database,
            f"UPDATE forewarn.entries SET checksum = {crc32(body, 1)}, body = '\\x{body.hex()}', hash = '\\x{hash_}'",  # noqa: S608 - ours
        )
        execute(database, f"UPDATE forewarn.head SET hash = '\\x{hash_}'")  # noqa: S608 - ours

        with pytest.raises(NewerJournal, match="install the release that wrote it"):
            journal.load()


def test_a_schema_of_a_later_release_that_this_one_can_use_is_used(
    postgresql: PostgresServer, empty_database: str
) -> None:
    """Nodes of two releases run together while a cluster is upgraded."""
    migrate(DatabaseAddress.parse(postgresql.location(empty_database)))
    postgresql.execute("UPDATE forewarn.cluster SET schema_format = 99", empty_database)
    journal = journal_in(postgresql, empty_database)

    assert journal.load().revision == 0
    journal.close()
