"""The commands that copy a journal into one file and bring it back."""

from datetime import datetime
from pathlib import Path

from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.testing.journal_contract import hosts
from tests.cli.conftest import Forewarn


def journal(directory: Path, last: int) -> None:
    kept = SqliteJournal(directory)
    kept.load()
    kept.append(0, hosts(1, last))
    kept.close()


def test_a_backup_is_told_with_its_revision_and_counts(forewarn: Forewarn, tmp_path: Path) -> None:
    """In words and as JSON; an existing file is kept unless told otherwise."""
    journal(tmp_path, 9)

    said = forewarn("backup", "copy")
    assert said.code == 0
    assert said.out == (
        "copy holds revision 9 of 2026-03-01T12:00:09Z (entries: 9, snapshots: 0, unfinished events: 0);"
        " every entry and checksum in it was verified\n"
    )
    assert forewarn("backup", "copy").code == 1
    told = forewarn("backup", "copy", "--overwrite", "--json").json
    assert (told["file"], told["revision"], told["entries"]) == ("copy", 9, 9)
    assert told["bytes"] == (tmp_path / "copy").stat().st_size


def test_a_backup_is_restored_and_told(forewarn: Forewarn, tmp_path: Path) -> None:
    """A directory that holds a journal is refused unless it may be set aside."""
    journal(tmp_path, 9)
    forewarn("backup", "copy")

    said = forewarn("restore", "copy", "--data", "new")
    assert (said.code, said.out.partition("; the copy was made ")[0]) == (
        0,
        "new holds revision 9 of 2026-03-01T12:00:09Z (entries: 9, snapshots: 0, unfinished events: 0)",
    )
    assert forewarn("--data", "new", "restore", "copy").code == 1
    told = forewarn("--data", "new", "restore", "copy", "--replace", "--json").json
    assert (told["directory"], told["revision"]) == ("new", 9)
    assert datetime.fromisoformat(told["made_at"]).tzinfo is not None


def test_where_there_is_no_journal_nothing_is_copied(forewarn: Forewarn) -> None:
    """Nor where there is no backup anything restored."""
    assert "there is no journal in" in forewarn("backup", "copy").err
    assert (
        forewarn("restore", "copy").err
        == "forewarn: there is no file copy; name a file that 'forewarn backup' made\n"
    )
