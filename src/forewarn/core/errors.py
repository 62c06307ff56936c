"""What can be wrong with a request, by whose fault it is. A class's docstring is its default message."""

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ForewarnError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class Refused(ForewarnError):
    """The rules do not allow this."""


class Unknown(Refused):
    """There is nothing by that name."""


class NotAllowed(Refused):
    """Whoever asks may not do this."""


class LimitReached(Refused):
    """A limit that the operator set is reached."""


class PlanOutdated(Refused):
    """The fleet has changed since this was planned."""


class BadInput(ForewarnError):
    """What was given cannot be understood."""


class Unavailable(ForewarnError):
    """The service cannot do this at the moment."""


class OutcomeUnknown(Unavailable):
    """It is not known whether this was recorded."""


class IllegalTransition(ForewarnError):
    """An event cannot take this step from where it stands."""


def unknown(kind: str, name: str, known: "Iterable[str]") -> Unknown:
    """Say that ``name`` is not there, and name the nearest that is."""
    return Unknown(f"there is no {kind} {name!r}{nearest(name, known)}")


_COMPARED = 2_000


def nearest(name: str, known: "Iterable[str]") -> str:
    """Return ``; did you mean 'web-0'?``, or nothing when nothing is near.

    Only the first names are compared, so that a typing error costs no more in a fleet of a million.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - who makes no mistake does not pay for it

    spelled = {each.lower(): each for each in islice(known, _COMPARED)}
    near = get_close_matches(name.lower(), spelled, n=1)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""
