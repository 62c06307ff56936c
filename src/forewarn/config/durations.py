"""Durations as people write them (``90s``, ``15m``, ``1h30m``, ``7d``) and as Azure does (``PT15M``)."""

import re
from datetime import timedelta

_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.IGNORECASE,
)
_SHORT = re.compile(
    rf"(?:{_NUMBER}\s*w)?\s*(?:{_NUMBER}\s*d)?\s*(?:{_NUMBER}\s*h)?\s*(?:{_NUMBER}\s*m(?:in)?)?\s*(?:{_NUMBER}\s*s)?",
    re.IGNORECASE,
)
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def read_duration(text: str) -> timedelta:
    """Return the duration that ``text`` spells; a plain number is seconds. Raise ValueError for others."""
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
    """Spell a duration shortly, such that ``read_duration`` understands it: ``1h30m``."""
    rest = duration.total_seconds()
    spelled = ""
    for unit, seconds in _UNITS[:-1]:
        count, rest = divmod(rest, seconds)
        spelled += f"{count:.0f}{unit}" if count else ""
    return spelled + (f"{round(rest, 6):g}s" if rest or not spelled else "")


def show_iso_duration(seconds: int) -> str:
    """Spell whole seconds as Azure does: ``PT10M``."""
    minutes, rest = divmod(seconds, 60)
    return "PT" + (f"{minutes}M" if minutes else "") + (f"{rest}S" if rest or not minutes else "")
