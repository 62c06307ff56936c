"""Journals in a test's database, and what the tests look up in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connection import LimitedConnection, Record
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


def before_query(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Let something happen once, before a query of that name runs."""
    run, waiting = LimitedConnection.run, [act]

    def run_after(self: LimitedConnection, each: str, /, **values: object) -> list[Record]:
        if each == name and waiting:
            waiting.pop()()
        return run(self, each, **values)

    monkeypatch.setattr(LimitedConnection, "run", run_after)


def execute(database: str, statement: str) -> list[tuple[object, ...]]:
    """Run a statement in the database."""
    with psycopg.connect(DatabaseAddress.parse(database).conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
