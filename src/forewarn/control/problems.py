"""How errors are told over the control API: one table of kinds, read by both of its ends."""

from forewarn.control.bodies import Problem
from forewarn.control.tokens import TooManyFailures, Unauthenticated
from forewarn.core.errors import (
    BadInput,
    ForewarnError,
    LimitReached,
    NotAllowed,
    Refused,
    Unavailable,
    Unknown,
)

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:forewarn:problem:"

KINDS: dict[type[ForewarnError], tuple[str, int, str]] = {
    TooManyFailures: ("too-many-failures", 429, "Too many wrong tokens"),
    Unauthenticated: ("unauthenticated", 401, "No token that is in force"),
    NotAllowed: ("not-allowed", 403, "The role does not permit this"),
    LimitReached: ("limit-reached", 429, "A limit is reached"),
    Unknown: ("unknown", 404, "There is no such thing"),
    Refused: ("refused", 409, "The rules do not allow this"),
    BadInput: ("bad-input", 400, "The request cannot be understood"),
    Unavailable: ("unavailable", 503, "The service cannot do this at the moment"),
    ForewarnError: ("failed", 500, "Something went wrong"),
}
"""What an error is called, its status and its title; the first that fits counts."""


def problem_of(error: ForewarnError) -> Problem:
    """Return how an error is told."""
    name, status, title = next(kind for family, kind in KINDS.items() if isinstance(error, family))
    return Problem(type=PREFIX + name, title=title, status=status, detail=str(error))


def error_of(problem: Problem) -> ForewarnError:
    """Return the error that a problem tells of."""
    name = problem.type.removeprefix(PREFIX)
    told = "; ".join([problem.detail, *(f"{each.place}: {each.detail}" for each in problem.errors)])
    family = next((family for family, kind in KINDS.items() if kind[0] == name), None)
    if family is None:
        family = Unavailable if problem.status >= 500 else BadInput
    # The command line ends the same way whatever is wrong with a token: it has no say here.
    return NotAllowed(told) if family in (TooManyFailures, Unauthenticated) else family(told)
