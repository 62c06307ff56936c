"""Reads and formats times in the local time zone, and durations."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import cast

import click

_KEY = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)-[0-9a-f-]{36}", re.ASCII)
"""An Idempotency-Key that this command line has drawn."""
_KEY_TIME = "%Y%m%dT%H%M%S.%fZ"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_SOON = timedelta(minutes=5)
_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))


def read_time(text: str, now: datetime) -> datetime:
    """Return the time that ``+20m``, ``14:32`` or an ISO time stands for; local unless it names a zone."""
    from forewarn.config.durations import read_duration

    text = text.strip()
    if text.startswith("+"):
        return now + read_duration(text[1:])
    if match := _CLOCK.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in match.groups())
        local = now.astimezone()
        when = local.replace(hour=hour, minute=minute, second=second, microsecond=0, tzinfo=None).astimezone()
        if when <= local:
            when = (when.replace(tzinfo=None) + timedelta(days=1)).astimezone()
        return when.astimezone(UTC)
    return datetime.fromisoformat(text).astimezone(UTC)


def key_prefix(at: datetime) -> str:
    """Return the beginning of the keys that are drawn for a command that was given at a time."""
    return f"{at.strftime(_KEY_TIME)}-"


def command_time(key: str | None) -> datetime:
    """Return when a command was given first: when its key was drawn, else now.

    Relative times count from then, so that a command that is repeated with its key sends the same request.
    """
    if key is not None and (match := _KEY.fullmatch(key)):
        with suppress(ValueError):
            return datetime.strptime(match[1], _KEY_TIME).replace(tzinfo=UTC)
    return datetime.now(UTC)


def not_before_option(context: click.Context, parameter: click.Parameter, given: str | None) -> datetime | None:
    try:
        return None if given is None else read_time(given, context.find_root().obj.at)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{given!r} is not a valid time; write +20m, 14:32 or 2026-01-31T14:32:00Z", context, parameter
        ) from None


def read_seconds(text: str, flag: str) -> float:
    """Return the seconds of a duration such as ``90s``; BadInput names the flag."""
    from forewarn.config.values import DURATION
    from forewarn.core.errors import BadInput

    try:
        return cast("timedelta", DURATION.read(text)).total_seconds()
    except (ValueError, OverflowError):
        raise BadInput(f"flag {flag} is {text!r}, expected {DURATION.expected}") from None


def period_option(context: click.Context, parameter: click.Parameter, given: str | None) -> int | None:
    """Read the seconds of a duration that was given on the command line."""
    from forewarn.config.durations import read_duration

    if given is None:
        return None
    try:
        seconds = read_duration(given).total_seconds()
    except (ValueError, OverflowError):
        seconds = 0
    if seconds < 1:
        raise click.BadParameter(
            f"{given!r} is not a valid duration; write 90s, 10m, 7d or PT10M", context, parameter
        )
    return round(seconds)


def pause_option(context: click.Context, parameter: click.Parameter, given: str | None) -> int | None:
    """Read the seconds of a duration that may be 0."""
    return 0 if given in ("0", "0s") else period_option(context, parameter, given)


def clock(when: datetime, now: datetime) -> str:
    """Return a time as ``14:32 CET``, with the day unless it is today, with seconds if it is near."""
    local = when.astimezone()
    day = "" if local.date() == now.astimezone().date() else f"{local:%a} {local.day} {local:%b} "
    near = abs(when - now) < _SOON
    return f"{day}{local:%H:%M:%S} {local:%Z}" if near else f"{day}{local:%H:%M} {local:%Z}"


def relative(when: datetime, now: datetime) -> str:
    """Return the distance to a time: ``in 14 min``, ``3 s ago``."""
    seconds = round((when - now).total_seconds())
    if seconds == 0:
        return "now" if when > now else "just now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def countdown(when: datetime, now: datetime) -> str:
    """Return the distance to a time in two units: ``in 14 min 3 s``, ``2 h 5 min ago``."""
    seconds = round((when - now).total_seconds())
    left = abs(seconds)
    text = f"{left} s"
    for (size, unit), (smaller, part) in pairwise(_UNITS):
        if left >= size:
            text = f"{left // size} {unit} {left % size // smaller} {part}"
            break
    return f"in {text}" if seconds >= 0 else f"{text} ago"


def span(seconds: float) -> str:
    """Return a duration in one suitable unit."""
    if seconds < 10 and seconds != round(seconds):
        return f"{seconds:.1f} s"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds)} s"


def read_past(text: str, now: datetime) -> datetime:
    """Return the past time that ``2h`` (ago), ``14:32`` or an ISO time stands for; local unless it names a zone."""
    from forewarn.config.durations import read_duration

    text = text.strip()
    if _CLOCK.fullmatch(text):
        local = (read_time(text, now).astimezone().replace(tzinfo=None) - timedelta(days=1)).astimezone()
        return local.astimezone(UTC)
    try:
        return now - read_duration(text)
    except ValueError:
        return datetime.fromisoformat(text).astimezone(UTC)


def past_option(context: click.Context, parameter: click.Parameter, given: str | None) -> datetime | None:
    try:
        return None if given is None else read_past(given, datetime.now(UTC))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{given!r} is not a valid time; write 2h (ago), 14:32 or 2026-01-31T14:32:00Z", context, parameter
        ) from None
