"""Times as people read and write them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from forewarn.cli.times import clock, command_time, key_prefix, read_past, read_seconds, read_time, relative, span
from forewarn.core.errors import BadInput

NOW = datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _in_paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand an hour east of UTC in winter."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+20m", "2026-01-31T12:20:00.500000+00:00"),
        ("+90", "2026-01-31T12:01:30.500000+00:00"),
        ("14:32", "2026-01-31T13:32:00+00:00"),
        ("13:00", "2026-02-01T12:00:00+00:00"),
        ("9:05:30", "2026-02-01T08:05:30+00:00"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00+00:00"),
        ("2026-03-01T10:00:00", "2026-03-01T09:00:00+00:00"),
        ("2026-07-01 10:00", "2026-07-01T08:00:00+00:00"),
        ("2026-03-01T10:00:00-05:00", "2026-03-01T15:00:00+00:00"),
    ],
)
def test_a_time_is_read_as_it_is_meant(text: str, expected: str) -> None:
    """From now, by the clock on the wall (tomorrow if that is past), or in full; local unless it names a zone."""
    assert read_time(text, NOW).isoformat() == expected


@pytest.mark.parametrize("text", ["", "soon", "25:00", "+", "+soon", "12", "14:32:61", "2026-13-01", "noon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"duration|isoformat|month|hour|second"):
        read_time(text, NOW)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "now"),
        (-0.2, "just now"),
        (-3, "3 s ago"),
        (1, "in 1 s"),
        (90, "in 90 s"),
        (14 * 60, "in 14 min"),
        (3 * 3_600, "in 3 h"),
        (-50 * 3_600, "2 days ago"),
    ],
)
def test_how_far_away_a_time_is(seconds: float, said: str) -> None:
    """In the one unit that suits it."""
    assert relative(NOW + timedelta(seconds=seconds), NOW) == said


@pytest.mark.parametrize(("seconds", "said"), [(0.45, "0.5 s"), (2, "2 s"), (61, "61 s"), (900, "15 min")])
def test_how_long_something_takes(seconds: float, said: str) -> None:
    """Short times to a tenth of a second."""
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(minutes=20), "13:20 CET"),
        (timedelta(seconds=15), "13:00:15 CET"),
        (timedelta(days=1), "Sun 1 Feb 13:00 CET"),
        (timedelta(days=90), "Fri 1 May 14:00 CEST"),
    ],
)
def test_a_time_by_the_clock_is_local_and_names_its_zone(after: timedelta, said: str) -> None:
    """With seconds where they matter, with the day where it is another."""
    assert clock(NOW + after, NOW) == said


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-01-31T14:32:00Z", datetime(2026, 1, 31, 14, 32, tzinfo=UTC)),
        ("2026-01-31T15:32:00+01:00", datetime(2026, 1, 31, 14, 32, tzinfo=UTC)),
    ],
)
def test_a_past_time_can_be_written_as_people_do(written: str, meant: datetime) -> None:
    """A duration counts back from now."""
    assert read_past(written, NOW) == meant


def test_a_past_clock_time_is_the_last_time_the_clock_showed_it() -> None:
    """Never in the future, and never longer ago than a day."""
    for hour in range(24):
        when = read_past(f"{hour:02}:00", NOW)
        assert timedelta() <= NOW - when < timedelta(days=1)


def test_seconds_of_a_flag_are_written_as_a_duration() -> None:
    """What is none is refused in the words of every other setting."""
    assert read_seconds("1m30s", "--wait") == 90
    with pytest.raises(BadInput, match=r"^flag --wait is 'soon', expected a duration such as"):
        read_seconds("soon", "--wait")


def test_a_key_that_was_drawn_tells_when() -> None:
    """To the microsecond: a relative time is then the same again."""
    assert command_time(f"{key_prefix(NOW)}{uuid4()}") == NOW


@pytest.mark.parametrize(
    "key", [None, "monday", "20260301T120000.000000Z", "20269901T120000.000000Z-94a7edb2-aff3-427b-a795-675a646bbda8"]
)
def test_a_key_of_ones_own_tells_no_time(key: str | None) -> None:
    """A command with such a key is given now."""
    before = datetime.now(UTC)

    assert before <= command_time(key) <= datetime.now(UTC)
