"""Verification finds every kind of damage, beside a server and without one, and changes nothing."""

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.core.fleet import Fleet
from forewarn.journal.port import JournalFailed, NotAJournal
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import database, index, snapshot_files
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.journal.sqlite.verification import VerifyReport, verify
from forewarn.testing.journal_contract import hosts


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    """Yield an open journal with two snapshots, an index and entries after both."""
    journal = SqliteJournal(tmp_path, history=timedelta(0))
    journal.load()
    for after in range(0, 30, 10):
        journal.append(after, hosts(after + 1, after + 10))
        if after < 20:
            take_snapshot(tmp_path, DEFAULT_HISTORY)
    yield journal
    journal.close()


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def problem(directory: Path) -> str:
    """Return the one problem there is."""
    report = verify(directory)
    assert not report.ok
    (sentence,) = report.problems
    assert "\n" not in sentence
    return sentence


GOOD = VerifyReport(ok=True, problems=(), first_revision=1, last_revision=30, entries=30, snapshots=2, indexed=20)


def test_a_whole_journal_is_found_whole(journal: SqliteJournal, tmp_path: Path) -> None:
    """Beside the server and after it, everything is read and counted."""
    assert verify(tmp_path) == GOOD
    journal.close()
    assert verify(tmp_path) == GOOD


def test_an_empty_journal_is_whole(tmp_path: Path) -> None:
    """A journal that was just made has nothing wrong with it."""
    journal = SqliteJournal(tmp_path)
    journal.load()

    assert verify(tmp_path) == VerifyReport(True, (), 0, 0, 0, 0, 0)
    journal.close()


@pytest.mark.end_to_end
def test_a_compacted_journal_is_whole(journal: SqliteJournal, tmp_path: Path) -> None:
    """Where the first entries are gone, the older snapshot is where the fold begins."""
    journal.take_snapshot()
    while journal.compact():
        pass

    report = verify(tmp_path)

    assert (report.ok, report.first_revision, report.entries) == (True, 20, 11)
    assert (report.snapshots, report.indexed) == (2, 11)


@pytest.mark.end_to_end
def test_a_compacted_journal_without_its_snapshots_is_not(journal: SqliteJournal, tmp_path: Path) -> None:
    """The beginning is lost, and that is said."""
    journal.take_snapshot()
    while journal.compact():
        pass
    for _, path in snapshot_files.list_snapshots(tmp_path):
        path.unlink()

    assert "no good snapshot" in problem(tmp_path)


@pytest.mark.usefixtures("journal")
def test_a_changed_entry_is_found(tmp_path: Path) -> None:
    """Every checksum is compared, also below the snapshots."""
    change(tmp_path / database.NAME, "UPDATE entries SET checksum = 1 WHERE revision = 3")

    assert "revision 3" in problem(tmp_path)


@pytest.mark.usefixtures("journal")
def test_a_missing_entry_is_found(tmp_path: Path) -> None:
    """A gap is named."""
    change(tmp_path / database.NAME, "DELETE FROM entries WHERE revision = 25")

    assert "1 entries are missing" in verify(tmp_path).problems[0]
    assert "lacks revision 25" in verify(tmp_path).problems[1]


@pytest.mark.usefixtures("journal")
def test_a_damaged_snapshot_is_found(tmp_path: Path) -> None:
    """The others are compared all the same."""
    path = tmp_path / "snapshot-10"
    path.write_bytes(path.read_bytes()[:-1])

    assert "snapshot-10 is damaged" in problem(tmp_path)
    assert verify(tmp_path).snapshots == 1


@pytest.mark.usefixtures("journal")
def test_a_snapshot_of_another_fleet_is_found(tmp_path: Path) -> None:
    """A snapshot is held against the fold of the entries, not only against its own checksum."""
    header = snapshot_files.read_header(tmp_path / "snapshot-20")
    snapshot_files.publish(snapshot_files.write(tmp_path, header, Fleet().parts()))

    assert "snapshot-20 is not the fold" in problem(tmp_path)


@pytest.mark.usefixtures("journal")
def test_an_incomplete_index_is_found(tmp_path: Path) -> None:
    """Every indexed entry must be found by each of its subjects."""
    change(tmp_path / index.NAME, "DELETE FROM subjects WHERE subject = 'host:host-7'")

    assert "history.sqlite3 is damaged or not complete: delete it" in problem(tmp_path)


def test_a_damaged_index_is_found(journal: SqliteJournal, tmp_path: Path) -> None:
    """An index that is no SQLite file any more is a problem of the index alone."""
    journal.close()
    for path in tmp_path.glob(f"{index.NAME}*"):
        path.unlink()
    (tmp_path / index.NAME).write_bytes(b"garbage" * 1000)

    assert "history.sqlite3 is damaged or not complete: delete it" in problem(tmp_path)


def test_a_damaged_page_is_found(journal: SqliteJournal, tmp_path: Path) -> None:
    """What SQLite finds wrong is a problem, not an exception; nothing is changed."""
    journal.close()
    path = tmp_path / database.NAME
    content = bytearray(path.read_bytes())
    content[4096:4196] = bytes(100)
    path.write_bytes(content)

    assert not verify(tmp_path).ok
    assert path.read_bytes() == content


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    """There is nothing to report of a directory without a journal."""
    with pytest.raises(JournalFailed):
        verify(tmp_path)
    (tmp_path / database.NAME).write_text("mine")
    with pytest.raises(NotAJournal):
        verify(tmp_path)
