"""The SQLite journal keeps the contract, and its own promises beyond it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.journal.port import Journal
from forewarn.journal.sqlite import SqliteJournal
from forewarn.testing.journal_contract import JournalContract


class TestSqliteJournal(JournalContract):
    """The published contract, on a directory."""

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        journal = SqliteJournal(tmp_path / "data")
        yield journal
        journal.close()
