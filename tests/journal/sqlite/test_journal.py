"""The SQLite journal keeps the contract, refuses clearly what it cannot use, and survives what goes wrong."""

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast
from zlib import crc32

import pytest

from forewarn.core.errors import ForewarnError
from forewarn.files import InUse
from forewarn.journal.codec import pack
from forewarn.journal.port import (
    AppendUnknown,
    DamagedJournal,
    Journal,
    JournalFailed,
    NewerJournal,
    NotAJournal,
    NotWritten,
)
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import database, long_entries
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.testing.calls import begin, in_time
from forewarn.testing.journal_contract import NOON, MaintainedJournalContract, assert_same, folded, hosts


def tire(journal: SqliteJournal, *, is_written: bool) -> None:
    """Let the next commit fail, or fail just after it was done."""
    writer = cast("sqlite3.Connection", journal._writer)

    class Tired:
        close = writer.close
        executemany = writer.executemany

        def execute(self, statement: str) -> sqlite3.Cursor:
            if statement != "COMMIT":
                return writer.execute(statement)
            if is_written:
                writer.execute(statement)
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

    journal._writer = cast("sqlite3.Connection", Tired())


class TestSqliteJournal(MaintainedJournalContract):
    """The published contract, on a directory."""

    def fail_next_append(self, journal: Journal, *, is_written: bool) -> bool:
        tire(cast("SqliteJournal", journal), is_written=is_written)
        return True

    @pytest.fixture
    def journal(self, tmp_path: Path) -> Iterator[Journal]:
        journal = SqliteJournal(tmp_path / "data")
        yield journal
        journal.close()


@pytest.mark.end_to_end
def test_a_follower_beside_the_writer_notices_an_append(tmp_path: Path) -> None:
    """One that has only the file, as in another process, looks at it again and again."""
    journal, other = SqliteJournal(tmp_path), SqliteJournal(tmp_path)
    journal.load()
    following = begin(lambda: other.follow(0, timeout=60) and list(other.entries()))
    journal.append(0, hosts(1, 2))

    assert in_time("follower", 30, following) == hosts(1, 2)
    journal.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with a closed journal of nine entries."""
    journal = SqliteJournal(tmp_path / "data")
    journal.load()
    journal.append(0, hosts(1, 9))
    journal.close()
    return tmp_path / "data"


def refusal(directory: Path, error: type[ForewarnError]) -> str:
    """Load a directory that must be refused; return the sentence."""
    journal = SqliteJournal(directory)
    with pytest.raises(error) as refused:
        journal.load()
    sentence = str(refused.value)
    assert str(directory) in sentence
    assert ": " in sentence, "a refusal names the remedy"
    assert "\n" not in sentence
    return sentence


def test_a_commit_is_synced_before_it_returns(directory: Path) -> None:
    """The file is in WAL mode and every commit is written through."""
    journal = SqliteJournal(directory)
    journal.load()
    assert journal._writer is not None
    ((mode,),) = journal._writer.execute("PRAGMA journal_mode")
    ((synchronous,),) = journal._writer.execute("PRAGMA synchronous")
    journal.close()

    assert (mode, synchronous) == ("wal", 2)


def test_a_second_opener_is_refused_and_told_who_has_it(directory: Path) -> None:
    """Two servers never share a directory; the lock goes with its holder."""
    first = SqliteJournal(directory)
    first.load()

    assert f"process with id {os.getpid()}" in refusal(directory, InUse)

    first.close()
    second = SqliteJournal(directory)
    assert second.load().revision == 9
    second.close()


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"x" * 5000, b"SQLite format 3\x00"], ids=["empty", "short", "long", "cut"]
)
def test_a_file_that_is_no_journal_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """Whatever stands under the journal's name and is not one stays as it is."""
    (tmp_path / database.NAME).write_bytes(content)

    refusal(tmp_path, NotAJournal)

    assert (tmp_path / database.NAME).read_bytes() == content


def test_another_programs_sqlite_file_is_refused_untouched(tmp_path: Path) -> None:
    """A SQLite file without our mark is somebody else's."""
    path = tmp_path / database.NAME
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE entries (revision INTEGER PRIMARY KEY, checksum, body)")
    connection.close()
    before = path.read_bytes()

    refusal(tmp_path, NotAJournal)

    assert path.read_bytes() == before


def test_a_newer_format_is_refused_untouched(directory: Path) -> None:
    """A journal of a later release is not read, let alone written."""
    path = directory / database.NAME
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {long_entries.FORMAT + 1}")
    connection.close()
    before = path.read_bytes()

    assert f"format {long_entries.FORMAT + 1}" in refusal(directory, NewerJournal)

    assert path.read_bytes() == before


def test_a_fact_of_a_newer_release_is_refused_untouched(directory: Path) -> None:
    """The entry is whole: the message names the remedy, an upgrade."""
    body = pack(hosts(5, 5))[0][2].replace(b"fleet-changed", b"fleet-renamed")
    values = f"{crc32(body, 5)}, x'{body.hex()}'"
    change(directory, f"UPDATE entries SET (checksum, body) = ({values}) WHERE revision = 5")  # noqa: S608 - ours

    assert "install the release that wrote it" in refusal(directory, NewerJournal)


def test_a_missing_file_beside_snapshots_is_not_begun_anew(directory: Path) -> None:
    """Snapshots without their journal mean that something was lost."""
    take_snapshot(directory, DEFAULT_HISTORY)
    (directory / database.NAME).unlink()

    refusal(directory, DamagedJournal)

    assert not (directory / database.NAME).exists()


def test_a_directory_is_made_but_not_its_parents(tmp_path: Path) -> None:
    """A mistyped path is refused; the last name of a good one is made."""
    refusal(tmp_path / "no" / "data", JournalFailed)
    assert not (tmp_path / "no").exists()

    journal = SqliteJournal(tmp_path / "data")
    journal.load()
    journal.close()
    assert (tmp_path / "data").is_dir()


def test_a_file_in_the_directorys_place_is_refused(tmp_path: Path) -> None:
    """The journal needs a directory."""
    (tmp_path / "data").write_text("mine")

    refusal(tmp_path / "data", JournalFailed)

    assert (tmp_path / "data").read_text() == "mine"


@pytest.mark.end_to_end
def test_an_unwritable_directory_is_refused(directory: Path) -> None:
    """A user who may only read is told to make the directory writable."""
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from forewarn.core.errors import ForewarnError\n"
        "from forewarn.journal.sqlite.journal import SqliteJournal\n"
        "if os.geteuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
        "try:\n    SqliteJournal(Path('data')).load()\n"
        "except ForewarnError as error:\n    print(type(error).__name__, error)\n"
    )
    for parent in (directory.parent, *directory.parent.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o555)
    for path in (directory, *directory.iterdir()):
        path.chmod(0o555)

    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=directory.parent, capture_output=True, text=True, check=False
    )

    directory.chmod(0o755)
    assert answer.stdout.startswith("JournalFailed data/lock cannot be written: make"), answer


@pytest.mark.parametrize("lost", [1, 4])
def test_a_gap_is_refused(directory: Path, lost: int) -> None:
    """Revisions begin at 1 and have no gaps."""
    change(directory, "DELETE FROM entries WHERE revision = ?", lost)

    refusal(directory, DamagedJournal)


def test_an_end_that_a_snapshot_knows_better_is_refused(directory: Path) -> None:
    """A journal that ends below its newest snapshot has lost something."""
    take_snapshot(directory, DEFAULT_HISTORY)
    change(directory, "DELETE FROM entries WHERE revision = 9")

    assert "ends at revision 8" in refusal(directory, DamagedJournal)


def test_a_changed_entry_is_refused(directory: Path) -> None:
    """The checksum covers the body and its place."""
    change(directory, "UPDATE entries SET body = CAST(replace(body, 'host-4', 'host-5') AS BLOB) WHERE revision = 4")

    assert "revision 4" in refusal(directory, DamagedJournal)


def test_swapped_entries_are_refused(directory: Path) -> None:
    """A good body under another revision is damage too."""
    change(
        directory,
        "UPDATE entries SET (checksum, body) = (SELECT checksum, body FROM entries WHERE revision = 5)"
        " WHERE revision = 6",
    )

    assert "revision 6" in refusal(directory, DamagedJournal)


def test_a_missing_table_is_damage(directory: Path) -> None:
    """A file with our mark but without entries' table was damaged."""
    change(directory, "DROP TABLE entries")

    refusal(directory, DamagedJournal)


def test_a_damaged_page_is_refused(directory: Path) -> None:
    """What SQLite finds wrong with a page is found on opening."""
    path = directory / database.NAME
    content = bytearray(path.read_bytes())
    content[4096:4196] = bytes(100)
    path.write_bytes(content)

    refusal(directory, DamagedJournal)

    assert path.read_bytes() == content


def test_a_missing_wal_after_a_clean_end_is_no_matter(directory: Path) -> None:
    """A journal that was closed is whole in its one file."""
    for path in directory.glob("*-wal"):
        path.unlink()

    journal = SqliteJournal(directory)
    assert journal.load().revision == 9
    journal.close()


def test_a_full_disk_fails_the_append_and_nothing_else(directory: Path) -> None:
    """After a failed append nothing of it is there; the journal is loaded and appended to as before."""
    journal = SqliteJournal(directory)
    journal.load()
    assert journal._writer is not None
    ((pages,),) = journal._writer.execute("PRAGMA page_count")
    journal._writer.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(NotWritten, match="disk is full: free some space"):
        journal.append(9, hosts(10, 900))
    with pytest.raises(NotWritten, match="load it again"):
        journal.append(9, hosts(10, 10))

    recovered = journal.load()
    assert recovered.revision == 9
    assert_same(recovered.fleet, folded(hosts(1, 9)))
    journal.append(9, hosts(10, 900))
    assert journal.load().revision == 900
    journal.close()


def test_a_write_that_is_refused_fails_the_append(directory: Path) -> None:
    """A journal that turned read-only says so, and can be loaded again."""
    journal = SqliteJournal(directory)
    journal.load()
    assert journal._writer is not None
    journal._writer.execute("PRAGMA query_only = 1")

    with pytest.raises(NotWritten, match="writable"):
        journal.append(9, hosts(10, 10))

    assert journal.load().revision == 9
    journal.close()


def test_a_failed_commit_names_the_remedy(directory: Path) -> None:
    """The commit itself may fail after it reached the disk; only a load tells."""
    journal = SqliteJournal(directory)
    journal.load()
    tire(journal, is_written=True)
    with pytest.raises(AppendUnknown, match="check the disk"):
        journal.append(9, hosts(10, 10))
    with pytest.raises(NotWritten, match="load it again"):
        journal.append(9, hosts(10, 10))
    journal.close()


def wal_size(directory: Path) -> int:
    return (directory / f"{database.NAME}-wal").stat().st_size


@pytest.fixture
def killed(directory: Path, tmp_path: Path) -> Path:
    """A journal as a killed process leaves it: its last commits stand in the log alone."""
    left = tmp_path / "killed"
    journal = SqliteJournal(directory)
    journal.load()
    journal.append(9, hosts(10, 10))
    left.mkdir(0o700)
    for name in (database.NAME, f"{database.NAME}-wal"):
        shutil.copy(directory / name, left / name)
    journal.close()
    return left


def test_commits_in_the_log_are_synced_before_a_load_shows_them(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be killed between write and sync of a commit; VMs see it only when it is durable."""
    log = (killed / f"{database.NAME}-wal").stat().st_ino
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    journal = SqliteJournal(killed)

    assert journal.load().revision == 10
    assert synced.index(log) < synced.index(killed.stat().st_ino)
    journal.close()


def test_a_load_fails_while_the_log_cannot_be_synced(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shown that may be lost with the power; the next load tries again."""

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = SqliteJournal(killed)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(JournalFailed, match="check the disk"):
            journal.load()

    assert journal.load().revision == 10
    journal.close()


def test_a_commit_of_unknown_outcome_is_on_the_disk_before_a_load_shows_it(directory: Path) -> None:
    """A commit whose sync failed may be readable and yet be lost with the power: the load writes it through."""
    journal = SqliteJournal(directory)
    journal.load()
    tire(journal, is_written=True)
    with pytest.raises(AppendUnknown):
        journal.append(9, hosts(10, 10))

    assert journal.load().revision == 10
    assert wal_size(directory) == 0
    journal.close()


def test_a_load_fails_while_a_commit_of_unknown_outcome_cannot_be_settled(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the log cannot be written through, nobody is told that the commit is durable."""
    opened = database.open_writer

    def impatient(path: Path) -> sqlite3.Connection:
        writer = opened(path)
        writer.execute("PRAGMA busy_timeout = 0")
        return writer

    monkeypatch.setattr(database, "open_writer", impatient)
    journal = SqliteJournal(directory)
    journal.load()
    journal.append(9, hosts(10, 10))
    with database.reading(directory / database.NAME) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entries").fetchone()
        tire(journal, is_written=True)
        with pytest.raises(AppendUnknown):
            journal.append(10, hosts(11, 11))
        with pytest.raises(JournalFailed, match="kept busy"):
            journal.load()
        with pytest.raises(NotWritten):
            journal.append(10, hosts(11, 11))

    assert journal.load().revision == 11
    journal.close()


def test_a_commit_that_is_not_shown_cannot_come_back(directory: Path) -> None:
    """A commit that stands in the log behind its end would be found after a crash: the load removes it."""
    journal = SqliteJournal(directory)
    journal.load()
    journal.append(9, hosts(10, 10))
    with database.reading(directory / database.NAME) as reader:  # it keeps the log's end as it is
        reader.execute("SELECT * FROM entries").fetchone()
        log = directory / f"{database.NAME}-wal"
        before = log.read_bytes()
        last_commit = before[-(4096 + 24) :]
        tire(journal, is_written=False)
        with pytest.raises(AppendUnknown):
            journal.append(10, hosts(11, 11))
        log.write_bytes(before + last_commit)

        assert journal.load().revision == 10
        assert wal_size(directory) == 0
    journal.close()


@pytest.mark.parametrize(
    "gone", [(database.NAME,), (f"{database.NAME}-wal",), (database.NAME, f"{database.NAME}-wal")]
)
def test_nothing_is_written_to_a_file_that_was_removed(directory: Path, gone: tuple[str, ...]) -> None:
    """What is written to a file without a name is lost with the process, so it is not acknowledged."""
    journal = SqliteJournal(directory)
    journal.load()
    journal.append(9, hosts(10, 10))
    for name in gone:
        (directory / name).unlink()

    with pytest.raises(NotWritten, match="removed or replaced while it was in use: put it back"):
        journal.append(10, hosts(11, 11))
    journal.close()


def test_a_removed_journal_is_not_begun_anew_while_it_is_in_use(directory: Path) -> None:
    """A load after a failure never makes an empty fleet of a missing file, nor its directory."""
    journal = SqliteJournal(directory)
    journal.load()
    shutil.rmtree(directory)

    with pytest.raises(JournalFailed, match="was removed while it was in use"):
        journal.load()
    assert not directory.exists()
    with pytest.raises(JournalFailed, match="was removed while it was in use"):
        journal.load()
    journal.close()


def test_a_journal_that_was_replaced_is_loaded_if_it_holds_all_that_was_written(directory: Path) -> None:
    """A copy that is put in its place is gone on with; an older one, or another journal, is not."""
    journal = SqliteJournal(directory)
    journal.load()
    older = shutil.copytree(directory, directory.parent / "older")
    journal.append(9, hosts(10, 10))
    equal = shutil.copytree(directory, directory.parent / "equal")

    def replace_by(copy: Path) -> None:
        for name in (database.NAME, f"{database.NAME}-wal", f"{database.NAME}-shm"):
            (copy / name).replace(directory / name)

    replace_by(older)
    with pytest.raises(NotWritten, match="replaced"):
        journal.append(10, hosts(11, 11))
    with pytest.raises(JournalFailed, match=r"lacks revision 10: put the right file back, or restart"):
        journal.load()
    replace_by(equal)
    assert journal.load().revision == 10
    journal.append(10, hosts(11, 11))
    journal.close()


def test_an_unfinished_beginning_is_begun_again(tmp_path: Path) -> None:
    """A crash while the file is made leaves another name, which the next start removes."""
    for ending in (".new", ".new-wal", ".new-journal"):
        (tmp_path / f"{database.NAME}{ending}").write_bytes(b"half")

    journal = SqliteJournal(tmp_path)
    assert journal.load().revision == 0
    journal.close()

    assert not list(tmp_path.glob("*.new*"))


TEN_BODIES = sum(len(body) for _, _, body in pack(hosts(1, 10)))


@pytest.mark.end_to_end
@pytest.mark.parametrize(("entries", "size"), [(10, 1 << 30), (1000, TEN_BODIES)])
def test_a_snapshot_is_due_after_so_many_entries_or_bytes(directory: Path, entries: int, size: int) -> None:
    """Both are counted across restarts, and anew after a snapshot."""
    journal = SqliteJournal(directory, snapshot_entries=entries, snapshot_bytes=size)
    due = []

    def look(*, load: bool = True) -> None:
        if load:
            journal.load()
        due.append(journal.snapshot_due)

    look()
    journal.append(9, hosts(10, 10))
    look(load=False)
    look()
    journal.take_snapshot()
    look(load=False)
    look()
    journal.close()

    assert due == [False, True, True, False, False]


@pytest.mark.end_to_end
def test_compaction_deletes_what_is_old_and_below_two_snapshots(tmp_path: Path) -> None:
    """Entries older than the history go, a few at a time; fleet and kept history stay as they were."""
    journal = SqliteJournal(tmp_path, history=timedelta(seconds=5))
    journal.load()
    journal.append(0, hosts(1, 20))
    journal.take_snapshot()
    assert not journal.compact()
    assert len(list(journal.entries())) == 20, "one snapshot alone lets nothing go"
    journal.append(20, hosts(21, 22))
    journal.take_snapshot()

    steps = [journal.compact(limit=4) for _ in range(5)]

    assert steps == [True, True, True, True, False]
    assert list(journal.entries()) == hosts(20, 22), "the older snapshot's own stays"
    assert journal.history("caller:ada") == hosts(20, 22)
    assert journal.history("host:host-3") == []
    recovered = journal.load()
    assert (recovered.revision, recovered.warnings) == (22, ())
    assert_same(recovered.fleet, folded(hosts(1, 22)))
    journal.close()


@pytest.mark.end_to_end
def test_how_long_history_is_kept_may_change_while_it_runs(tmp_path: Path) -> None:
    """From the next snapshot on."""
    journal = SqliteJournal(tmp_path, history=timedelta(days=1))
    journal.load()
    journal.append(0, hosts(1, 20))
    journal.take_snapshot()
    journal.append(20, hosts(21, 22))
    journal.keep_history(timedelta(seconds=5))
    journal.take_snapshot(now=NOON + timedelta(seconds=22))
    journal.compact()

    assert list(journal.entries()) == hosts(17, 22)
    journal.close()


@pytest.mark.end_to_end
def test_compaction_keeps_what_the_older_snapshot_needs(tmp_path: Path) -> None:
    """Should the newest snapshot be damaged later, the older one and the entries after it make the same fleet."""
    journal = SqliteJournal(tmp_path, history=timedelta(0))
    journal.load()
    journal.append(0, hosts(1, 20))
    journal.take_snapshot()
    journal.append(20, hosts(21, 30))
    journal.take_snapshot()
    while journal.compact():
        pass
    assert list(journal.entries()) == hosts(20, 30)
    (tmp_path / "snapshot-30").write_bytes(b"damaged")

    recovered = journal.load()

    assert_same(recovered.fleet, folded(hosts(1, 30)))
    assert len(recovered.warnings) == 1
    assert "snapshot-30 is damaged" in recovered.warnings[0]
    assert journal.snapshot_due, "it is to be replaced soon"
    journal.close()


@pytest.mark.end_to_end
def test_a_failed_snapshot_is_told_in_one_sentence(directory: Path) -> None:
    """The sentence of the folding process is handed on, and appending goes on."""
    journal = SqliteJournal(directory)
    journal.load()
    change(directory, "UPDATE entries SET checksum = 1 WHERE revision = 5")

    with pytest.raises(JournalFailed, match=r"snapshots of .* failed: .* is damaged at revision 5") as failed:
        journal.take_snapshot()

    assert "\n" not in str(failed.value)
    journal.append(9, hosts(10, 10))
    journal.close()


@pytest.mark.end_to_end
def test_a_failed_snapshot_is_tried_again_after_a_tenth_as_many_entries(directory: Path) -> None:
    """Not at once, and not only after as many as between two snapshots."""
    journal = SqliteJournal(directory, snapshot_entries=30)
    journal.load()
    change(directory, "UPDATE entries SET checksum = 1 WHERE revision = 5")

    with pytest.raises(JournalFailed):
        journal.take_snapshot()

    due = [journal.snapshot_due]
    journal.append(9, hosts(10, 12))
    due.append(journal.snapshot_due)
    assert due == [False, True]
    journal.close()


@pytest.mark.end_to_end
def test_nobody_but_the_owner_may_read_the_journal(directory: Path) -> None:
    """It holds secrets of subscriptions: what is made is private, and what was left readable is made so at start."""
    directory.chmod(0o755)
    (directory / "driver").mkdir(exist_ok=True)
    (directory / "driver" / "48dd97c3-c5b3-5342-b1e3-c3e83b0c5c3a").touch()
    (directory / "others.txt").touch()
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = os.umask(0)
    try:
        journal = SqliteJournal(directory)
        journal.load()
        journal.append(9, hosts(10, 10))
        journal.take_snapshot()
    finally:
        os.umask(before)

    modes = {
        str(path.relative_to(directory)): stat.S_IMODE(path.stat().st_mode)
        for path in directory.rglob("*")
        if path.is_file()
    }
    journal.close()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert modes.pop("others.txt") == 0o644, "what is not ours is left alone"
    assert modes.keys() >= {"journal.sqlite3", "journal.sqlite3-wal", "journal.sqlite3-shm", "snapshot-10", "lock"}
    assert modes.keys() >= {"history.sqlite3", "fold-lock", "driver/48dd97c3-c5b3-5342-b1e3-c3e83b0c5c3a"}
    assert set(modes.values()) == {0o600}


def test_a_copied_journal_is_the_same_journal(directory: Path, tmp_path: Path) -> None:
    """Nothing in the file depends on where it stands."""
    shutil.copytree(directory, tmp_path / "copy")

    journal = SqliteJournal(tmp_path / "copy")
    assert journal.load().revision == 9
    journal.close()


def change(directory: Path, statement: str, *values: int) -> None:
    """Do to the journal what no release of ours does."""
    connection = sqlite3.connect(directory / database.NAME)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def test_a_commit_is_on_the_disk_when_it_returns(tmp_path: Path) -> None:
    """SQLite calls that FULL; with a write-ahead log its default may lose the last commits with the power."""
    writer = database.open_writer(tmp_path / "journal.db")
    try:
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
    finally:
        writer.close()
