"""The journal of the guide, cut off anywhere: whole batches are found, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from forewarn.plugins.journals import BadInput, DamagedJournal
from forewarn.testing.journal_contract import hosts
from tests.plugins.guides import printed_module


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[ModuleType]:
    with printed_module("write-a-journal.md", "lines", tmp_path) as module:
        yield module


@pytest.fixture
def written(lines: ModuleType, tmp_path: Path) -> bytes:
    """Return the file of a journal with two batches."""
    journal = lines.LinesJournal(tmp_path / "data" / "facts")
    journal.load()
    journal.append(0, hosts(1, 2))
    journal.append(2, hosts(3, 5))
    journal.close()
    return (tmp_path / "data" / "facts").read_bytes()


@pytest.mark.end_to_end
def test_a_file_that_was_cut_off_holds_whole_batches(
    lines: ModuleType, written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it ends; and it can be appended to."""
    # Hundreds of files are written, and nothing here depends on the disk.
    monkeypatch.setattr(lines.os, "fsync", lambda _: None)
    monkeypatch.setattr(lines, "sync_directory", lambda _: None)
    first = written.index(b"\n") + 1
    for length in range(len(written) + 1):
        file = tmp_path / "cut" / f"facts-{length}"  # a new one: some file systems sync one that is written over
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(written[:length])
        journal = lines.LinesJournal(file)
        last = 0 if length < first else 2 if length < len(written) else 5
        assert journal.load().revision == last
        journal.append(last, hosts(last + 1, last + 1))
        assert journal.load().revision == last + 1
        journal.close()


def test_damage_before_the_end_is_refused(lines: ModuleType, written: bytes, tmp_path: Path) -> None:
    """Nothing of the file is changed."""
    file = tmp_path / "data" / "facts"
    damaged = written.replace(b'"revision":1', b'"revision":9', 1)
    file.write_bytes(damaged)

    with pytest.raises(DamagedJournal, match="nothing was changed"):
        lines.LinesJournal(file).load()
    assert file.read_bytes() == damaged


def test_its_setting_names_a_file(lines: ModuleType, tmp_path: Path) -> None:
    """Without one it is refused, with the remedy."""
    with pytest.raises(BadInput, match="write lines:FILE"):
        lines.LinesJournal.from_settings("", tmp_path, None)
