"""Validates the arguments of the emulator's Python API."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from forewarn.config.durations import read_duration
from forewarn.core.errors import BadInput, nearest

Item = TypeVar("Item")
Duration = str | float | timedelta
"""``"15m"``, seconds, or a timedelta."""
_CLOCKS = ("manual", "system")


def duration_of(given: Duration, what: str = "a duration") -> timedelta:
    """Return a duration that is not negative; raise BadInput with examples."""
    try:
        duration = given if isinstance(given, timedelta) else read_duration(str(given))
    except ValueError:
        duration = timedelta(-1)
    if duration < timedelta():
        raise BadInput(
            f'{what} is {given!r}, expected a duration such as "15m", "90s" or "1h30m",'
            " a number of seconds, or a timedelta, none of them negative"
        )
    return duration


def check_names(names: Iterable[object]) -> None:
    """Raise BadInput unless they are names of VMs."""
    for name in names:
        if not isinstance(name, str) or not name:
            listed = ", ".join(map(repr, name)) if isinstance(name, list | tuple) and name else "'web-0', 'web-1'"
            raise BadInput(f"a VM name must be a text, not {name!r}; give the names one by one: {listed}")


def check_clock(clock: object) -> None:
    if clock not in _CLOCKS:
        near = nearest(clock, _CLOCKS) if isinstance(clock, str) else ""
        raise BadInput(f"clock is {clock!r}, expected 'manual' or 'system'{near}")


def check_number(what: str, given: object, example: str) -> None:
    """Raise BadInput unless it is a number above 0."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise BadInput(f"{what} is {given!r}, expected a number above 0 such as {example}")


def check_whole(what: str, given: object) -> None:
    """Raise BadInput unless it is a whole number, or None."""
    if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
        raise BadInput(f"{what} is {given!r}, expected a whole number such as 5")


def check_kind(what: str, given: object, kinds: tuple[type, ...], expected: str) -> None:
    """Raise BadInput unless it has one of these types, or is None."""
    if given is not None and not isinstance(given, kinds):
        raise BadInput(f"{what} is {given!r}, expected {expected}")


def several(what: str, given: object, kind: type[Item], expected: str) -> tuple[Item, ...]:
    """Return the items as a tuple; raise BadInput with the first one of another type."""
    items = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for item in items:
        if not isinstance(item, kind):
            raise BadInput(f"{what} is {item!r}, expected {expected}")
    return items


def check_now(now: object) -> None:
    """Raise BadInput unless it is a time in UTC, or None."""
    if now is not None and not (isinstance(now, datetime) and now.utcoffset() == timedelta()):
        raise BadInput(f"now is {now!r}, expected a time in UTC such as datetime(2026, 1, 1, tzinfo=UTC)")
