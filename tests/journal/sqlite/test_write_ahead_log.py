"""Damage in the middle of SQLite's log is told apart from its end."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.journal.port import DamagedJournal
from forewarn.journal.sqlite import database, write_ahead_log
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.testing.journal_contract import hosts

FRAME = 24 + 4096


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the log of a journal that was killed after ten commits."""
    journal = SqliteJournal(tmp_path / "live")
    journal.load()
    for revision in range(1, 11):
        journal.append(revision - 1, hosts(revision, revision))
    (tmp_path / "killed").mkdir()
    for name in (database.NAME, f"{database.NAME}-wal"):
        shutil.copy(tmp_path / "live" / name, tmp_path / "killed" / name)
    journal.close()
    return tmp_path / "killed" / f"{database.NAME}-wal"


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def revision(log: Path) -> int:
    journal = SqliteJournal(log.parent)
    found = journal.load().revision
    journal.close()
    return found


def test_a_whole_log_is_read_to_its_end(log: Path) -> None:
    """After a kill everything committed is there."""
    assert revision(log) == 10


@pytest.mark.parametrize("frame", [0, 4, 7])
def test_damage_before_later_commits_is_refused(log: Path, frame: int) -> None:
    """What was committed after the damage is not silently given up, and the log stays as it is."""
    flip(log, 32 + frame * FRAME + 500)
    before = log.read_bytes()

    with pytest.raises(DamagedJournal, match="commits stand behind a damaged one"):
        revision(log)

    assert log.read_bytes() == before


@pytest.mark.parametrize("place", [0, 8, 16, 24])
def test_a_damaged_header_is_refused(log: Path, place: int) -> None:
    """A log whose beginning cannot be read is not taken for an empty one."""
    flip(log, place)

    with pytest.raises(DamagedJournal):
        revision(log)


def test_a_torn_last_commit_is_the_end(log: Path) -> None:
    """What a power failure left of a commit that nobody was told of counts for nothing."""
    flip(log, log.stat().st_size - 1)

    assert revision(log) == 9


def test_a_log_that_was_cut_short_ends_there(log: Path) -> None:
    """A commit that is not there to its last byte was not acknowledged."""
    log.write_bytes(log.read_bytes()[:-100])

    assert revision(log) == 9


def test_an_earlier_round_of_the_log_is_not_missed(tmp_path: Path) -> None:
    """After a checkpoint the log begins anew over old frames; those were saved, and are not damage."""
    journal = SqliteJournal(tmp_path / "live")
    journal.load()
    for number in range(1, 11):
        journal.append(number - 1, hosts(number, number))
    assert journal._writer is not None
    journal._writer.execute("PRAGMA wal_checkpoint(RESTART)")
    journal.append(10, hosts(11, 11))
    (tmp_path / "killed").mkdir()
    for name in (database.NAME, f"{database.NAME}-wal"):
        shutil.copy(tmp_path / "live" / name, tmp_path / "killed" / name)
    journal.close()

    assert (tmp_path / "killed" / f"{database.NAME}-wal").stat().st_size > 5 * FRAME
    assert revision(tmp_path / "killed" / f"{database.NAME}-wal") == 11


TAKE_THE_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as memory:
    try:
        fcntl.lockf(memory, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)  # where SQLite marks that somebody is there
    except OSError:
        print("taken")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks otherwise")
def test_a_loaded_journal_keeps_its_lock_on_the_shared_memory(tmp_path: Path) -> None:
    """Without it, the process that folds snapshots would take itself for the first, and cut the file it shares."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    journal.append(0, hosts(1, 1))
    journal.load()
    memory = tmp_path / f"{database.NAME}-shm"

    found = subprocess.run(
        [sys.executable, "-c", TAKE_THE_LOCK, memory], check=True, capture_output=True, text=True
    ).stdout

    assert found == "taken\n"
    journal.close()


def test_loading_again_and_again_keeps_one_descriptor(tmp_path: Path) -> None:
    """A full disk makes the service load each few seconds; it must not run out of descriptors."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    journal.append(0, hosts(1, 1))
    open_files = []
    for _ in range(20):
        journal.load()
        open_files.append(len(list(Path("/proc/self/fd").iterdir())))
    journal.close()

    assert max(open_files) == open_files[0]


def test_the_descriptor_of_a_file_that_is_gone_is_closed(tmp_path: Path) -> None:
    """A journal that is restored from a backup has another shared memory; the old one is let go of."""
    for name in ("one", "two"):
        journal = SqliteJournal(tmp_path / name)
        journal.load()
        journal.append(0, hosts(1, 1))
        journal.load()
        memory = tmp_path / name / f"{database.NAME}-shm"
        assert list(write_ahead_log._KEPT_OPEN).count(memory) == 1
        journal.close()
        if name == "one":
            memory.unlink(missing_ok=True)

    assert tmp_path / "one" / f"{database.NAME}-shm" not in write_ahead_log._KEPT_OPEN
