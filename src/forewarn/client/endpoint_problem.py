"""Classifies responses that are no document: the problem, how long to retry, and the message."""

import msgspec

from forewarn.client.errors import NoAnswer, NotAService, NotKnown, NotReady, NotThere
from forewarn.client.steps import NoResponse
from forewarn.core.errors import ForewarnError, Refused
from forewarn.http.codec import HttpResponse
from forewarn.wire.error_responses import read_error

GONE_FOR = 70.0
"""Azure: a service that is being updated returns 410 for at most this many seconds."""
_LONGEST_RETRY_AFTER = 60.0
"""Maximum seconds of a Retry-After that are respected."""
_SAID = 200


class EndpointProblem(Exception):
    """One request without a document."""

    def __init__(
        self, kind: str, error: ForewarnError, *, patience: float = float("inf"), retry_after: float = 0.0
    ) -> None:
        super().__init__(str(error))
        self.kind = kind
        """The kind of problem; each kind is logged once."""
        self.error = error
        self.patience = patience
        """Seconds for which a retry may help."""
        self.retry_after = retry_after


def problem_of_no_response(url: str, silence: NoResponse) -> EndpointProblem:
    said = f"{url} {silence.why}"
    if not silence.connected:
        return EndpointProblem("not there", NotThere(said))
    if silence.garbled:
        return EndpointProblem("garbled", NotAService(said))
    return EndpointProblem("closed" if silence.in_time else "silent", NoAnswer(said))


def problem_of_response(url: str, answer: HttpResponse) -> EndpointProblem:
    """Classify a response that is not the expected one."""
    said = f"{url} answers {answer.status}"
    problem = shorten(read_error(answer.body))
    detail = f"{said}: {problem}" if problem and not is_html(answer) else said
    kind = f"{answer.status} {problem}"
    match answer.status:
        case 400:
            return EndpointProblem(kind, Refused(detail), patience=0.0)
        case 403:
            # If the host name is refused, the response contains the remedy.
            is_about_name = "allowed_hosts" in problem
            remedy = "" if is_about_name else "; have it added to the fleet or started, or ask from another"
            return EndpointProblem(kind, NotKnown(f"this VM may not ask there: {detail}{remedy}"), patience=0.0)
        case 410:
            return EndpointProblem(kind, NotReady(detail), patience=GONE_FOR, retry_after=_retry_after(answer))
        case 429:
            return EndpointProblem(kind, NotReady(detail), retry_after=_retry_after(answer))
        case status if status >= 500:
            return EndpointProblem(kind, NotReady(detail), retry_after=_retry_after(answer))
        case status if 300 <= status < 400 and status != 304:
            where = shorten(answer.headers.get("location", "elsewhere"))
            return EndpointProblem("redirect", NotAService(f"{said} and points to {where}, where no service would"))
        case _ if is_html(answer):
            return EndpointProblem("html", NotAService(f"{said} with a page for people; no service does"))
        case 200 if not answer.body:
            return EndpointProblem("empty", NoAnswer(f"{said} with nothing in it"))
        case _:
            return EndpointProblem(kind, NotAService(detail))


def problem_of_body(url: str, answer: HttpResponse, why: Exception) -> EndpointProblem:
    """Describe a response with status 200 that contains no document."""
    if not answer.body or is_html(answer):
        return problem_of_response(url, answer)
    said = shorten(str(why))
    return EndpointProblem(f"garbage {said}", NotAService(f"{url} answers something else: {said}"))


def is_html(answer: HttpResponse) -> bool:
    return "html" in answer.headers.get("content-type", "").lower() or answer.body.lstrip()[:1] == b"<"


def is_service_like(reply: object) -> bool:
    """Return whether a response may come from a Scheduled Events service, ready or not."""
    match reply:
        case NoResponse(connected=True, in_time=False):
            return True  # Azure: the first response may take two minutes
        case HttpResponse(status=200):
            return _has_key(reply.body, "Events")
        case HttpResponse(status=400 | 403):
            return not is_html(reply) and _has_key(reply.body, "error")
        case HttpResponse(status=410 | 429):
            return not is_html(reply)
        case HttpResponse(status=status):
            return status >= 500 and not is_html(reply)
        case _:
            return False


def newest_versions(answer: HttpResponse) -> tuple[str, ...] | None:
    """Return the api-versions that a refusal lists; None if it is not about versions."""
    try:
        return msgspec.json.decode(answer.body, type=_VersionProblem).newest
    except (ValueError, RecursionError, msgspec.DecodeError):
        return None


class _VersionProblem(msgspec.Struct):
    newest: tuple[str, ...] = msgspec.field(name="newest-versions")


def _has_key(body: bytes, key: str) -> bool:
    try:
        found = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError, msgspec.DecodeError):
        return False
    return isinstance(found, dict) and key in found


def _retry_after(answer: HttpResponse) -> float:
    seconds = answer.headers.get("retry-after", "")
    return min(float(seconds), _LONGEST_RETRY_AFTER) if seconds.isascii() and seconds.isdigit() else 0.0


def shorten(text: str) -> str:
    line = " ".join(text.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _SAID else shown[: _SAID - 1] + "…"
