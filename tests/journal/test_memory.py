"""The memory journal keeps the contract."""

import pytest

from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Journal
from forewarn.testing.journal_contract import JournalContract


class TestMemoryJournal(JournalContract):
    """The published contract, on memory."""

    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()
