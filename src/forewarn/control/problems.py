"""Error types of the control API: one table for client and server."""

from forewarn.control.bodies import ProblemDetails
from forewarn.core.errors import (
    BadInput,
    ForewarnError,
    LimitReached,
    NotAllowed,
    OutcomeUnknown,
    Refused,
    Unavailable,
    Unknown,
)
from forewarn.wire.facts import show_ids

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:forewarn:problem:"


class Unauthenticated(ForewarnError):
    """A token that is in force is needed here; send it as 'Authorization: Bearer fw_...'."""


class InvalidSession(NotAllowed):
    """The request has no valid CSRF token; reload the page and try again."""


class TooManyFailures(ForewarnError):
    """Too many wrong tokens came from this address."""

    def __init__(self, wait: int) -> None:
        super().__init__(f"too many wrong tokens came from this address; try again in {wait} s, with a good one")
        self.wait = wait


KINDS: dict[type[ForewarnError], tuple[str, int, str]] = {
    TooManyFailures: ("too-many-failures", 429, "Too many wrong tokens"),
    Unauthenticated: ("unauthenticated", 401, "No token that is in force"),
    InvalidSession: ("invalid-session", 403, "The page is out of date"),
    NotAllowed: ("not-allowed", 403, "The role does not permit this"),
    LimitReached: ("limit-reached", 429, "A limit is reached"),
    Unknown: ("unknown", 404, "There is no such thing"),
    Refused: ("refused", 409, "The rules do not allow this"),
    BadInput: ("bad-input", 400, "The request cannot be understood"),
    OutcomeUnknown: ("outcome-unknown", 503, "It is not known whether this was done"),
    Unavailable: ("unavailable", 503, "The service cannot do this at the moment"),
    ForewarnError: ("failed", 500, "Something went wrong"),
}
"""Name, status and title of an error; the first match counts."""


def problem_of(error: ForewarnError) -> ProblemDetails:
    name, status, title = next(kind for family, kind in KINDS.items() if isinstance(error, family))
    return ProblemDetails(type=PREFIX + name, title=title, status=status, detail=show_ids(str(error)))


def error_of(problem: ProblemDetails) -> ForewarnError:
    name = problem.type.removeprefix(PREFIX)
    places = (f"{each.place}: {each.detail}" for each in problem.errors)
    detail = "; ".join([problem.detail, *(place for place in places if place not in problem.detail)])
    family = next((family for family, kind in KINDS.items() if kind[0] == name), None)
    if family is None:
        family = Unavailable if problem.status >= 500 else BadInput
    if family is Unauthenticated:
        return NotAllowed(
            "the service does not accept this token: it is unknown, expired or revoked; ask an operator for another"
            " ('forewarn token create'), and log in with it ('forewarn login')"
        )
    return NotAllowed(detail) if family is TooManyFailures else family(detail)
