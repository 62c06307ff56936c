"""The commands that copy a journal into one file and bring it back."""

from datetime import datetime
from pathlib import Path

import pytest

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
    result = forewarn("backup", "copy", "--overwrite", "--json").json
    assert (result["file"], result["revision"], result["entries"]) == ("copy", 9, 9)
    assert result["bytes"] == (tmp_path / "copy").stat().st_size


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
    result = forewarn("--data", "new", "restore", "copy", "--replace", "--json").json
    assert (result["directory"], result["revision"]) == ("new", 9)
    assert datetime.fromisoformat(result["made_at"]).tzinfo is not None


def test_where_there_is_no_journal_nothing_is_copied(forewarn: Forewarn) -> None:
    """Nor where there is no backup anything restored."""
    assert "there is no journal in" in forewarn("backup", "copy").err
    assert (
        forewarn("restore", "copy").err
        == "forewarn: there is no file copy; name a file that 'forewarn backup' made\n"
    )


@pytest.mark.parametrize("command", [("backup", "copy"), ("restore", "copy"), ("journal", "verify")])
def test_a_journal_without_files_is_refused(
    forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """These commands know the files of SQLite; the settings tell that there are none."""
    monkeypatch.setenv("FOREWARN_JOURNAL", "memory:")
    said = forewarn(*command)

    assert said.code == 2
    assert said.err == (
        "forewarn: the journal is 'memory', and this command works on the files of 'sqlite' only;"
        " name the data directory of another service with 'forewarn --data DIR'\n"
    )


def test_the_settings_say_where_the_journal_is(
    forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the file, or in the environment; where a data directory is named, the file is not asked."""
    journal(tmp_path / "journal", 3)
    (tmp_path / "forewarn.toml").write_text('data = "data"\njournal = "sqlite:../journal"\n', encoding="utf-8")
    assert "there is no journal in" in forewarn("journal", "verify").err
    monkeypatch.setenv("FOREWARN_JOURNAL", "sqlite:journal")
    assert "up to revision 3" in forewarn("journal", "verify").out
    monkeypatch.delenv("FOREWARN_JOURNAL")
    monkeypatch.delenv("FOREWARN_DATA")

    assert "up to revision 3" in forewarn("journal", "verify").out
    assert forewarn("backup", "copy").code == 0
