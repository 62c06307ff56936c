"""The record of a run: what it says after any interruption."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.clocks import ManualClock
from forewarn.drivers import run_record
from forewarn.drivers.program_runner import BEGUN, CompletedRun
from forewarn.drivers.run_record import RecordLocked, RunLost
from tests.drivers.impacts import NOW

END = b'[7,false,"","out","err"]\n'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", None),
        (BEGUN, RunLost()),
        (BEGUN + END, CompletedRun(7, timed_out=False, problem="", stdout="out", stderr="err")),
        (BEGUN + b"[7\n", RunLost()),
        (BEGUN + b"[7" + BEGUN, RunLost()),
        (BEGUN + b"[7" + BEGUN + END, CompletedRun(7, timed_out=False, problem="", stdout="out", stderr="err")),
        (b"\n", RunLost()),
        (BEGUN + b'[7,false,"","\xff",""]\n', RunLost()),
    ],
)
def test_a_record_says_how_far_the_run_came(content: bytes, says: object) -> None:
    """Empty is not begun; begun without an end is lost; an end is an end."""
    assert run_record.parse(content) == says


@given(st.integers(1, len(BEGUN + END) - 2))
def test_a_record_cut_off_anywhere_claims_no_end(length: int) -> None:
    """What a crash cut off is never taken for an end, nor for nothing begun."""
    assert run_record.parse((BEGUN + END)[:length]) == RunLost()


@given(st.binary(min_size=1))
def test_a_damaged_record_is_never_taken_for_not_begun(content: bytes) -> None:
    """Whatever stands in a record, something was begun."""
    assert run_record.parse(content) is not None


def test_reading_makes_no_record(tmp_path: Path) -> None:
    """Asking leaves nothing behind."""
    assert run_record.read(tmp_path / "one") is None
    assert list(tmp_path.iterdir()) == []


def test_a_held_record_is_locked_for_all_others(tmp_path: Path) -> None:
    """While one holds it, others learn that it is held, and afterwards what it says."""
    with run_record.hold_record(tmp_path / "one") as (descriptor, says):
        assert says is None
        os.write(descriptor, BEGUN)
        with pytest.raises(RecordLocked):
            run_record.read(tmp_path / "one")
        with pytest.raises(RecordLocked), run_record.hold_record(tmp_path / "one"):
            pass
    assert run_record.read(tmp_path / "one") == RunLost()


def test_who_inherits_the_descriptor_holds_the_record(tmp_path: Path) -> None:
    """The record stays locked until the last holder lets go."""
    with run_record.hold_record(tmp_path / "one") as (descriptor, _):
        heir = os.dup(descriptor)
    with pytest.raises(RecordLocked):
        run_record.read(tmp_path / "one")
    os.close(heir)

    assert run_record.read(tmp_path / "one") is None


def begin_records(directory: Path, *contents: bytes) -> None:
    """Write records that are two months old, each newer than the one before it."""
    for number, content in enumerate(contents):
        (directory / f"{number}").write_bytes(content)
        at = (NOW - 2 * run_record.KEPT_FOR + timedelta(seconds=number)).timestamp()
        os.utime(directory / f"{number}", (at, at))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_only_old_records_of_ended_events_are_deleted(tmp_path: Path) -> None:
    """The newest stay whatever their age, and so does what was begun and has not ended; once a day."""
    begin_records(tmp_path, b"ended", b"begun", b"", b"ended", b"ended")
    clock = ManualClock(NOW)
    retention = run_record.Retention(clock, lambda content: content == b"ended", kept=1)
    retention.sweep(tmp_path)

    assert names(tmp_path) == ["1", "4"]
    begin_records(tmp_path, b"ended")
    retention.sweep(tmp_path)
    assert names(tmp_path) == ["0", "1", "4"]
    clock.advance(timedelta(days=2))
    retention.sweep(tmp_path)
    assert names(tmp_path) == ["1", "4"]


def test_a_clock_ten_years_ahead_deletes_no_record_that_is_asked_for(tmp_path: Path) -> None:
    """Of ten thousand records the newest are kept; after the clock was set back, sweeping goes on."""
    begin_records(tmp_path, b"ended", b"ended", b"ended")
    clock = ManualClock(NOW)
    retention = run_record.Retention(clock, bool, kept=3)
    clock.step(timedelta(days=3650))
    retention.sweep(tmp_path)
    assert names(tmp_path) == ["0", "1", "2"]
    clock.step(timedelta(days=-3650))
    clock.advance(timedelta(days=2))
    begin_records(tmp_path, b"ended", b"ended", b"ended", b"ended")
    retention.sweep(tmp_path)

    assert names(tmp_path) == ["1", "2", "3"]
