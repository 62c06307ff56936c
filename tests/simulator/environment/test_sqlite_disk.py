"""The real journal of a simulation: every commit is looked for in a copy of its files."""

from pathlib import Path
from random import Random

import pytest

from forewarn.journal.port import AppendUnknown, NotWritten
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.simulator.environment.journal import AppendFault
from forewarn.simulator.environment.sqlite_disk import SqliteDisk
from forewarn.testing.journal_contract import hosts, rack


@pytest.fixture
def disk(tmp_path: Path) -> SqliteDisk:
    return SqliteDisk(tmp_path, Random(1))


@pytest.mark.end_to_end
def test_what_was_appended_is_in_every_copy(disk: SqliteDisk) -> None:
    """Also where the log is cut off within the last transaction: then all of it is missing."""
    journal = disk.open()
    journal.load()
    for revision in range(20):
        journal.append(revision, hosts(revision + 1, revision + 1))
    disk.close()

    assert disk.wrong == []


def test_a_copy_without_it_is_reported(disk: SqliteDisk) -> None:
    """Else a journal that forgets would not be noticed."""
    journal = disk.open()
    journal.load()
    disk.append(0, hosts(1, 1), lambda: None)
    disk.close()

    assert disk.wrong == ["a copy of the journal holds revision 0, not [1]"]


def test_a_killed_process_leaves_what_was_durable(disk: SqliteDisk) -> None:
    """The next one opens a copy, and continues after the last commit."""
    first = disk.open()
    first.load()
    first.append(0, hosts(1, 3))
    second = disk.open()

    assert second.load().revision == 3
    disk.close()


@pytest.mark.parametrize(("fault", "revision"), [(AppendFault.UNKNOWN_WRITTEN, 1), (AppendFault.UNKNOWN_LOST, 0)])
def test_after_a_lost_answer_nothing_is_taken_before_it_is_opened_again(
    disk: SqliteDisk, fault: AppendFault, revision: int
) -> None:
    """Opening it tells what became of the append."""
    journal = disk.open()
    journal.load()
    disk.next_faults.append(fault)
    with pytest.raises(AppendUnknown):
        journal.append(0, hosts(1, 1))
    with pytest.raises(NotWritten):
        journal.append(revision, hosts(revision + 1, revision + 1))

    assert journal.reopen() == revision
    disk.close()


def test_a_process_that_is_killed_while_it_appends_leaves_a_part_of_it(disk: SqliteDisk) -> None:
    """The next one finds all of the entries, or none, and continues."""
    killed: list[int] = []
    disk.on_crash = lambda: killed.append(1)
    revision = 0
    found: set[int] = set()
    for _ in range(12):
        journal = disk.open()
        loaded = journal.load().revision
        found.add(loaded - revision)
        revision = loaded
        disk.next_faults.append(AppendFault.CRASH_TORN)
        journal.append(revision, hosts(revision + 1, revision + 1))
    disk.close()

    assert disk.wrong == []
    assert len(killed) == 12
    assert found <= {0, 1}
    assert 0 in found


def test_another_fleet_than_was_appended_is_reported(disk: SqliteDisk) -> None:
    """Else a journal that loads the right revision with wrong facts would not be noticed."""
    journal = disk.open()
    journal.load()
    disk.append(0, hosts(1, 1), lambda: SqliteJournal.append(journal, 0, [rack(1)]))
    disk.close()

    assert "a copy of the journal makes another fleet of revision 1 than was appended" in disk.wrong
