"""Times as the wire spells them: RFC 1123 out, and in also ISO 8601, which documentation and mocks show.

The two other dates that HTTP knows (``Monday, 19-Sep-16 18:29:47 GMT``, ``Mon Sep 19 18:29:47 2016``) are read too.
"""

import re
from datetime import UTC, datetime

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_RFC_1123 = re.compile(
    r"(?:[a-z]{3,9},? )?([0-9]{1,2})[ -]([a-z]{3})[ -]([0-9]{2}|[0-9]{4}) ([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))? "
    r"(?:GMT|UTC|Z|([+-][0-9]{2}):?([0-9]{2}))",
    re.IGNORECASE | re.ASCII,
)
_OF_C = re.compile(
    r"[a-z]{3} ([a-z]{3}) {1,2}([0-9]{1,2}) ([0-9]{2}:[0-9]{2}:[0-9]{2}) ([0-9]{4})", re.IGNORECASE | re.ASCII
)


def show_time(when: datetime) -> str:
    """Spell a UTC time as in ``Mon, 19 Sep 2016 18:29:47 GMT``, in English whatever the locale.

    The wire has whole seconds only, so a fraction is dropped: an event that starts at its true time has then
    never started before the time its VMs were shown.
    """
    return (
        f"{_DAYS[when.weekday()]}, {when.day:02} {_MONTHS[when.month - 1]} {when.year:04}"
        f" {when.hour:02}:{when.minute:02}:{when.second:02} GMT"
    )


def read_time(text: str) -> datetime:
    """Parse a time, in UTC if the text names no zone; raise ValueError if it is not valid."""
    text = text.strip()
    if match := _OF_C.fullmatch(text):
        month, day, clock, year = match.groups()
        text = f"{day} {month} {year} {clock} GMT"
    if match := _RFC_1123.fullmatch(text):
        day, month, year, hour, minute, second, zone, rest = match.groups()
        iso_month = f"{_MONTHS.index(month.title()) + 1:02}"
        clock = f"{hour:0>2}:{minute}:{second or '00'}"
        text = f"{'20' if len(year) == 2 else ''}{year}-{iso_month}-{day:0>2}T{clock}{zone or '+00'}:{rest or '00'}"
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        return when.replace(tzinfo=UTC)
    try:
        return when.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from None
