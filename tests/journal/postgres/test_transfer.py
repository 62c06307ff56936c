"""Journals are copied from a directory into a database, and back."""

from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.core.errors import Refused
from forewarn.core.facts import Entry
from forewarn.journal.port import JournalFailed
from forewarn.journal.postgres import transfer as transfers
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.leases import LeaseKeeper
from forewarn.journal.postgres.transfer import opened_source, opened_target
from forewarn.journal.shared import SharedJournal
from forewarn.journal.sqlite import transfer as directories
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.transfer import transfer
from forewarn.testing.journal_contract import NOON, assert_same, folded, hosts, rack, request
from forewarn.testing.shared_journal_contract import LONG, report
from tests.journal.postgres.journals import execute, leading

pytestmark = pytest.mark.end_to_end

ENTRIES: list[Entry] = [rack(1), *hosts(2, 30), request(31, "key"), *hosts(32, 40)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with a journal of forty entries."""
    journal = SqliteJournal(tmp_path / "source", history=timedelta(0))
    journal.load()
    journal.append(0, ENTRIES)
    journal.close()
    return tmp_path / "source"


@pytest.fixture
def address(database: str) -> DatabaseAddress:
    """Return the address of an empty journal."""
    return DatabaseAddress.parse(database)


def test_a_directory_is_copied_into_a_database_and_back(
    directory: Path, address: DatabaseAddress, database: str, tmp_path: Path
) -> None:
    """Entries, history and fleet are the same; each entry is in the partition of its own month."""
    with directories.opened_source(directory) as source, opened_target(address) as target:
        assert transfer(source, target).copied == 40
    with leading(database) as journal:
        assert list(journal.entries()) == ENTRIES
        assert journal.history("command:key") == [request(31, "key")]
        assert_same(journal.load().fleet, folded(ENTRIES))
        assert execute(database, "SELECT count(*) FROM forewarn.entries_2026_03") == [(40,)]
        journal.append(40, hosts(41, 41))

    with opened_source(address) as source, directories.opened_target(tmp_path / "back") as back:
        assert transfer(source, back).last_revision == 41
    again = SqliteJournal(tmp_path / "back")
    again.load()
    assert list(again.entries()) == [*ENTRIES, *hosts(41, 41)]
    again.close()


def test_a_copy_goes_on_where_it_ended(directory: Path, address: DatabaseAddress) -> None:
    """What is there is compared, and passed by."""
    with opened_target(address) as target:
        target.append(ENTRIES[:7])
    with directories.opened_source(directory) as source, opened_target(address) as target:
        assert transfer(source, target).copied == 33
        assert transfer(source, target).copied == 0


def test_a_journal_without_its_first_entries_is_copied_with_a_snapshot(
    directory: Path, address: DatabaseAddress, database: str, tmp_path: Path
) -> None:
    """Into a database and back; a copy that was cut off before the snapshot goes on."""
    journal = SqliteJournal(directory, history=timedelta(0))
    journal.load()
    journal.take_snapshot(now=NOON + timedelta(days=1))
    journal.append(40, hosts(41, 42))
    journal.take_snapshot(now=NOON + timedelta(days=1))
    while journal.compact():
        pass
    kept = list(journal.entries())
    fleet = journal.load().fleet
    journal.close()

    with directories.opened_source(directory) as source, opened_target(address) as target:
        target.begin(kept[0].revision)
        target.append(kept[:1])
    with directories.opened_source(directory) as source, opened_target(address) as target:
        report = transfer(source, target)
    assert (report.first_revision, report.last_revision) == (kept[0].revision, 42)
    with leading(database) as copied:
        assert_same(copied.load().fleet, fleet)
        assert list(copied.entries()) == kept
        copied.append(42, hosts(43, 43))
    with opened_source(address) as source, directories.opened_target(tmp_path / "back") as back:
        transfer(source, back)


def test_entries_that_are_deleted_while_they_are_copied_are_missed(
    database: str, address: DatabaseAddress, tmp_path: Path
) -> None:
    """The bounds are those of one moment: a copy with a gap, or with more than was meant, is not made."""
    with leading(database) as journal:
        journal.append(0, ENTRIES)
    with opened_source(address) as source:
        assert source.bounds() == (1, 40)
        execute(database, "DELETE FROM forewarn.entries WHERE revision <= 5")
        assert source.bounds() == (1, 40)
        refused = pytest.raises(JournalFailed, match="has deleted entries while they were read: copy again")
        with directories.opened_target(tmp_path / "back") as back, refused:
            transfer(source, back)


def release(journal: SharedJournal) -> None:
    """Let another node lead at once."""
    journal.release_lease("one", journal.heartbeat(report("one"), LONG).lease.term)


def test_a_copy_that_was_killed_is_made_again(
    directory: Path, address: DatabaseAddress, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease has no other holder: the next copy waits until no node can have renewed it."""
    monkeypatch.setattr(transfers, "_FIRST_LEASE", 0.3)
    with monkeypatch.context() as killed:
        killed.setattr(LeaseKeeper, "release", lambda *_: None)
        with opened_target(address) as target:
            target.append(ENTRIES[:7])
    with pytest.raises(Refused, match="wait until its lease has ended"), opened_target(address):
        pass
    execute(database, "UPDATE forewarn.head SET lease_until = clock_timestamp()")

    with directories.opened_source(directory) as source, opened_target(address) as target:
        assert transfer(source, target).copied == 33


def test_nothing_is_copied_beside_a_leader(directory: Path, address: DatabaseAddress, database: str) -> None:
    """The nodes are stopped first; after a copy another node can lead at once."""
    with leading(database) as journal:
        with pytest.raises(Refused, match="stop all nodes, wait until its lease has ended"), opened_target(address):
            pass
        release(journal)
    with directories.opened_source(directory) as source, opened_target(address) as target:
        transfer(source, target)
    with leading(database) as journal:
        assert journal.load().revision == 40


def test_a_database_with_another_journal_is_refused(directory: Path, address: DatabaseAddress, database: str) -> None:
    """Two clusters do not share a database."""
    with leading(database) as journal:
        journal.append(0, hosts(1, 3))
        release(journal)
    refused = pytest.raises(Refused, match="holds another journal: name an empty one; nothing was changed")
    with directories.opened_source(directory) as source, opened_target(address) as target, refused:
        transfer(source, target)
