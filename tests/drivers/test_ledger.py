"""What a driver remembers of each event survives it, line by line."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.clocks import ManualClock
from forewarn.drivers import record
from forewarn.drivers.ledger import Ending, Ledger
from forewarn.drivers.record import KEPT_FOR, Locked
from forewarn.node.driver import Done, Failed, Unknowable
from tests.drivers.impacts import NOW, impact


def ledger(directory: Path | None) -> Ledger:
    return Ledger(directory, ManualClock(NOW))


def test_nothing_written_is_nothing_begun(tmp_path: Path) -> None:
    """A page that was never opened says nothing, and reading it leaves no trace."""
    page = ledger(tmp_path / "new").read("one")

    assert (page.begun, page.steps, page.ending) == (None, [], None)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("ending", [Done({"web-0": "h2"}, "moved"), Failed("no room"), Unknowable("lost")])
def test_what_was_written_is_read_again(tmp_path: Path, ending: Ending) -> None:
    """Impact, steps and end come back as they were written."""
    asked = impact()
    with ledger(tmp_path).held(asked.event.id) as page:
        page.begin(asked)
        page.note("reset", "web-0", boot="1")
        page.end(ending)
    read = ledger(tmp_path).read(asked.event.id)

    assert (read.begun, read.ending) == (asked, ending)
    step = read.step("reset", "web-0")
    assert step
    assert step.seen == {"boot": "1"}
    assert read.step("reset", "web-1") is None


def test_a_line_cut_off_spoils_nothing(tmp_path: Path) -> None:
    """What a power cut left of a line is no line, and the next one stands by itself."""
    asked = impact()
    with ledger(tmp_path).held(asked.event.id) as page:
        page.begin(asked)
    with (tmp_path / asked.event.id).open("ab") as file:
        file.write(b'\n{"line":"ended","resu')
    assert ledger(tmp_path).read(asked.event.id).ending is None
    with ledger(tmp_path).held(asked.event.id) as page:
        page.end(Done())

    assert ledger(tmp_path).read(asked.event.id).ending == Done()


def test_a_line_that_is_not_utf_8_is_no_line(tmp_path: Path) -> None:
    """The lines before it count."""
    asked = impact()
    with ledger(tmp_path).held(asked.event.id) as page:
        page.begin(asked)
    with (tmp_path / asked.event.id).open("ab") as file:
        file.write(b'\n{"line":"\xff"}\n')

    assert ledger(tmp_path).read(asked.event.id).begun == asked


def test_a_held_page_is_nobody_else_s(tmp_path: Path) -> None:
    """While somebody works on an event, others can neither take nor read it."""
    asked = impact()
    with ledger(tmp_path).held(asked.event.id) as page:
        page.begin(asked)
        with pytest.raises(Locked):
            ledger(tmp_path).read(asked.event.id)
        with pytest.raises(Locked), ledger(tmp_path).held(asked.event.id):
            pass


def test_old_pages_of_events_that_ended_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory does not grow for ever, and what may be forgotten is known."""
    monkeypatch.setattr(record.Retention.__init__, "__defaults__", (1,))
    for name, ends in (("ended", True), ("unfinished", False)):
        with ledger(tmp_path).held(name) as page:
            page.begin(impact())
            if ends:
                page.end(Done())
        os.utime(tmp_path / name, ((NOW - KEPT_FOR - timedelta(days=1)).timestamp(),) * 2)
    kept = ledger(tmp_path)
    with kept.held("new"):
        pass
    kept = ledger(tmp_path)
    with kept.held("new"):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "unfinished"]
    assert kept.may_have_forgotten(NOW - KEPT_FOR)
    assert not kept.may_have_forgotten(NOW)


def test_a_lent_directory_goes_with_the_driver() -> None:
    """Where the node keeps nothing, neither does the ledger."""
    lent = ledger(None)
    with lent.held("one") as page:
        page.begin(impact())
    assert lent.directory.exists()
    lent.close()

    assert not lent.directory.exists()
