"""Quiet hours: when platform maintenance may not start for a group.

    22:00-06:00                         every night, in UTC
    Mon-Fri 08:00-18:00 Europe/Berlin   on working days, as clocks there show it
    Sat,Sun 00:00-24:00                 the whole weekend

A period belongs to the day on which it begins. Periods may overlap or adjoin, but must not cover all time.

It begins and ends by local time. When clocks are put back, a time that occurs twice is quiet from the first to the
second; when they are put forward, a skipped beginning is the moment of the change, and a skipped end is as late as it
would have been. In doubt it is quiet, also if the time zone of a recorded period is unknown on this machine: machines
have different time zone data, and names are retired.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from forewarn.core.errors import Refused

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = "|".join(_DAYS)
_WRITTEN = re.compile(
    rf"(?:((?:{_DAY})(?:[-,](?:{_DAY}))*) +)?(\d\d):(\d\d) *- *(\d\d):(\d\d)(?: +([A-Za-z][\w+/-]*))?",
    re.IGNORECASE | re.ASCII,
)
_ONE_DAY = timedelta(days=1)
_ONE_MINUTE = timedelta(minutes=1)
_LONGEST = 7 * _ONE_DAY
MOST_PERIODS = 20
"""Maximum number of periods of a group."""


class QuietPeriod(msgspec.Struct, frozen=True):
    """One recurring period."""

    days: frozenset[int]
    begins: time
    lasts: timedelta
    zone: ZoneInfo

    def end_of(self, now: datetime) -> datetime | None:
        """Return the end of the period that contains ``now``."""
        here = now.astimezone(self.zone)
        for day in (here.date(), here.date() - _ONE_DAY):
            if day.weekday() in self.days:
                begin = datetime.combine(day, self.begins)
                end = max(_readings(begin + self.lasts, self.zone))
                if first_shown(begin, self.zone) <= now < end:
                    return end
        return None


def _readings(shown: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the instants of a local time; there are two if clocks are put back or forward."""
    there = shown.replace(tzinfo=zone)
    return there.astimezone(UTC), there.replace(fold=1).astimezone(UTC)


def first_shown(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant of a local time; if it is skipped, the moment of the change."""
    first, second = _readings(shown, zone)
    if first <= second:
        return first
    skipping = second
    while skipping.astimezone(zone).replace(tzinfo=None) < shown:
        skipping += _ONE_MINUTE
    return skipping


def quiet_until(written: tuple[str, ...], now: datetime) -> datetime | None:
    """Return the end of the quiet hours that contain ``now``; None if there are none."""
    end = now
    while end - now <= _LONGEST:
        later = [there for each in written if (there := _end_of(each, end))]
        if not later:
            break
        end = max(later)
    return end if end > now else None


def unreadable(written: tuple[str, ...]) -> str:
    """Return why a period cannot be evaluated on this machine; empty if all can."""
    for each in written:
        try:
            read(each)
        except Refused as refused:
            return str(refused)
    return ""


def _end_of(written: str, now: datetime) -> datetime | None:
    try:
        return read(written).end_of(now)
    except Refused:
        return datetime.combine(now.date() + _ONE_DAY, time(), UTC)  # until midnight: the wait is recorded once a day


@lru_cache(maxsize=10_000)  # thousands of groups may share the same hours
def check(written: tuple[str, ...]) -> None:
    """Refuse quiet hours that are invalid or never end."""
    if not written:
        return
    if len(written) > MOST_PERIODS:
        raise Refused(f"{len(written)} periods of quiet hours are too many; at most {MOST_PERIODS} are kept")
    for each in written:
        check_period(each)
    monday = datetime(2024, 1, 1, tzinfo=UTC)  # any instant will do: hours that never end contain it
    end = quiet_until(written, monday)
    if end and end - monday > _LONGEST:
        raise Refused(f"the quiet hours {', '.join(written)} never end; leave some time for maintenance")


def check_period(written: str) -> None:
    """Refuse a period that cannot be read, or not without doubt."""
    read(written)
    _check_days(written)


def _check_days(written: str) -> None:
    """Refuse ``Mon-Wed-Fri``: it could be three days or five. Journals may hold it, as Monday to Friday."""
    days, _, _ = written.strip().partition(" ")
    for part in days.split(","):
        first, *others = part.split("-")
        if len(others) > 1:
            single = written.replace(part, ",".join([first, *others]))
            whole = written.replace(part, f"{first}-{others[-1]}")
            raise Refused(
                f"quiet hours {written!r}: {part!r} is not a valid range of days; write {single!r} for these days, "
                f"or {whole!r} for all from the first to the last"
            )


@lru_cache(maxsize=10_000)
def read(written: str) -> QuietPeriod:
    found = _WRITTEN.fullmatch(written.strip())
    if not found:
        raise Refused(
            f"quiet hours {written!r} cannot be read; write them like '22:00-06:00' or "
            "'Mon-Fri 08:00-18:00 Europe/Berlin'"
        )
    days, zone = found[1], found[6] or "UTC"
    begin, end = (timedelta(hours=int(found[n]), minutes=int(found[n + 1])) for n in (2, 4))
    is_time = begin < _ONE_DAY and end <= _ONE_DAY and max(int(found[3]), int(found[5])) < 60
    if not is_time or begin == end:
        raise Refused(f"quiet hours {written!r} must begin and end at different times of day, 00:00 to 24:00")
    lasts = end - begin if end > begin else end - begin + _ONE_DAY
    try:
        place = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise Refused(
            f"quiet hours {written!r}: there is no time zone {zone!r} on this machine; write it like Europe/Berlin, "
            "or install the system's time zones (Debian: tzdata, and tzdata-legacy for names that are retired)"
        ) from None
    return QuietPeriod(frozenset(_days(days)), time(int(found[2]), int(found[3])), lasts, place)


def _days(written: str | None) -> Iterable[int]:
    if not written:
        yield from range(7)
        return
    for part in written.lower().split(","):
        first, *rest = (_DAYS.index(day) for day in part.split("-"))
        last = rest[-1] if rest else first
        yield from ((first + step) % 7 for step in range((last - first) % 7 + 1))
