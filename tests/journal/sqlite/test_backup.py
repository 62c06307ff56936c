"""A backup is a whole, verified copy of a journal that others go on writing to, or it is not there at all."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from forewarn.core.errors import BadInput, Refused
from forewarn.files import FileLock, InUse
from forewarn.journal.port import DamagedJournal, JournalFailed, NotAJournal
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import backup, backup_archive, snapshot_files
from forewarn.journal.sqlite.backup import back_up
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.restore import restore
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.testing.journal_contract import assert_same, folded, hosts

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def journal(directory: Path) -> Iterator[SqliteJournal]:
    """Yield an open journal with two snapshots and entries after both."""
    journal = SqliteJournal(directory, history=timedelta(0))
    journal.load()
    for after in range(0, 30, 10):
        journal.append(after, hosts(after + 1, after + 10))
        if after < 20:
            take_snapshot(directory, DEFAULT_HISTORY)
    yield journal
    journal.close()


def brought_back(file: Path, directory: Path) -> SqliteJournal:
    restore(directory, file)
    return SqliteJournal(directory)


@pytest.mark.usefixtures("journal")
def test_a_backup_says_what_it_holds(directory: Path, tmp_path: Path) -> None:
    """Its revision and counts; it is for its owner alone, and nothing else is left beside it."""
    made = back_up(directory, tmp_path / "copy", NOW)

    assert (made.revision, made.first_revision, made.entries, made.snapshots) == (30, 1, 30, 2)
    assert (made.made_at, made.unfinished, made.under_way) == (NOW, 0, 0)
    assert made.files.keys() == {"journal.sqlite3", "snapshot-10", "snapshot-20"}
    assert backup_archive.check(tmp_path / "copy") == made
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]


@pytest.mark.end_to_end
def test_a_journal_without_its_beginning_is_copied_with_its_snapshots(
    journal: SqliteJournal, directory: Path, tmp_path: Path
) -> None:
    """The fleet begins from one of them."""
    journal.take_snapshot()
    while journal.compact():
        pass
    made = back_up(directory, tmp_path / "copy", NOW)

    assert (made.first_revision, made.entries) == (20, 11)
    copy = brought_back(tmp_path / "copy", tmp_path / "new")
    assert_same(copy.load().fleet, folded(hosts(1, 30)))
    copy.close()


@pytest.mark.end_to_end
def test_a_service_goes_on_meanwhile(journal: SqliteJournal, directory: Path, tmp_path: Path) -> None:
    """Each copy of a journal that is appended to, folded and compacted is one moment of it."""
    stopping = Flag()

    def serve() -> None:
        last = 30
        while not stopping.is_set():
            journal.append(last, hosts(last + 1, last + 3))
            last += 3
            if last % 20 == 0:
                journal.take_snapshot()
                journal.compact()

    serving = Thread(target=serve)
    serving.start()
    try:
        for number in range(4):
            made = back_up(directory, tmp_path / f"copy-{number}", NOW)
            copy = brought_back(tmp_path / f"copy-{number}", tmp_path / f"new-{number}")
            recovered = copy.load()
            copy.close()
            assert recovered.revision == made.revision
            assert made.revision % 3 == 0, "no entry of a batch is left out"
            assert_same(recovered.fleet, folded(hosts(1, made.revision)))
    finally:
        stopping.set()
        serving.join()


@pytest.mark.end_to_end
def test_snapshots_that_were_replaced_meanwhile_are_copied_again(
    journal: SqliteJournal, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two new ones came, and the entries that the copied ones need are deleted."""
    copy_journal = backup._copy_journal
    revisions = iter((31, 32))

    def copy_late(*arguments: Any) -> None:
        for revision in revisions:
            journal.append(revision - 1, hosts(revision, revision))
            journal.take_snapshot()
        while journal.compact():
            pass
        copy_journal(*arguments)

    monkeypatch.setattr(backup, "_copy_journal", copy_late)

    made = back_up(directory, tmp_path / "copy", NOW)

    assert (made.first_revision, made.revision, made.snapshots) == (31, 32, 2)


@pytest.mark.usefixtures("journal")
def test_nothing_is_overwritten_unless_told(directory: Path, tmp_path: Path) -> None:
    """Nor is anything else than a file replaced."""
    target = tmp_path / "copy"
    target.write_text("mine")

    with pytest.raises(Refused, match="copy exists; name another file, or replace it with --overwrite"):
        back_up(directory, target, NOW)
    assert target.read_text() == "mine"
    back_up(directory, target, NOW, overwrite=True)
    assert backup_archive.check(target).revision == 30
    with pytest.raises(BadInput, match="is a directory; name a file"):
        back_up(directory, tmp_path, NOW, overwrite=True)
    with pytest.raises(JournalFailed):
        back_up(directory, tmp_path / "missing" / "copy", NOW)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="is not a regular file"):
        back_up(directory, tmp_path / "pipe", NOW, overwrite=True)
    assert (tmp_path / "pipe").is_fifo()


def test_a_disk_that_is_full_is_the_one_of_the_copy(
    journal: SqliteJournal, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not said of the journal, which is only read."""
    journal.append(30, hosts(31, 400))
    connect = sqlite3.connect

    def on_a_small_disk(database: Path | str, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(database, **options)
        if ".partial" in str(database):
            made.execute("PRAGMA max_page_count = 2")
        return made

    monkeypatch.setattr(sqlite3, "connect", on_a_small_disk)
    with pytest.raises(
        JournalFailed, match=r"\.copy\.partial/journal\.sqlite3 cannot be written because the disk is full"
    ):
        back_up(directory, tmp_path / "copy", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.usefixtures("journal")
def test_a_file_that_appeared_meanwhile_is_kept(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first has the name."""
    check = backup_archive.check

    def check_late(packed: Path) -> backup_archive.BackupManifest:
        (tmp_path / "copy").write_text("mine")
        return check(packed)

    monkeypatch.setattr(backup_archive, "check", check_late)

    with pytest.raises(Refused, match="was made meanwhile"):
        back_up(directory, tmp_path / "copy", NOW)
    assert (tmp_path / "copy").read_text() == "mine"


@pytest.mark.usefixtures("journal")
def test_what_is_damaged_is_not_copied(directory: Path, tmp_path: Path) -> None:
    """The damage is named, and there is no file; a directory without a journal is refused too."""
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as connection:
        connection.execute("UPDATE entries SET checksum = 1 WHERE revision = 25")
        connection.commit()

    with pytest.raises(DamagedJournal, match=r"no backup was written: .* is damaged at revision 25"):
        back_up(directory, tmp_path / "copy", NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    (tmp_path / "journal.sqlite3").write_text("mine")
    with pytest.raises(NotAJournal):
        back_up(tmp_path, tmp_path / "copy", NOW)


@pytest.mark.usefixtures("journal")
def test_a_disk_that_returns_something_else_is_noticed(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read back before it gets its name."""
    pack = backup_archive.pack

    def pack_badly(staging: Path, packed: Path, manifest: backup_archive.BackupManifest) -> None:
        pack(staging, packed, manifest)
        content = bytearray(packed.read_bytes())
        content[5000] ^= 1
        packed.write_bytes(content)

    monkeypatch.setattr(backup_archive, "pack", pack_badly)

    with pytest.raises(DamagedJournal, match=r"is damaged at journal\.sqlite3"):
        back_up(directory, tmp_path / "copy", NOW)
    assert not (tmp_path / "copy").exists()


@pytest.mark.usefixtures("journal")
def test_two_never_write_one_file(directory: Path, tmp_path: Path) -> None:
    """The second is told who is at it."""
    other = FileLock(tmp_path / ".copy.partial.lock")
    other.acquire()

    with pytest.raises(InUse):
        back_up(directory, tmp_path / "copy", NOW)

    other.release()


@pytest.mark.usefixtures("journal")
def test_what_a_killed_one_left_is_removed(directory: Path, tmp_path: Path) -> None:
    """It is no part of the next backup, and nothing is left after that."""
    (tmp_path / ".copy.partial").mkdir()
    (tmp_path / ".copy.partial" / "left").touch()
    back_up(directory, tmp_path / "copy", NOW)

    assert not list(tmp_path.glob(".copy*"))
    with tarfile.open(tmp_path / "copy") as archive:
        assert not any("left" in name for name in archive.getnames())


@pytest.mark.end_to_end
def test_a_kill_leaves_nothing_or_a_whole_file(journal: SqliteJournal, directory: Path, tmp_path: Path) -> None:
    """Whenever it comes; the next backup of that name removes what was left."""
    journal.append(30, hosts(31, 20_000))
    journal.close()
    target = tmp_path / "copy"
    command = [sys.executable, "-m", "forewarn", "--data", str(directory), "backup", str(target)]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole = time.monotonic() - began
    found = set()
    for tenth in range(3, 13):
        target.unlink(missing_ok=True)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(whole * tenth / 10)
            process.send_signal(signal.SIGKILL)
        found.add(target.exists())
        if target.exists():
            assert backup_archive.check(target).revision == 20_000

    subprocess.run([*command, "--overwrite"], check=True, capture_output=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]
    assert False in found
    assert len(snapshot_files.list_snapshots(directory)) == 2
    assert os.access(target, os.R_OK)


def test_only_what_belongs_into_a_backup_has_a_checksum(tmp_path: Path) -> None:
    """Not a file that was left beside the journal, such as the dump of a crash."""
    for name in ("snapshot-7", "snapshot-7.partial", "core"):
        (tmp_path / name).write_bytes(b"content")

    assert list(backup_archive.checksums(tmp_path)) == ["snapshot-7"]
