"""History is the same with the index, without it, and with one that cannot be trusted."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from forewarn.core.facts import AnyFact, Entry, FleetChanged
from forewarn.core.model import Caller, CallerKind, Host
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import pack
from forewarn.journal.port import DamagedJournal
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import index
from forewarn.journal.sqlite.history import _as_written
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.testing.journal_contract import entry, hosts
from tests.journal.test_codec import EVERY_FACT


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with nine indexed entries and three that came later."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    journal.append(0, hosts(1, 9))
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    journal.append(9, hosts(10, 12))
    journal.close()
    return tmp_path


def history(directory: Path, subject: str = "caller:ada", remembered: int = 50_000) -> list[Entry]:
    with closing(SqliteJournal(directory, remembered=remembered)) as journal:
        return journal.history(subject)


def reached(directory: Path) -> int:
    connection = sqlite3.connect(directory / index.NAME)
    _, revision = index.reach(connection)
    connection.close()
    return revision


def test_history_reaches_beyond_the_index(directory: Path) -> None:
    """What is indexed and what came since are one history."""
    assert reached(directory) == 9
    assert history(directory) == hosts(1, 12)


@pytest.mark.parametrize("from_oldest", [True, False])
def test_an_index_that_grows_between_two_questions_repeats_nothing(directory: Path, *, from_oldest: bool) -> None:
    """Another process adds to it; what was remembered before is in both then, and is one entry nevertheless."""
    with closing(SqliteJournal(directory)) as journal:
        assert journal.history("caller:ada") == hosts(1, 12)
        take_snapshot(directory, DEFAULT_HISTORY)
        assert reached(directory) == 12

        assert journal.history("caller:ada") == hosts(1, 12)
        newest = journal.history("caller:ada", limit=5, from_oldest=from_oldest)
        assert newest == (hosts(1, 5) if from_oldest else hosts(8, 12))


def test_indexed_entries_are_found_through_the_index(directory: Path) -> None:
    """Below its reach the index alone decides; the bodies are not looked through."""
    connection = sqlite3.connect(directory / index.NAME)
    connection.execute("DELETE FROM subjects WHERE revision = 5")
    connection.commit()
    connection.close()

    assert history(directory) == [*hosts(1, 4), *hosts(6, 12)]


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 1000])
def test_an_index_that_cannot_be_read_is_passed_by_and_made_anew(directory: Path, content: bytes | None) -> None:
    """Without an index history takes longer, and is the same."""
    path = directory / index.NAME
    path.unlink()
    for beside in directory.glob(f"{index.NAME}-*"):
        beside.unlink()
    if content is not None:
        path.write_bytes(content)

    assert history(directory) == hosts(1, 12)

    take_snapshot(directory, DEFAULT_HISTORY)
    assert reached(directory) == 12
    assert history(directory) == hosts(1, 12)


def test_the_index_of_another_journal_is_passed_by_and_made_anew(directory: Path, tmp_path: Path) -> None:
    """A journal that was put back from a backup is not read through the index of its successor."""
    other = tmp_path / "other"
    journal = SqliteJournal(other)
    journal.load()
    journal.append(0, [entry(n, FleetChanged(hosts=(Host(f"h{n}"),)), command="x") for n in range(1, 31)])
    journal.close()
    shutil.copy(directory / index.NAME, other / index.NAME)

    assert len(history(other, "command:x")) == 30

    take_snapshot(other, DEFAULT_HISTORY)
    assert reached(other) == 30
    assert len(history(other, "command:x")) == 30


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_what_is_not_indexed_and_not_remembered_is_looked_through(directory: Path, content: bytes) -> None:
    """However large the part without an index is, only so many entries are remembered, and all are found."""
    (directory / index.NAME).write_bytes(content)

    assert history(directory, remembered=4) == hosts(1, 12)
    journal = SqliteJournal(directory, remembered=4)
    assert journal.history("caller:ada", limit=6) == hosts(7, 12)
    assert journal.history("host:host-3") == hosts(3, 3)
    journal.close()


def test_what_is_remembered_stays_small_where_no_snapshot_is_taken(directory: Path) -> None:
    """A service that cannot take snapshots goes on for weeks; all entries are found all the same."""
    with closing(SqliteJournal(directory, remembered=4)) as journal:
        revision = journal.load().revision
        for end in range(revision + 5, revision + 40, 5):
            journal.append(revision, hosts(revision + 1, end))
            revision = end
            assert journal.history("caller:ada") == hosts(1, end)
            view = journal._history._view
            assert view
            assert sum(map(len, view._remembered.values())) <= 3 * (2 * 4 + 5)


def test_a_large_entry_is_found_by_its_cause_and_by_all_it_concerns(directory: Path) -> None:
    """An entry about thousands is found once by each of them, before it is indexed and after."""
    many = tuple(Host(f"rack-{n}") for n in range(10_000))
    large = entry(13, FleetChanged(hosts=many), command="large")
    journal = SqliteJournal(directory)
    journal.load()
    assert journal.history("command:large") == []
    journal.append(12, [large, *hosts(14, 14)])

    for _ in ("remembered", "indexed"):
        assert journal.history("command:large") == journal.history("host:rack-77") == [large]
        assert journal.history("caller:ada", limit=2) == [large, *hosts(14, 14)]
        assert journal.history("host:rack") == []
        take_snapshot(directory, DEFAULT_HISTORY)
        journal.load()
    journal.close()


@pytest.mark.end_to_end
def test_what_is_indexed_is_not_remembered_any_more(directory: Path) -> None:
    """A snapshot takes the load of the newest entries off the memory."""
    journal = SqliteJournal(directory)
    journal.load()
    for remembered in (3, 0):
        assert journal.history("caller:ada") == hosts(1, 12)
        assert journal._history._view is not None
        assert len(journal._history._view._remembered.get("caller:ada", ())) == remembered
        journal.take_snapshot()
    journal.close()


def test_a_damaged_entry_is_told_when_it_is_asked_for(directory: Path) -> None:
    """History is as strict as loading."""
    connection = sqlite3.connect(directory / "journal.sqlite3")
    connection.execute("UPDATE entries SET checksum = checksum + 1 WHERE revision = 11")
    connection.commit()
    connection.close()

    with pytest.raises(DamagedJournal, match="revision 11"):
        history(directory)


@pytest.mark.parametrize("fact", EVERY_FACT, ids=lambda fact: type(fact).__name__)
@pytest.mark.parametrize("by", [Caller(CallerKind.OPERATOR), Caller(CallerKind.VM, "web-0", "10.0.0.4")])
def test_an_entry_has_its_subjects_in_its_body(fact: AnyFact, by: Caller) -> None:
    """What is not indexed yet is found by looking for the name, so every name must be there as written."""
    entry_ = Entry(1, entry(1).at, "command", by, (fact,))
    ((_, _, body),) = pack([entry_])

    for subject in subjects_of(entry_):
        assert _as_written(subject) in body
