"""The journal in PostgreSQL passes the contract suites."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import cast

import pytest

from forewarn.journal.port import Journal
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connection import Record
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.testing.journal_contract import MaintainedJournalContract
from forewarn.testing.shared_journal_contract import OpenJournal, SharedJournalContract

pytestmark = pytest.mark.end_to_end


def lose_next_append(journal: PostgresJournal, *, is_written: bool) -> None:
    """Let the connection end before the next append reaches the server, or after that has committed it."""
    connection = journal._writer._connection
    assert connection is not None
    if not is_written:
        connection.interrupt()
        return
    run = connection.run

    def run_and_lose(name: str, /, **values: object) -> list[Record]:
        run(name, **values)
        connection.interrupt()
        return run("read_head")

    connection.run = run_and_lose  # type: ignore[method-assign]  # the one of a connection that ends with it


class TestPostgresJournal(SharedJournalContract, MaintainedJournalContract):
    """The rules of journals, and of those that several nodes share."""

    def fail_next_append(self, journal: Journal, *, is_written: bool) -> bool:
        lose_next_append(cast("PostgresJournal", journal), is_written=is_written)
        return True

    @pytest.fixture
    def open_journal(self, database: str) -> Iterator[OpenJournal]:
        with ExitStack() as opened:
            yield lambda: opened.enter_context(closing(PostgresJournal(DatabaseAddress.parse(database))))
