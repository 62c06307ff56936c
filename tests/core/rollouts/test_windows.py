"""Maintenance windows: when they open and close, also where clocks are changed."""

from datetime import UTC, datetime, timedelta

import pytest

from forewarn.core.errors import Refused
from forewarn.core.rollouts.windows import check, next_start, open_until

HOUR = timedelta(hours=1)
NIGHT = ("Sat,Sun 02:00-06:00",)
BERLIN = ("02:00-04:00 Europe/Berlin",)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_window_is_open_from_its_beginning_to_its_end() -> None:
    """The end itself is outside."""
    assert open_until(NIGHT, (), at("2026-01-03 01:59:59")) is None
    assert open_until(NIGHT, (), at("2026-01-03 02:00:00")) == at("2026-01-03 06:00:00")
    assert open_until(NIGHT, (), at("2026-01-03 06:00:00")) is None


def test_without_windows_it_is_always_open() -> None:
    """Nothing is held up."""
    assert next_start((), (), at("2026-01-01 00:00:00"), 100 * HOUR) == at("2026-01-01 00:00:00")


def test_what_does_not_end_inside_a_window_starts_in_the_next_one() -> None:
    """Half an hour before the end, an hour has no room."""
    assert next_start(NIGHT, (), at("2026-01-03 05:30:00"), HOUR) == at("2026-01-04 02:00:00")
    assert next_start(NIGHT, (), at("2026-01-04 05:30:00"), HOUR) == at("2026-01-10 02:00:00")


def test_windows_that_touch_are_one() -> None:
    """A host that takes five hours fits into two nights that follow each other at midnight."""
    windows = ("Sat 20:00-24:00", "Sun 00:00-04:00")
    assert open_until(windows, (), at("2026-01-03 21:00:00")) == at("2026-01-04 04:00:00")


def test_a_window_of_the_fleet_counts_as_well() -> None:
    """Both must be open."""
    assert next_start(NIGHT, ("04:00-05:00",), at("2026-01-03 00:00:00"), HOUR) == at("2026-01-03 04:00:00")


def test_a_window_that_clocks_skip_opens_when_they_are_put_forward() -> None:
    """On 29 March 2026 clocks in Berlin go from 02:00 to 03:00, which is 01:00 UTC."""
    assert next_start(BERLIN, (), at("2026-03-28 12:00:00"), HOUR) == at("2026-03-29 01:00:00")
    assert open_until(BERLIN, (), at("2026-03-29 01:30:00")) == at("2026-03-29 02:00:00")
    assert next_start(("02:10-02:50 Europe/Berlin",), (), at("2026-03-29 00:00:00"), timedelta(0)) == at(
        "2026-03-30 00:10:00"
    )


def test_a_window_opens_when_clocks_first_show_it() -> None:
    """On 25 October 2026 clocks in Berlin show 02:00 to 03:00 twice, first at 00:00 UTC."""
    assert next_start(BERLIN, (), at("2026-10-24 12:00:00"), HOUR) == at("2026-10-25 00:00:00")
    assert open_until(BERLIN, (), at("2026-10-25 00:00:00")) == at("2026-10-25 03:00:00")
    assert open_until(("02:00-02:30 Europe/Berlin",), (), at("2026-10-25 00:00:00")) == at("2026-10-25 00:30:00")


def test_windows_that_are_always_open_never_close() -> None:
    """Whole days that follow each other."""
    until = open_until(("00:00-24:00",), (), at("2026-01-03 21:00:00"))
    assert until is not None
    assert until > at("2030-01-01 00:00:00")


def test_windows_that_are_never_open_together_are_refused() -> None:
    """The remedy is in the refusal."""
    with pytest.raises(Refused, match="never open together; change one of them"):
        check(("Sat 02:00-06:00",), ("Sun 02:00-06:00",), at("2026-01-01 00:00:00"), HOUR)


def test_windows_too_short_for_a_host_are_refused() -> None:
    """Nothing could ever start."""
    with pytest.raises(Refused, match="no window is long enough"):
        check(("Sat 02:00-02:30",), (), at("2026-01-01 00:00:00"), HOUR)


def test_a_window_that_cannot_be_read_is_refused() -> None:
    """By its own name, not as quiet hours."""
    with pytest.raises(Refused, match="maintenance window 'Satday 2-6' cannot be read"):
        check(("Satday 2-6",), (), at("2026-01-01 00:00:00"), HOUR)


def test_windows_of_distant_time_zones_open_in_their_order() -> None:
    """What is a day later in Kiribati can be earlier than today's window in Samoa: at 10:00 UTC, not at 07:00."""
    windows = ("20:00-21:00 Pacific/Pago_Pago", "00:00-01:00 Pacific/Kiritimati")
    assert next_start(windows, (), at("2026-01-03 08:30:00"), HOUR) == at("2026-01-03 10:00:00")
    assert next_start(windows, (), at("2026-01-03 11:30:00"), HOUR) == at("2026-01-04 07:00:00")
