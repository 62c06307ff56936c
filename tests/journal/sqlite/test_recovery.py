"""The way from the directory to the fleet: always the right one, or none."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.core.fact import FORMAT
from forewarn.core.facts import Entry, FleetChanged, VmStarted
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host
from forewarn.journal.port import DamagedJournal, NewerJournal, Recovered
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import database, snapshot_files
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.recovery import recover
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.testing.journal_contract import assert_same, entry, folded, hosts


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with snapshots at 10 and 20, and 25 entries."""
    journal = SqliteJournal(tmp_path / "data")
    journal.load()
    for after, last in ((0, 10), (10, 20), (20, 25)):
        journal.append(after, hosts(after + 1, last))
        if last <= 20:
            take_snapshot(tmp_path / "data", DEFAULT_HISTORY)
    journal.close()
    return tmp_path / "data"


def recovered(directory: Path) -> Recovered:
    with database.reading(directory / database.NAME) as connection:
        found = recover(connection, directory)
    assert found.revision == 25
    assert_same(found.fleet, folded(hosts(1, 25)))
    return found


def test_the_newest_snapshot_is_the_beginning(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the entries after it are folded."""
    entered: list[Entry] = []
    monkeypatch.setattr(Fleet, "enter", lambda _, each: entered.append(each))

    with database.reading(directory / database.NAME) as connection:
        recover(connection, directory)

    assert entered == hosts(21, 25)


def test_a_damaged_snapshot_gives_way_to_the_older_one(directory: Path) -> None:
    """The fleet is the same, and the damage is told."""
    (directory / "snapshot-20").write_bytes(b"damaged")

    (warning,) = recovered(directory).warnings

    assert "snapshot-20 is damaged: delete it" in warning


def test_without_any_good_snapshot_all_entries_are_folded(directory: Path) -> None:
    """As long as the first entry is there, nothing is lost."""
    for _, path in snapshot_files.list_snapshots(directory):
        path.write_bytes(path.read_bytes()[:-5])

    assert len(recovered(directory).warnings) == 2


def test_a_snapshot_of_another_journal_is_passed_by(directory: Path, tmp_path: Path) -> None:
    """A snapshot must have been made from the entry that stands at its revision here."""
    other = SqliteJournal(tmp_path / "other")
    other.load()
    other.append(0, [entry(n, FleetChanged(hosts=(Host(f"other-{n}"),))) for n in range(1, 21)])
    other.close()
    take_snapshot(tmp_path / "other", DEFAULT_HISTORY)
    shutil.copy(tmp_path / "other" / "snapshot-20", directory / "snapshot-20")

    (warning,) = recovered(directory).warnings

    assert "snapshot-20 was not made from the journal beside it" in warning


def test_a_snapshot_under_another_name_is_passed_by(directory: Path) -> None:
    """The revision inside counts, and must be the one outside."""
    shutil.copy(directory / "snapshot-10", directory / "snapshot-15")
    (directory / "snapshot-20").unlink()

    assert len(recovered(directory).warnings) == 1


def test_a_newer_snapshot_format_is_refused(directory: Path) -> None:
    """It is not passed by: the journal beside it may hold what only the newer release understands."""
    header = snapshot_files.SnapshotHeader(FORMAT + 1, 25, 0)
    snapshot_files.publish(snapshot_files.write(directory, header, Fleet().parts()))

    with pytest.raises(NewerJournal), database.reading(directory / database.NAME) as connection:
        recover(connection, directory)


@pytest.mark.end_to_end
def test_a_lost_beginning_without_a_snapshot_is_refused(directory: Path) -> None:
    """After compaction the older of two snapshots is as far back as one can begin."""
    journal = SqliteJournal(directory, history=timedelta(0))
    journal.load()
    journal.take_snapshot()
    while journal.compact():
        pass
    journal.close()
    recovered(directory)
    for _, path in snapshot_files.list_snapshots(directory):
        path.write_bytes(b"damaged")

    with (
        pytest.raises(DamagedJournal, match="begins at revision 20"),
        database.reading(directory / database.NAME) as connection,
    ):
        recover(connection, directory)


def test_facts_that_do_not_follow_are_refused(tmp_path: Path) -> None:
    """A journal that speaks of a VM nobody declared cannot be folded, and says where."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    journal.append(0, [*hosts(1, 2), entry(3, VmStarted("nobody"))])

    with pytest.raises(DamagedJournal, match="revision 3"):
        journal.load()
