"""The process that folds snapshots keeps two good ones, indexes, and releases what is old."""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forewarn.core.chunks import FleetChunk
from forewarn.core.fleet import Fleet
from forewarn.files import FileLock, InUse
from forewarn.journal.port import DamagedJournal, JournalFailed, NotAJournal
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY, SnapshotResult
from forewarn.journal.sqlite import database, index, snapshot_files
from forewarn.journal.sqlite import snapshot_process as folding
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.journal.sqlite.verification import verify
from forewarn.testing.journal_contract import NOON, assert_same, folded, hosts


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    """Return a loaded journal of nine entries."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    journal.append(0, hosts(1, 9))
    return journal


def kept(directory: Path) -> list[int]:
    return [revision for revision, _ in snapshot_files.list_snapshots(directory)]


def test_a_snapshot_is_the_fold_of_all_entries(journal: SqliteJournal, tmp_path: Path) -> None:
    """It is taken beside the open journal, and read back equal."""
    assert take_snapshot(tmp_path, DEFAULT_HISTORY) == SnapshotResult(revision=9, released=0)

    restored = Fleet.restore(snapshot_files.read_chunks(tmp_path / "snapshot-9"))
    assert_same(restored, folded(hosts(1, 9)))
    journal.close()


def test_the_newest_two_are_kept(journal: SqliteJournal, tmp_path: Path) -> None:
    """A third snapshot replaces the oldest; one at the same revision replaces nothing."""
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    for revision in (10, 11):
        journal.append(revision - 1, hosts(revision, revision))
        take_snapshot(tmp_path, DEFAULT_HISTORY)
    journal.close()

    assert kept(tmp_path) == [11, 10]
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    assert kept(tmp_path) == [11, 10]


def test_an_empty_journal_gets_no_snapshot(tmp_path: Path) -> None:
    """There is nothing to fold before the first entry."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    journal.close()

    assert take_snapshot(tmp_path, DEFAULT_HISTORY) == SnapshotResult(0, 0)
    assert kept(tmp_path) == []


def test_a_damaged_snapshot_is_replaced_and_does_not_count(journal: SqliteJournal, tmp_path: Path) -> None:
    """Nothing is released on the word of a snapshot that cannot be read."""
    take_snapshot(tmp_path, timedelta(0))
    (tmp_path / "snapshot-9").write_bytes(b"damaged")
    journal.append(9, hosts(10, 10))

    assert take_snapshot(tmp_path, timedelta(0)) == SnapshotResult(revision=10, released=0)

    assert kept(tmp_path) == [10]
    journal.close()


def test_a_damaged_snapshot_of_the_last_revision_is_taken_again(journal: SqliteJournal, tmp_path: Path) -> None:
    """That nothing came since is no reason to leave a damaged snapshot standing."""
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    (tmp_path / "snapshot-9").write_bytes(b"damaged")

    take_snapshot(tmp_path, DEFAULT_HISTORY)

    assert snapshot_files.check(tmp_path / "snapshot-9").revision == 9
    journal.close()


@pytest.mark.parametrize(("seconds", "released"), [(0, 8), (1, 8), (5, 4), (8.5, 1), (9, 0), (1000, 0)])
def test_what_is_old_and_below_both_snapshots_is_released(
    journal: SqliteJournal, tmp_path: Path, seconds: float, released: int
) -> None:
    """Entries come one second apart and age is counted back from the present; the older snapshot's own stays."""
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    journal.append(9, hosts(10, 10))

    assert take_snapshot(tmp_path, timedelta(seconds=seconds), NOON + timedelta(seconds=10)) == SnapshotResult(
        10, released
    )

    assert journal.history("caller:ada") == hosts(released + 1, 10)
    journal.close()


def test_entries_dated_in_the_future_keep_no_older_ones(tmp_path: Path) -> None:
    """A clock that was ahead for a while must not keep what comes after it for years, nor have the rest deleted."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    ahead = [replace(each, at=each.at + timedelta(days=3650)) for each in hosts(4, 6)]
    journal.append(0, [*hosts(1, 3), *ahead, *hosts(7, 20)])
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    journal.append(20, hosts(21, 21))

    assert take_snapshot(tmp_path, timedelta(seconds=5), NOON + timedelta(seconds=8)) == SnapshotResult(
        21, released=2
    )
    assert take_snapshot(tmp_path, timedelta(seconds=5), NOON + timedelta(seconds=11)) == SnapshotResult(
        21, released=2 + 1
    )
    assert take_snapshot(tmp_path, timedelta(seconds=5), NOON + timedelta(seconds=14)) == SnapshotResult(
        21, released=8
    )
    journal.close()


def test_without_a_history_nothing_is_released(journal: SqliteJournal, tmp_path: Path) -> None:
    """While the clock may be wrong the snapshot is taken all the same."""
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    journal.append(9, hosts(10, 10))

    assert take_snapshot(tmp_path, None) == SnapshotResult(10, released=0)
    journal.close()


def test_what_was_released_stays_released_wherever_the_next_fold_is_killed(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service was killed before it had deleted anything, and then the fold between two parts of its work."""
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    journal.append(9, hosts(10, 10))
    assert take_snapshot(tmp_path, timedelta(0)) == SnapshotResult(10, released=8)
    remove = index.remove

    def remove_and_die(*arguments: Any) -> None:
        remove(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(index, "remove", remove_and_die)
    with suppress(KeyboardInterrupt):
        assert take_snapshot(tmp_path, timedelta(0), batch_size=2) == SnapshotResult(10, released=8)
    journal.close()

    assert verify(tmp_path).problems == ()


def test_entries_that_arrive_meanwhile_do_no_harm(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of its work: what was taken counts, and what is old is released."""
    take_snapshot(tmp_path, DEFAULT_HISTORY)
    last = 9

    def arriving(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*arguments: Any, **options: Any) -> Any:
            nonlocal last
            journal.append(last, hosts(last + 1, last + 2))
            last += 2
            done = step(*arguments, **options)
            journal.append(last, hosts(last + 1, last + 2))
            last += 2
            return done

        return stepping

    for place, name in (
        (database, "bounds"),
        (folding, "recover"),
        (snapshot_files, "publish"),
        (index, "open_writer"),
        (index, "add"),
        (index, "remove"),
        (index, "reach"),
    ):
        monkeypatch.setattr(place, name, arriving(getattr(place, name)))

    folded = take_snapshot(tmp_path, timedelta(seconds=5), NOON + timedelta(minutes=1))

    assert (folded.revision > 9, folded.released) == (True, 8)
    monkeypatch.undo()
    assert verify(tmp_path).problems == ()
    journal.close()


def test_a_snapshot_that_reads_back_otherwise_never_counts(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that returns something else than was written is noticed before the snapshot gets its name."""
    write = snapshot_files.write

    def write_less(directory: Path, header: snapshot_files.SnapshotHeader, parts: Iterable[FleetChunk]) -> Path:
        return write(directory, header, islice(parts, 1, None))

    monkeypatch.setattr(snapshot_files, "write", write_less)

    with pytest.raises(DamagedJournal, match="read back"):
        take_snapshot(tmp_path, DEFAULT_HISTORY)

    assert kept(tmp_path) == []
    journal.close()


def test_two_never_fold_one_directory(journal: SqliteJournal, tmp_path: Path) -> None:
    """One left over from a killed server is not disturbed by its successor's."""
    other = FileLock(tmp_path / folding.LOCK)
    other.acquire()

    with pytest.raises(InUse):
        take_snapshot(tmp_path, DEFAULT_HISTORY)

    other.release()
    journal.close()


def test_what_is_no_journal_is_not_folded(tmp_path: Path) -> None:
    """A missing directory and a foreign file are refused."""
    with pytest.raises(JournalFailed):
        take_snapshot(tmp_path / "missing", DEFAULT_HISTORY)
    (tmp_path / "journal.sqlite3").write_text("mine")
    with pytest.raises(NotAJournal):
        take_snapshot(tmp_path, DEFAULT_HISTORY)


def test_the_process_prints_one_line(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Its result is JSON; a refusal is a sentence and an exit code."""
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(sys, "argv", ["fold", str(tmp_path), "10"])
    assert folding.main() == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b'{"revision":9,"released":0}\n'
    monkeypatch.setattr(sys, "argv", ["fold", str(tmp_path / "missing"), "10"])
    assert folding.main() == 1
    assert capfdbinary.readouterr().err.count(b"\n") == 1
    journal.close()
