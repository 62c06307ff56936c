"""What counts as a journal."""

import pytest

from forewarn.core.errors import BadInput
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import MaintainedJournal, check_journal
from forewarn.journal.sqlite.journal import SqliteJournal


def test_what_lacks_a_method_is_refused_by_name() -> None:
    """Before the service depends on it."""

    class HalfAJournal:
        def load(self) -> None: ...

        append = entries = close = load

    with pytest.raises(BadInput) as refused:
        check_journal("half", HalfAJournal())

    assert str(refused.value) == (
        "journal 'half' made a HalfAJournal, which lacks follow, history: mend it, or name another"
    )


def test_maintenance_is_optional() -> None:
    """The journal in memory has nothing to maintain; that of SQLite has."""
    assert not isinstance(check_journal("memory", MemoryJournal()), MaintainedJournal)
    assert all(hasattr(SqliteJournal, name) for name in ("snapshot_due", "take_snapshot", "compact", "keep_history"))
