"""What a driver remembers of each event survives it, line by line."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.clocks import ManualClock
from forewarn.drivers.progress_store import ImpactEnding, ProgressStore
from forewarn.drivers.run_record import KEPT, KEPT_FOR, RecordLocked
from forewarn.node.driver import ImpactDone, ImpactFailed, ImpactUnknown
from tests.drivers.impacts import NOW, impact


def progress_store(directory: Path | None, kept: int = KEPT) -> ProgressStore:
    return ProgressStore(directory, ManualClock(NOW), kept)


def test_nothing_written_is_nothing_begun(tmp_path: Path) -> None:
    """A page that was never opened says nothing, and reading it leaves no trace."""
    progress_file = progress_store(tmp_path / "new").read("one")

    assert (progress_file.begun, progress_file.steps, progress_file.ending) == (None, [], None)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "ending", [ImpactDone({"web-0": "h2"}, "moved"), ImpactFailed("no room"), ImpactUnknown("lost")]
)
def test_what_was_written_is_read_again(tmp_path: Path, ending: ImpactEnding) -> None:
    """Impact, steps and end come back as they were written."""
    asked = impact()
    with progress_store(tmp_path).held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        progress_file.note("reset", "web-0", boot="1")
        progress_file.end(ending)
    read = progress_store(tmp_path).read(asked.event.id)

    assert (read.begun, read.ending) == (asked, ending)
    step = read.step("reset", "web-0")
    assert step
    assert step.seen == {"boot": "1"}
    assert read.step("reset", "web-1") is None


def test_a_line_cut_off_spoils_nothing(tmp_path: Path) -> None:
    """What a power cut left of a line is no line, and the next one stands by itself."""
    asked = impact()
    with progress_store(tmp_path).held(asked.event.id) as progress_file:
        progress_file.begin(asked)
    with (tmp_path / asked.event.id).open("ab") as file:
        file.write(b'\n{"line":"ended","resu')
    assert progress_store(tmp_path).read(asked.event.id).ending is None
    with progress_store(tmp_path).held(asked.event.id) as progress_file:
        progress_file.end(ImpactDone())

    assert progress_store(tmp_path).read(asked.event.id).ending == ImpactDone()


def test_a_line_that_is_not_utf_8_is_no_line(tmp_path: Path) -> None:
    """The lines before it count."""
    asked = impact()
    with progress_store(tmp_path).held(asked.event.id) as progress_file:
        progress_file.begin(asked)
    with (tmp_path / asked.event.id).open("ab") as file:
        file.write(b'\n{"line":"\xff"}\n')

    assert progress_store(tmp_path).read(asked.event.id).begun == asked


def test_a_held_page_is_nobody_else_s(tmp_path: Path) -> None:
    """While somebody works on an event, others can neither take nor read it."""
    asked = impact()
    with progress_store(tmp_path).held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        with pytest.raises(RecordLocked):
            progress_store(tmp_path).read(asked.event.id)
        with pytest.raises(RecordLocked), progress_store(tmp_path).held(asked.event.id):
            pass


def test_old_pages_of_events_that_ended_are_forgotten(tmp_path: Path) -> None:
    """The directory does not grow for ever, and what may be forgotten is known."""
    for name, ends in (("ended", True), ("unfinished", False)):
        with progress_store(tmp_path).held(name) as progress_file:
            progress_file.begin(impact())
            if ends:
                progress_file.end(ImpactDone())
        os.utime(tmp_path / name, ((NOW - KEPT_FOR - timedelta(days=1)).timestamp(),) * 2)
    kept = progress_store(tmp_path, kept=1)
    with kept.held("new"):
        pass
    kept = progress_store(tmp_path, kept=1)
    with kept.held("new"):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "unfinished"]
    assert kept.may_have_forgotten(NOW - KEPT_FOR)
    assert not kept.may_have_forgotten(NOW)


def test_a_lent_directory_goes_with_the_driver() -> None:
    """Where the node keeps nothing, neither does the store."""
    lent = progress_store(None)
    with lent.held("one") as progress_file:
        progress_file.begin(impact())
    assert lent.directory.exists()
    lent.close()

    assert not lent.directory.exists()


def test_every_line_is_on_the_disk_before_its_step_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could forget a step that was done."""
    synced: list[int] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    asked = impact()
    with progress_store(tmp_path).held(asked.event.id) as progress_file:
        monkeypatch.setattr(os, "fsync", noted)
        sizes = []
        for write in (
            lambda: progress_file.begin(asked),
            lambda: progress_file.note("reset", "web-0"),
            lambda: progress_file.end(ImpactDone()),
        ):
            write()
            sizes.append((tmp_path / asked.event.id).stat().st_size)

    assert synced == sizes
