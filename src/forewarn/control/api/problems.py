"""Error responses (RFC 9457): what was wrong, where, and the remedy."""

import logging
import re
from enum import StrEnum
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from forewarn.control.bodies import FieldError, ProblemDetails
from forewarn.control.problems import MEDIA_TYPE, PREFIX, TooManyFailures, Unauthenticated, problem_of
from forewarn.core.errors import ForewarnError
from forewarn.wire.azure_names import show_name

_Member = TypeVar("_Member", bound=StrEnum)

log = logging.getLogger(__name__)

_HEADERS = {"idempotency_key": "Idempotency-Key", "last_event_id": "Last-Event-ID"}
"""Header names, by parameter name."""
_PLACE = re.compile(r"^(.*?)(?: - at `(.*)`)?$", re.DOTALL)


class InvalidRequest(Exception):
    """The body or a parameter is invalid."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__(errors)
        self.errors = errors

    @classmethod
    def of(cls, error: msgspec.DecodeError | UnicodeDecodeError, what: str) -> "InvalidRequest":
        """Convert an error of msgspec, with its place in the request."""
        if isinstance(error, UnicodeDecodeError):
            return cls(FieldError(what, f"is not UTF-8: {error.reason}"))
        found = _PLACE.match(str(error))
        said, place = (found[1], found[2] or "$") if found else (str(error), "$")
        return cls(FieldError(place.replace("$", what, 1), said))


def known_word(word: _Member | str, members: type[_Member], place: str) -> _Member:
    """Return the member for a word of the wire; refuse an unknown word with its place."""
    if isinstance(word, members):
        return word
    known = ", ".join(show_name(member) for member in members)
    raise InvalidRequest(FieldError(place, f"{word!r} is not one of {known}"))


def answer(problem: ProblemDetails, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        msgspec.json.encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers or {}
    )


def answer_error(request: Request[Any, Any, Any], error: ForewarnError) -> Response[bytes]:
    headers: dict[str, str] = {}
    match error:
        case Unauthenticated():
            headers["WWW-Authenticate"] = 'Bearer realm="forewarn"'
        case TooManyFailures(wait=wait):
            headers["Retry-After"] = str(wait)
    return answer(problem_of(error), headers)


def answer_invalid_request(request: Request[Any, Any, Any], error: InvalidRequest) -> Response[bytes]:
    return answer(_bad(error.errors))


def answer_validation(request: Request[Any, Any, Any], error: ValidationException) -> Response[bytes]:
    extra = error.extra if isinstance(error.extra, list) else []
    errors = [_field_error(each.get("key", ""), each.get("source", ""), each.get("message", "")) for each in extra]
    return answer(_bad(tuple(errors) or (FieldError("", error.detail),)))


def answer_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Convert an error of the framework, such as an unknown path."""
    status = error.status_code
    detail = {
        404: f"there is no path {request.url.path}; /openapi.json lists the paths",
        405: f"{request.method} is not allowed on {request.url.path}; /openapi.json lists the methods",
        413: "the body is too large; send a change of the fleet as lines (application/jsonl)",
    }.get(status, error.detail)
    title = HTTPStatus(status).phrase
    name = title.lower().replace(" ", "-")
    return answer(ProblemDetails(type=PREFIX + name, title=title, status=status, detail=detail), error.headers)


def answer_unforeseen(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    fields = {"method": request.method, "path": request.url.path}
    log.error("request failed", exc_info=error, extra={"fields": fields})
    detail = "internal error; see the log of the service"
    return answer(ProblemDetails(type=PREFIX + "failed", title="Something went wrong", status=500, detail=detail))


def _field_error(key: str, source: object, message: str) -> FieldError:
    if key == "data":
        return FieldError("body", "is missing; send it as JSON")
    if key in _HEADERS:
        return FieldError(f"header.{_HEADERS[key]}", message)
    return FieldError(f"{getattr(source, 'value', source)}.{key}" if source else key, message)


def _bad(errors: tuple[FieldError, ...]) -> ProblemDetails:
    where = "; ".join(f"{each.place}: {each.detail}" if each.place else each.detail for each in errors)
    return ProblemDetails(
        type=PREFIX + "bad-input",
        title="The request cannot be understood",
        status=400,
        detail=f"correct the request and send it again: {where}",
        errors=errors,
    )


HANDLERS: ExceptionHandlersMap = {
    ForewarnError: answer_error,
    InvalidRequest: answer_invalid_request,
    ValidationException: answer_validation,
    HTTPException: answer_http,
    Exception: answer_unforeseen,
}
