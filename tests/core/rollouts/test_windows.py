"""Maintenance windows: when they open and close, also where clocks are changed."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from forewarn.core.errors import Refused
from forewarn.core.rollouts.windows import NEVER, check, held_until, next_start, open_until
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

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


def test_windows_that_are_never_open_together_let_nothing_start() -> None:
    """Also where one ends when the other begins."""
    for fleet in (("Sun 02:00-06:00",), ("Sat 06:00-08:00",)):
        assert open_until(("Sat 02:00-06:00",), fleet, at("2026-01-03 04:00:00")) is None
        assert next_start(("Sat 02:00-06:00",), fleet, at("2026-01-03 04:00:00"), timedelta(0)) is None
        with pytest.raises(Refused, match="never open together; change one of them"):
            check(("Sat 02:00-06:00",), fleet, at("2026-01-01 00:00:00"), HOUR)


def test_windows_of_the_fleet_must_be_long_enough_as_well() -> None:
    """Where the rollout has none; and where nobody has any, nothing is too long."""
    with pytest.raises(Refused, match=r"one host takes about 60 min, and the rollout's windows \(any time\)"):
        check((), ("Sat 02:00-02:30",), at("2026-01-01 00:00:00"), HOUR)
    check((), (), at("2026-01-01 00:00:00"), 1_000 * HOUR)


def test_a_window_is_quoted_as_it_was_written() -> None:
    """Whatever it says."""
    with pytest.raises(Refused, match=r"^maintenance window 'quiet hours' cannot be read"):
        check(("quiet hours",), (), at("2026-01-01 00:00:00"), HOUR)


def test_an_event_is_held_until_its_host_can_end_inside_a_window() -> None:
    """One that never can is held for ever."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 windows=12:00-13:00 expected=600")
    assert held_until(harness.rollout, NOON) is None
    assert held_until(harness.rollout, NOON + timedelta(minutes=50)) is None
    assert held_until(harness.rollout, NOON + timedelta(minutes=51)) == NOON + timedelta(days=1)
    assert held_until(replace(harness.rollout, lasts=7_200), NOON) == NEVER


HALF_HOUR = timedelta(minutes=30)
ZONES = {"": 0.0, " Pacific/Pago_Pago": -11, " Pacific/Kiritimati": 14, " Asia/Kolkata": 5.5}
"""Zones in which clocks are not changed, and their hours before UTC."""
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class SimpleWindow(NamedTuple):
    """A window in half hours of the week."""

    days: frozenset[int]
    begins: int
    lasts: int
    zone: str

    @property
    def written(self) -> str:
        end = self.begins + self.lasts if self.begins + self.lasts <= 48 else self.begins + self.lasts - 48
        times = "-".join(f"{each // 2:02}:{each % 2 * 30:02}" for each in (self.begins, end))
        return f"{','.join(DAYS[day] for day in sorted(self.days))} {times}{self.zone}"

    def is_open(self, now: datetime) -> bool:
        here = now + timedelta(hours=ZONES[self.zone])
        half_hours = here.weekday() * 48 + here.hour * 2 + here.minute // 30
        return any((half_hours - day * 48 - self.begins) % 336 < self.lasts for day in self.days)


def is_open(one: list[SimpleWindow], other: list[SimpleWindow], now: datetime) -> bool:
    return all(not each or any(window.is_open(now) for window in each) for each in (one, other))


SOME_WINDOWS = st.lists(
    st.builds(
        SimpleWindow,
        st.frozensets(st.integers(0, 6), min_size=1),
        st.integers(0, 47),
        st.integers(1, 47),
        st.sampled_from(list(ZONES)),
    ),
    max_size=3,
)
MONDAY = at("2026-01-05 00:00:00")
ALL_WEEK = frozenset(range(7))


@given(SOME_WINDOWS, SOME_WINDOWS, st.integers(0, 335), st.integers(0, 60))
@example([SimpleWindow(frozenset({5}), 28, 47, " Pacific/Pago_Pago")], [], 0, 1)
@example([SimpleWindow(ALL_WEEK, 4, 8, "")], [SimpleWindow(frozenset({5}), 0, 47, "")], 10, 9)
@example([SimpleWindow(ALL_WEEK, 0, 20, ""), SimpleWindow(ALL_WEEK, 4, 2, "")], [], 2, 18)
@example([SimpleWindow(frozenset({1, 3}), 4, 8, "")], [SimpleWindow(ALL_WEEK, 2, 4, "")], 60, 2)
def test_windows_are_open_as_a_calendar_of_half_hours_shows_it(
    own: list[SimpleWindow], fleet: list[SimpleWindow], begin: int, lasts: int
) -> None:
    """In every zone, overlapping or not, of the rollout and of the fleet."""
    now = MONDAY + begin * HALF_HOUR
    calendar = [is_open(own, fleet, now + number * HALF_HOUR) for number in range(3 * 336)]
    written = tuple(each.written for each in own), tuple(each.written for each in fleet)
    closes = now + calendar.index(False) * HALF_HOUR if False in calendar else None
    until = open_until(*written, now)
    assert (
        (until is not None and until > MONDAY + timedelta(days=50))
        if not closes
        else until == (closes if closes > now else None)
    )
    fits = (n for n in range(336) if all(calendar[n : n + lasts]) and calendar[n])
    first = next(fits, None)
    assert next_start(*written, now, lasts * HALF_HOUR) == (None if first is None else now + first * HALF_HOUR)
