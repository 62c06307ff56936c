"""How durations are written."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.config.durations import read_duration, show_duration, show_iso_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0", 0),
        ("90s", 90),
        ("15m", 900),
        ("15 min", 900),
        ("1h30m", 5_400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("0.5s", 0.5),
        ("PT15M", 900),
        ("pt5m30s", 330),
        ("P1DT1H", 90_000),
        (" 20m ", 1_200),
    ],
)
def test_a_duration_is_read_as_people_and_as_azure_write_it(text: str, seconds: float) -> None:
    """Short units, ISO 8601, or plain seconds."""
    assert read_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "15x", "-5m", "P", "PT", "1m1h", "15m soon", "1e3s", "\u0663m", "999999999w"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="duration"):
        read_duration(text)


@given(st.integers(0, 10**9), st.integers(0, 999_999))
def test_a_shown_duration_reads_back(seconds: int, micros: int) -> None:
    """What is shown can be typed."""
    duration = timedelta(seconds=seconds, microseconds=micros)

    assert read_duration(show_duration(duration)) == duration


@given(st.integers(0, 100_000))
def test_a_notice_is_shown_as_azure_does(seconds: int) -> None:
    """PT10M, and it reads back."""
    assert read_duration(show_iso_duration(seconds)).total_seconds() == seconds


def test_ten_minutes_are_pt10m() -> None:
    """The spelling Azure's own tools use."""
    assert show_iso_duration(600) == "PT10M"
