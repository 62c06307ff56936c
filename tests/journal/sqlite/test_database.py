"""The journal's file, read while another connection appends."""

from contextlib import closing
from pathlib import Path

from forewarn.journal.sqlite import database
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.testing.journal_contract import hosts


def test_the_first_and_the_last_revision_are_of_one_state(tmp_path: Path) -> None:
    """An append between two statements of a reader cannot give it a last revision without a first."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    statements: list[str] = []

    def append_between_statements(statement: str) -> None:
        statements.append(statement)
        if len(statements) == 2:
            journal.append(0, hosts(1, 3))

    with closing(journal), database.reading(tmp_path / database.NAME) as connection:
        connection.set_trace_callback(append_between_statements)

        assert database.bounds(connection) in {(1, 0), (1, 3)}
