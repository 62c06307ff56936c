"""Maintenance windows: when the events of a rollout may start.

They are written like quiet hours: ``Sat,Sun 02:00-06:00 Europe/Berlin``. A window opens and closes when clocks there
first show it; where they skip that time, when they are put forward. What is open needs a window of the rollout and
one of the fleet, where these have any; windows that touch or overlap are one.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta

from forewarn.core import quiet_hours
from forewarn.core.errors import Refused
from forewarn.core.rollouts.model import Rollout

_ONE_DAY = timedelta(days=1)
_SEARCHED = timedelta(days=60)
"""Windows recur weekly; what does not open within this time never does."""
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""When a window closes that is always open, and when an event may start that no window lets start."""

Stretch = tuple[datetime, datetime]
"""From when to when something is open."""


def open_until(own: tuple[str, ...], fleet: tuple[str, ...], now: datetime) -> datetime | None:
    """Return when the window closes that ``now`` falls into; None when none is open."""
    begin, end = next(_stretches(own, fleet, now), (NEVER, NEVER))
    return end if begin <= now else None


def next_start(own: tuple[str, ...], fleet: tuple[str, ...], earliest: datetime, lasts: timedelta) -> datetime | None:
    """Return the first time from ``earliest`` on at which something can start and end inside one window."""
    for begin, end in _stretches(own, fleet, earliest):
        start = max(begin, earliest)
        if end - start >= lasts:
            return start
    return None


def next_start_of(rollout: Rollout, earliest: datetime) -> datetime | None:
    """Return when a host that may start from ``earliest`` on starts inside a window; None when it never can."""
    if not rollout.has_windows:
        return earliest
    return next_start(rollout.terms.windows, rollout.fleet_windows, earliest, timedelta(seconds=rollout.lasts))


def held_until(rollout: Rollout, now: datetime) -> datetime | None:
    """Return when an event of a rollout may start that may not start now; None where it may, or ``NEVER``."""
    start = next_start_of(rollout, now) or NEVER
    return start if start > now else None


def check(own: tuple[str, ...], fleet: tuple[str, ...], now: datetime, lasts: timedelta) -> None:
    """Refuse windows that cannot be read, never open, or are too short for one host."""
    for written in own:
        try:
            quiet_hours.check_period(written)
        except Refused as refused:
            raise Refused(str(refused).replace("quiet hours", "maintenance window", 1)) from None
    if next_start(own, fleet, now, lasts):
        return
    both = (
        f"the rollout's windows ({', '.join(own) or 'any time'}) and the fleet's ({', '.join(fleet) or 'any time'})"
    )
    if next_start(own, fleet, now, timedelta()):
        raise Refused(
            f"no window is long enough: one host takes about {round(lasts.total_seconds() / 60)} min, and {both} "
            "are never open together for so long; give longer windows, or state a shorter --expected"
        )
    raise Refused(f"{both} are never open together; change one of them so that they overlap")


def _stretches(own: tuple[str, ...], fleet: tuple[str, ...], after: datetime) -> Iterator[Stretch]:
    """Yield what is open after a time, in order."""
    mine, theirs = _merged(own, after), _merged(fleet, after)
    one, other = next(mine, None), next(theirs, None)
    while one and other:
        begin, end = max(one[0], other[0]), min(one[1], other[1])
        if begin < end:
            yield begin, end
        if one[1] <= other[1]:
            one = next(mine, None)
        else:
            other = next(theirs, None)


def _merged(written: tuple[str, ...], after: datetime) -> Iterator[Stretch]:
    if not written:
        yield datetime.min.replace(tzinfo=UTC), NEVER
        return
    last: Stretch | None = None
    for begin, end in _in_order(written, after):
        if last and begin <= last[1]:
            last = last[0], max(last[1], end)
            continue
        if last:
            yield last
        last = begin, end
    if last:
        # Windows recur weekly: where no other follows, it never closes.
        yield (last[0], NEVER) if last[0] <= after else last


def _in_order(written: Iterable[str], after: datetime) -> Iterator[Stretch]:
    """Yield the stretches of single windows that end after a time, by their beginning."""
    periods = [quiet_hours.read(each) for each in written]
    day = (after - 2 * _ONE_DAY).date()
    last = (after + _SEARCHED).date()
    pending: list[Stretch] = []
    while day <= last:
        for period in periods:
            if day.weekday() in period.days:
                begin = datetime.combine(day, period.begins)
                end = quiet_hours.first_shown(begin + period.lasts, period.zone)
                if end > after:
                    pending.append((quiet_hours.first_shown(begin, period.zone), end))
        day += _ONE_DAY
        # Time zones lie within a day of each other: what begins before this cannot come later.
        sure = datetime.combine(day, time(), UTC) - _ONE_DAY
        pending.sort()
        while pending and pending[0][0] < sure:
            yield pending.pop(0)
    yield from pending
