"""A restore makes a directory what a verified backup holds, at once or not at all."""

import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn.core.errors import BadInput, Refused
from forewarn.core.facts import Announced, Attempted, Entry, FleetChanged, Started
from forewarn.core.model import Event, EventSource, EventStatus, EventType, GroupKind, GroupTerms, Operation, Vm
from forewarn.files import InUse
from forewarn.journal.port import DamagedJournal, JournalFailed
from forewarn.journal.sqlite import backup_archive
from forewarn.journal.sqlite import restore as restore_module
from forewarn.journal.sqlite.backup import back_up
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.restore import restore
from forewarn.journal.sqlite.verification import verify
from forewarn.testing.journal_contract import NOON, assert_same, entry, folded, hosts

pytestmark = pytest.mark.end_to_end

NOW = datetime(2026, 11, 1, tzinfo=UTC)
EVENT = "48dd97c3-c5b3-5342-b1e3-c3e83b0c5c3a"


def journal_of(directory: Path, entries: list[Entry]) -> SqliteJournal:
    journal = SqliteJournal(directory)
    journal.load()
    journal.append(0, entries)
    return journal


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a backup at revision 9, with a snapshot."""
    journal = journal_of(tmp_path / "source", hosts(1, 9))
    journal.take_snapshot()
    journal.close()
    back_up(tmp_path / "source", tmp_path / "copy", NOW)
    return tmp_path / "copy"


def test_an_empty_or_missing_directory_becomes_the_backup(copy: Path, tmp_path: Path) -> None:
    """Its files are private, its journal whole, and what is not ours stays."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "others.txt").write_text("mine")

    for directory in (tmp_path / "new" / "below", there):
        made = restore(directory, copy)

        assert (made.revision, verify(directory).ok) == (9, True)
        names = {path.name for path in directory.iterdir()} - {"others.txt"}
        assert names == {"journal.sqlite3", "snapshot-9", "lock", "fold-lock"} | (
            names & {"journal.sqlite3-wal", "journal.sqlite3-shm"}
        )
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / "journal.sqlite3").stat().st_mode) == 0o600
        journal = SqliteJournal(directory)
        assert_same(journal.load().fleet, folded(hosts(1, 9)))
        journal.append(9, hosts(10, 10))
        journal.close()
    assert (there / "others.txt").read_text() == "mine"


def test_a_directory_in_use_is_refused(copy: Path, tmp_path: Path) -> None:
    """The service that runs there is named, and goes on."""
    journal = journal_of(tmp_path / "data", hosts(1, 12))

    with pytest.raises(InUse, match=f"in use by the process with id {os.getpid()}: stop that one first"):
        restore(tmp_path / "data", copy, replace=True)

    journal.append(12, hosts(13, 13))
    journal.close()


def test_a_journal_is_replaced_only_when_told_and_set_aside(copy: Path, tmp_path: Path) -> None:
    """Nothing of it is lost: it is whole where it was put."""
    journal = journal_of(tmp_path / "data", hosts(1, 12))
    journal.take_snapshot()
    journal.close()

    with pytest.raises(Refused, match="holds a journal; name another directory with --data, or set"):
        restore(tmp_path / "data", copy)
    assert verify(tmp_path / "data").last_revision == 12
    for number in (1, 2):
        restore(tmp_path / "data", copy, replace=True)
        assert verify(tmp_path / "data").last_revision == 9
        assert verify(tmp_path / "data" / f"replaced-{number}").last_revision == (12, 9)[number - 1]
    assert not (tmp_path / "data" / "history.sqlite3").exists(), "an index of another journal"


@pytest.mark.parametrize("steps", range(14))
def test_cut_off_anywhere_it_is_the_old_journal_or_the_new_one(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Killed between any two renames: the next start has one of them whole, and the next restore works."""
    data = tmp_path / "data"
    journal = journal_of(data, hosts(1, 12))
    journal.take_snapshot()
    journal.close()
    (data / "driver").mkdir()
    rename = Path.rename
    left = steps

    def rename_until_killed(self: Path, target: Path) -> Path:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_until_killed)
    was_killed = False
    try:
        restore(data, copy, replace=True)
    except KeyboardInterrupt:
        was_killed = True
    monkeypatch.undo()
    journal = SqliteJournal(data)
    revision = journal.load().revision
    journal.close()

    assert revision == (12 if was_killed and steps == 0 else 9)
    assert verify(data).problems == ()
    if revision == 9:
        assert verify(data / "replaced-1").last_revision == 12
    assert not list(data.glob("restore.*"))
    assert restore(data, copy, replace=True).revision == 9


def test_what_was_renamed_is_durable_before_the_next_step(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is synced when the old journal has left it, and again before the last traces are removed."""
    data = tmp_path / "data"
    journal_of(data, hosts(1, 12)).close()
    seen: list[str] = []

    def sync(directory: Path) -> None:
        if directory == data:
            has_journal = (data / "journal.sqlite3").exists()
            seen.append("the new journal" if has_journal else "no journal")

    monkeypatch.setattr(restore_module, "sync_directory", sync)
    restore(data, copy, replace=True)

    assert seen[-2:] == ["no journal", "the new journal"]


def test_cut_off_before_its_last_traces_are_removed_it_is_finished(copy: Path, tmp_path: Path) -> None:
    """What was set aside has left already; the next start removes the rest."""
    data = tmp_path / "data"
    restore(data, copy)
    (data / "restore.moving" / "driver").mkdir(parents=True)

    journal = SqliteJournal(data)
    assert journal.load().revision == 9
    journal.close()
    assert not list(data.glob("restore.*"))


def test_the_driver_s_records_are_brought_back_and_newer_ones_kept(tmp_path: Path) -> None:
    """An event that was under way is under way again, and the driver knows as much of it as it ever did."""
    event = Event(
        EVENT,
        EventType.REBOOT,
        EventSource.USER,
        "web",
        ("web-0",),
        EventStatus.SCHEDULED,
        NOON,
        NOON,
        Operation.VM_RESTART,
    )
    declared = FleetChanged(groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),), vms=(Vm("web-0", "web"),))
    other = replace(event, id=EVENT.replace("4", "5"))
    journal = journal_of(
        tmp_path / "data",
        [
            entry(1, declared, Announced(event), Announced(other)),
            entry(2, Started(EVENT, NOON, "approved"), Attempted(EVENT, NOON)),
        ],
    )
    driver = tmp_path / "data" / "driver"
    driver.mkdir()
    (driver / EVENT).write_text("begun")
    (driver / other.id).write_text("of an event that is not under way")
    made = back_up(tmp_path / "data", tmp_path / "copy", NOW)
    journal.close()
    (driver / EVENT).write_text("begun, ended")

    assert (made.unfinished, made.under_way) == (2, 1)
    assert [name for name in made.files if "driver" in name] == [f"driver/{EVENT}"]
    restore(tmp_path / "data", tmp_path / "copy", replace=True)
    restore(tmp_path / "elsewhere", tmp_path / "copy")
    assert (driver / EVENT).read_text() == "begun, ended"
    assert (tmp_path / "elsewhere" / "driver" / EVENT).read_text() == "begun"
    journal = SqliteJournal(tmp_path / "elsewhere")
    assert journal.load().fleet.events[EVENT].attempted_at == NOON
    journal.close()


@pytest.mark.parametrize("at", [100, 700, 3_000, -1_500])
def test_a_damaged_backup_changes_nothing(copy: Path, tmp_path: Path, at: int) -> None:
    """Wherever the damage is, also where the file was cut off."""
    content = bytearray(copy.read_bytes())
    journal_of(tmp_path / "data", hosts(1, 12)).close()
    content[at] ^= 0x55
    (tmp_path / "changed").write_bytes(content)
    (tmp_path / "short").write_bytes(copy.read_bytes()[: len(content) // 2])

    for name in ("changed", "short"):
        if name == "changed" and at == -1_500:
            continue  # that is padding
        with pytest.raises((DamagedJournal, BadInput)):
            restore(tmp_path / "data", tmp_path / name, replace=True)
        assert verify(tmp_path / "data").last_revision == 12
        assert not list((tmp_path / "data").glob("re*"))
        with pytest.raises((DamagedJournal, BadInput)):
            restore(tmp_path / "new", tmp_path / name)
        assert not (tmp_path / "new").exists()


def test_a_disk_that_is_full_is_the_directory_s(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said of the backup, which is only read."""

    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("forewarn.journal.sqlite.restore.write_atomically", write)
    with pytest.raises(JournalFailed, match=f"^{tmp_path}/new cannot be written because the disk is full"):
        restore(tmp_path / "new", copy)


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    """And no directory is made for it."""
    (tmp_path / "text").write_text("mine")

    for name, said in (("text", "is not a complete backup"), ("missing", "there is no file")):
        with pytest.raises(BadInput, match=said):
            restore(tmp_path / "data", tmp_path / name)
    assert not (tmp_path / "data").exists()


def test_a_file_with_names_of_its_own_is_refused(copy: Path, tmp_path: Path) -> None:
    """Nothing is written outside of the directory."""
    made = backup_archive.check(copy)
    (tmp_path / "evil").write_text("x")
    bad = replace(made, files={"../evil": backup_archive._sum(tmp_path / "evil")})
    (tmp_path / "inner").mkdir()
    backup_archive.pack(tmp_path / "inner", tmp_path / "bad", bad)

    with pytest.raises(DamagedJournal, match="is damaged at"):
        restore(tmp_path / "data", tmp_path / "bad")


def test_a_backup_of_a_newer_release_is_refused(copy: Path, tmp_path: Path) -> None:
    """With the release to take."""
    backup_archive.pack(tmp_path, tmp_path / "newer", replace(backup_archive.check(copy), format=2, files={}))

    with pytest.raises(BadInput, match="has format 2 of a newer release; restore it with that release"):
        restore(tmp_path / "data", tmp_path / "newer")
