"""Journals in a test's database, and what the tests look up in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.testing.shared_journal_contract import lead


@contextmanager
def leading(database: str, **options: Any) -> Iterator[PostgresJournal]:
    """Yield a loaded journal that holds the lease."""
    journal = PostgresJournal(DatabaseAddress.parse(database), **options)
    try:
        journal.load()
        lead(journal)
        yield journal
    finally:
        journal.close()


def execute(database: str, statement: str) -> list[tuple[object, ...]]:
    """Run a statement in the database."""
    with psycopg.connect(DatabaseAddress.parse(database).conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
