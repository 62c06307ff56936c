"""What an answer means when it is no document: which trouble it is, how long to bear it, and what is said of it."""

import msgspec

from forewarn.client.errors import NoAnswer, NotAService, NotKnown, NotReady, NotThere
from forewarn.client.steps import Answer, Silence
from forewarn.core.errors import ForewarnError, Refused
from forewarn.wire.problems import read_problem

GONE_FOR = 70.0
"""Azure: a service that is being updated answers 410 for at most so many seconds."""
_LONGEST_WISH = 60.0
"""Seconds of a Retry-After that are heeded."""
_SAID = 200


class Trouble(Exception):
    """One question that was not answered."""

    def __init__(
        self, kind: str, error: ForewarnError, *, patience: float = float("inf"), retry_after: float = 0.0
    ) -> None:
        super().__init__(str(error))
        self.kind = kind
        """What is logged once: the same kind again is no news."""
        self.error = error
        self.patience = patience
        """For how many seconds it may be hoped that asking again helps."""
        self.retry_after = retry_after


def trouble_of_silence(url: str, silence: Silence) -> Trouble:
    said = f"{url} {silence.why}"
    if not silence.connected:
        return Trouble("not there", NotThere(said))
    if silence.garbled:
        return Trouble("garbled", NotAService(said))
    return Trouble("closed" if silence.in_time else "silent", NoAnswer(said))


def trouble_of_answer(url: str, answer: Answer) -> Trouble:
    """Tell what an answer means that is not the one hoped for."""
    said = f"{url} answers {answer.status}"
    problem = shorten(read_problem(answer.body))
    told = f"{said}: {problem}" if problem and not is_html(answer) else said
    kind = f"{answer.status} {problem}"
    match answer.status:
        case 400:
            return Trouble(kind, Refused(told), patience=0.0)
        case 403:
            # Where the name of the service is refused, the answer itself says what to do.
            is_about_name = "allowed_hosts" in problem
            remedy = "" if is_about_name else "; have it added to the fleet or started, or ask from another"
            return Trouble(kind, NotKnown(f"this VM may not ask there: {told}{remedy}"), patience=0.0)
        case 410:
            return Trouble(kind, NotReady(told), patience=GONE_FOR, retry_after=_retry_after(answer))
        case 429:
            return Trouble(kind, NotReady(told), retry_after=_retry_after(answer))
        case status if status >= 500:
            return Trouble(kind, NotReady(told), retry_after=_retry_after(answer))
        case status if 300 <= status < 400 and status != 304:
            where = shorten(answer.headers.get("location", "elsewhere"))
            return Trouble("redirect", NotAService(f"{said} and points to {where}, where no service would"))
        case _ if is_html(answer):
            return Trouble("html", NotAService(f"{said} with a page for people; no service does"))
        case 200 if not answer.body:
            return Trouble("empty", NoAnswer(f"{said} with nothing in it"))
        case _:
            return Trouble(kind, NotAService(told))


def trouble_of_body(url: str, answer: Answer, why: Exception) -> Trouble:
    """Tell what is wrong with an answer of 200 that holds no document."""
    if not answer.body or is_html(answer):
        return trouble_of_answer(url, answer)
    said = shorten(str(why))
    return Trouble(f"garbage {said}", NotAService(f"{url} answers something else: {said}"))


def is_html(answer: Answer) -> bool:
    return "html" in answer.headers.get("content-type", "").lower() or answer.body.lstrip()[:1] == b"<"


def is_service_like(reply: object) -> bool:
    """Tell whether a reply may come from a Scheduled Events service, ready or not."""
    match reply:
        case Silence(connected=True, in_time=False):
            return True  # Azure: the first answer may take two minutes
        case Answer(status=200):
            return _has_key(reply.body, "Events")
        case Answer(status=400 | 403):
            return not is_html(reply) and _has_key(reply.body, "error")
        case Answer(status=410 | 429):
            return not is_html(reply)
        case Answer(status=status):
            return status >= 500 and not is_html(reply)
        case _:
            return False


def newest_versions(answer: Answer) -> tuple[str, ...] | None:
    """Return the api-versions that a refusal recommends; None where it is not about versions."""
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


def _retry_after(answer: Answer) -> float:
    wish = answer.headers.get("retry-after", "")
    return min(float(wish), _LONGEST_WISH) if wish.isascii() and wish.isdigit() else 0.0


def shorten(text: str) -> str:
    line = " ".join(text.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _SAID else shown[: _SAID - 1] + "…"
