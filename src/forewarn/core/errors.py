"""Errors, by cause: caller, rules, service. The docstring of a class is its default message."""

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
    """There is no object with this name."""


class NotAllowed(Refused):
    """The caller is not permitted to do this."""


class LimitReached(Refused):
    """A configured limit is reached."""


class PlanOutdated(Refused):
    """The fleet has changed since this was planned."""


class BadInput(ForewarnError):
    """The input is invalid."""


class Unavailable(ForewarnError):
    """The service cannot do this at the moment."""


class OutcomeUnknown(Unavailable):
    """It is not known whether this was recorded."""


class IllegalTransition(ForewarnError):
    """The event's status does not allow this step."""


def unknown(kind: str, name: str, known: "Iterable[str]") -> Unknown:
    """Return an error that ``name`` does not exist, with the most similar name."""
    return Unknown(f"there is no {kind} {name!r}{nearest(name, known)}")


_COMPARED = 2_000


def nearest(name: str, known: "Iterable[str]") -> str:
    """Return ``; did you mean 'web-0'?``, or nothing if no name is similar.

    Only the first names are compared, so that the cost does not depend on the size of the fleet.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for errors

    spelled = {each.lower(): each for each in islice(known, _COMPARED)}
    near = get_close_matches(name.lower(), spelled, n=1)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""
