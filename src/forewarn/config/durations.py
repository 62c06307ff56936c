"""Parse and format durations: short (``90s``, ``15m``, ``1h30m``, ``7d``) and ISO 8601 (``PT15M``)."""

import re
from datetime import timedelta

_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,6})?)"
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.IGNORECASE
)
_SHORT = re.compile(
    rf"(?:{_NUMBER}\s*w)?\s*(?:{_NUMBER}\s*d)?\s*(?:{_NUMBER}\s*h)?\s*(?:{_NUMBER}\s*m(?:in)?)?\s*(?:{_NUMBER}\s*s)?",
    re.IGNORECASE,
)
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def read_duration(text: str) -> timedelta:
    """Parse a duration; a plain number is seconds. Raise ValueError if it is invalid."""
    text = text.strip()
    if re.fullmatch(_NUMBER, text):
        return timedelta(seconds=float(text))
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration")
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is too long a duration") from None


def show_duration(duration: timedelta) -> str:
    """Format a duration in the short form that ``read_duration`` parses: ``1h30m``."""
    rest, micros = duration.days * 86_400 + duration.seconds, duration.microseconds
    spelled = ""
    for unit, seconds in _UNITS:
        count, rest = divmod(rest, seconds)
        spelled += f"{count}{unit}" if count else ""
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return spelled + (f"{rest}{fraction}s" if rest or fraction or not spelled else "")


def show_iso_duration(seconds: int) -> str:
    """Format whole seconds as Azure does: ``PT10M``."""
    minutes, rest = divmod(seconds, 60)
    return "PT" + (f"{minutes}M" if minutes else "") + (f"{rest}S" if rest or not minutes else "")
