"""Quiet hours: how they are written, and which moment falls into them."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.errors import Refused
from forewarn.core.quiet_hours import check, quiet_until, unreadable


def at(written: str) -> datetime:
    """Return a time of the first week of 2024, which begins with a Monday: ``Tue 23:15``."""
    day, _, clock = written.partition(" ")
    number = 1 + ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun").index(day)
    hour, _, minute = clock.partition(":")
    return datetime(2024, 1, number, int(hour), int(minute), tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "now", "until"),
    [
        ("11:00-13:00", "Mon 10:59", None),
        ("11:00-13:00", "Mon 11:00", "Mon 13:00"),
        ("11:00-13:00", "Mon 12:59", "Mon 13:00"),
        ("11:00-13:00", "Mon 13:00", None),
        ("22:00-06:00", "Mon 21:59", None),
        ("22:00-06:00", "Mon 22:00", "Tue 06:00"),
        ("22:00-06:00", "Tue 05:59", "Tue 06:00"),
        ("22:30-24:00", "Mon 23:00", "Tue 00:00"),
        ("00:59-01:59", "Mon 00:59", "Mon 01:59"),
    ],
)
def test_a_period_begins_with_its_first_minute_and_ends_before_its_last(
    written: str, now: str, until: str | None
) -> None:
    """One that ends before it begins goes over midnight."""
    assert quiet_until((written,), at(now)) == (at(until) if until else None)


@pytest.mark.parametrize(
    ("written", "quiet"),
    [
        ("Tue 08:00-09:00", {"Tue"}),
        ("sat,SUN 08:00-09:00", {"Sat", "Sun"}),
        ("Mon-Wed 08:00-09:00", {"Mon", "Tue", "Wed"}),
        ("Sat-Mon 08:00-09:00", {"Sat", "Sun", "Mon"}),
        ("Mon,Wed-Fri 08:00-09:00", {"Mon", "Wed", "Thu", "Fri"}),
        ("08:00-09:00", {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}),
    ],
)
def test_a_period_is_on_the_days_that_it_names(written: str, quiet: set[str]) -> None:
    """Single ones, several, a range that may go over the end of the week; all where none is named."""
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

    assert {day for day in days if quiet_until((written,), at(f"{day} 08:30"))} == quiet


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    """Friday's reaches into Saturday, and none begins there."""
    assert quiet_until(("Fri 22:00-06:00",), at("Sat 05:00")) == at("Sat 06:00")
    assert quiet_until(("Fri 22:00-06:00",), at("Sat 23:00")) is None
    assert quiet_until(("Fri 22:00-06:00",), at("Fri 05:00")) is None


@pytest.mark.parametrize(("month", "utc"), [(1, 7), (7, 6)], ids=["in winter", "in summer"])
def test_a_period_goes_by_the_clocks_of_its_zone(month: int, utc: int) -> None:
    """Eight in Berlin is another hour in UTC when clocks there have changed."""
    now = datetime(2024, month, 3, utc, 30, tzinfo=UTC)

    assert quiet_until(("08:00-09:00 Europe/Berlin",), now) == now.replace(hour=utc + 1, minute=0)


@pytest.mark.parametrize(
    ("written", "begins", "ends"),
    [
        ("01:00-04:00", "00:00", "02:00"),
        ("02:30-04:00", "01:00", "02:00"),
        ("01:00-02:30", "00:00", "01:30"),
        ("02:10-02:40", "01:00", "01:40"),
        ("03:00-04:00", "01:00", "02:00"),
    ],
    ids=["around it", "begins in it", "ends in it", "lies in it", "begins as it ends"],
)
def test_the_hour_that_clocks_skip(written: str, begins: str, ends: str) -> None:
    """A beginning in it is the moment clocks are put forward; an end in it comes no earlier than on other days."""
    night = date(2024, 3, 31)  # at 01:00 UTC clocks in Berlin go from 02:00 to 03:00

    assert stretch(f"{written} Europe/Berlin", night) == (begins, ends)


@pytest.mark.parametrize(
    ("written", "begins", "ends"),
    [
        ("01:00-04:00", "23:00", "03:00"),
        ("02:30-04:00", "00:30", "03:00"),
        ("01:00-02:30", "23:00", "01:30"),
        ("02:10-02:40", "00:10", "01:40"),
        ("03:00-04:00", "02:00", "03:00"),
    ],
    ids=["around it", "begins in it", "ends in it", "lies in it", "begins as it ends"],
)
def test_the_hour_that_clocks_show_twice(written: str, begins: str, ends: str) -> None:
    """A beginning in it is its first showing, an end in it its second; all between them is quiet."""
    night = date(2024, 10, 27)  # at 01:00 UTC clocks in Berlin go from 03:00 back to 02:00

    assert stretch(f"{written} Europe/Berlin", night) == (begins, ends)


def stretch(written: str, night: date) -> tuple[str, str]:
    """Return the first and the last minute's end, in UTC, of the one stretch of quiet around a night."""
    midnight = datetime.combine(night, time(), UTC)
    minutes = [midnight + timedelta(minutes=number) for number in range(-90, 300)]
    quiet = [minute for minute in minutes if quiet_until((written,), minute)]
    end = quiet[-1] + timedelta(minutes=1)
    assert len(quiet) == (end - quiet[0]) / timedelta(minutes=1), "it is one stretch"
    assert {quiet_until((written,), minute) for minute in quiet} == {end}
    return f"{quiet[0]:%H:%M}", f"{end:%H:%M}"


def test_periods_that_overlap_or_follow_each_other_are_one_stretch() -> None:
    """The wait is told once, up to its real end."""
    written = ("10:00-12:00", "11:00-13:00", "13:00-14:00", "15:00-16:00")

    assert quiet_until(written, at("Mon 10:30")) == at("Mon 14:00")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("at night", "cannot be read; write them like '22:00-06:00'"),
        ("8:00-9:00", "cannot be read"),
        ("Foo 08:00-09:00", "cannot be read"),
        ("24:00-06:00", "must begin and end at different times of day"),
        ("08:00-24:01", "must begin and end at different times of day"),
        ("08:60-10:00", "must begin and end at different times of day"),
        ("08:00-09:60", "must begin and end at different times of day"),
        ("08:00-08:00", "must begin and end at different times of day"),
        (
            "Mon-Wed-Fri 08:00-09:00",
            "write 'Mon,Wed,Fri 08:00-09:00' for these days, or 'Mon-Fri 08:00-09:00' for all",
        ),
        ("Sun,Mon-Tue-Wed 08:00-09:00 UTC", "'Mon-Tue-Wed' is not a valid range of days"),
        ("08:00-09:00 Europe//Berlin", "there is no time zone 'Europe//Berlin'"),
        ("08:00-09:00 Europe", "there is no time zone 'Europe'"),
        ("08:00-09:00 Europe/Atlantis", "there is no time zone 'Europe/Atlantis'"),
    ],
)
def test_what_is_no_period_is_refused_with_how_to_write_one(written: str, said: str) -> None:
    """Before the group has it."""
    with pytest.raises(Refused, match=said):
        check((written,))


@pytest.mark.parametrize(
    "written",
    [
        ("00:00-24:00",),
        ("00:00-12:00", "12:00-24:00"),
        ("Mon-Fri 00:00-24:00", "Sat,Sun 00:00-24:00"),
    ],
    ids=["a whole day each day", "two halves", "the whole week"],
)
def test_quiet_that_never_ends_is_refused(written: tuple[str, ...]) -> None:
    """Nothing could ever be maintained."""
    with pytest.raises(Refused, match="never end; leave some time for maintenance"):
        check(written)


def test_a_minute_a_week_is_time_enough() -> None:
    """How much is left for maintenance is the operator's affair."""
    check(("Mon-Sat 00:00-24:00", "Sun 00:01-24:00"))
    check(("Mon-Sat 00:00-24:00", "Sun 00:00-23:59"))


def test_what_an_old_journal_holds_can_be_read() -> None:
    """A range of three days was taken for one from the first to the last."""
    assert quiet_until(("Mon-Wed-Fri 08:00-09:00",), at("Thu 08:30")) == at("Thu 09:00")


def test_a_recorded_time_zone_that_this_machine_does_not_know_is_quiet() -> None:
    """The journal may come from a machine that knew it; nothing is refused for what is recorded."""
    written = ("08:00-09:00 Europe/Atlantis",)

    until = quiet_until(written, at("Mon 12:00"))

    assert until
    assert until > at("Sun 12:00")
    assert quiet_until(written, at("Mon 13:00")) == until
    assert "no time zone 'Europe/Atlantis' on this machine" in unreadable(written)
    assert not unreadable(("08:00-09:00 Europe/Berlin",))


def test_twenty_periods_are_kept_and_no_more() -> None:
    """Each is looked at whenever an event is due."""
    check(("11:00-13:00",) * 20)
    with pytest.raises(Refused, match="21 periods of quiet hours are too many; at most 20 are kept"):
        check(("11:00-13:00",) * 21)


_ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Havana",
    "America/New_York",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
]


def changes_of(zone: str) -> list[datetime]:
    """Return the days of 2023, in UTC, on which clocks there are put forward or back."""
    days = [datetime(2023, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(366)]
    offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
    return [day for day, before, after in zip(days, offsets, offsets[1:], strict=False) if before != after]


@given(
    change=st.sampled_from([(zone, day) for zone in _ZONES for day in changes_of(zone)]),
    begin=st.integers(0, 95),
    length=st.integers(1, 95),
    after=st.integers(-2_000, 3_000),
)
def test_whenever_a_clock_shows_a_time_of_the_period_it_is_quiet(
    change: tuple[str, datetime], begin: int, length: int, after: int
) -> None:
    """In every zone, around the change of its clocks; more than that is quiet only next to the change."""
    zone, day = change
    place, end = ZoneInfo(zone), (begin + length) % 96
    written = f"{begin // 4:02}:{begin % 4 * 15:02}-{end // 4:02}:{end % 4 * 15:02} {zone}"
    now = day + timedelta(minutes=after)
    shown = now.astimezone(place)
    is_shown = (shown.hour * 4 + shown.minute // 15 - begin) % 96 < length
    offsets = {(now + timedelta(hours=hours)).astimezone(place).utcoffset() for hours in (-4, 0, 4)}

    until = quiet_until((written,), now)

    assert until or not is_shown
    assert is_shown or until is None or len(offsets) > 1
    assert until is None or (until > now and quiet_until((written,), until) is None)
