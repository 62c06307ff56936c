"""What the API server, or the way to it, can answer instead of what was asked for; each one sentence.

The class says what follows from it: only what is ``ApiUnreachable`` is worth asking again.
"""

import re

import msgspec

from forewarn.core.errors import BadInput, ForewarnError, NotAllowed, Refused, Unavailable, Unknown

_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
)


class ApiUnreachable(Unavailable):
    """The API server does not answer, or cannot at the moment."""


class ApiUnable(ApiUnreachable):
    """The API server answers that it cannot do this."""


class ApiUnauthorized(NotAllowed):
    """The API server does not know whom the agent says it is."""


class ApiForbidden(NotAllowed):
    """The agent's account lacks a right."""


class ObjectMissing(Unknown):
    """There is no such object."""


class ObjectConflict(Refused):
    """The object is there already, or somebody else changed it meanwhile."""


class ApiBlocked(Refused):
    """A rule of the cluster forbids it, for now."""


class ApiBadRequest(BadInput):
    """The API server cannot read what it was sent."""


class _StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _StatusDetails(msgspec.Struct, frozen=True):
    causes: tuple[_StatusCause, ...] = ()


class _ApiStatus(msgspec.Struct, frozen=True):
    kind: str = ""
    message: str = ""
    details: _StatusDetails = _StatusDetails()


def error_of_response(status: int, body: bytes, url: str) -> ForewarnError:
    """Return what an answer that is no success means."""
    told = _read(body)
    # Which budget stands in the way, and by how much, is told in the details alone.
    budget = next((each.message for each in told.details.causes if each.reason == "DisruptionBudget"), "")
    said = " ".join((budget or told.message or f"it answered {status}").split())
    match status:
        case 401:
            return ApiUnauthorized(
                f"the API server {url} does not accept the agent's token or certificate;"
                " see the service account of its pod, or its settings 'token_file' and 'certificate_file'"
            )
        case 403:
            lacking = _lacking(said)
            # Where no right is lacking, an admission rule of the cluster says no, and may say yes later.
            return ApiForbidden(lacking) if lacking else ApiBlocked(said)
        case 404 if told.kind == "Status":
            return ObjectMissing(said)
        case 404:
            # Some other web server: that it has no such page says nothing about the object.
            return ApiUnable(f"{url} does not answer as an API server does; see that it is the right address")
        case 409:
            return ObjectConflict(said)
        case 429 if budget:
            return ApiBlocked(said)
        case 400 | 405 | 406 | 413 | 415 | 422:
            return ApiBadRequest(f"the API server {url} refuses what it was sent: {said}")
        case _:
            return ApiUnable(f"the API server {url} cannot do it at the moment: {said}")


def error_of_failure(error: Exception, url: str) -> ForewarnError:
    """Return what it means that no answer came."""
    # Its class is known by name: whoever gets here without TLS need not load it.
    if type(error).__name__ == "SSLCertVerificationError":
        reason = getattr(error, "verify_message", "") or str(error)
        return ApiUnreachable(
            f"the certificate of the API server {url} cannot be trusted ({reason}); give its authority in 'ca_file'"
        )
    if type(error).__module__ == "ssl":
        return ApiUnreachable(f"no TLS with the API server {url}: {_one_line(error)}; see its address and port")
    return ApiUnreachable(f"the API server {url} does not answer: {_one_line(error)}")


def _lacking(said: str) -> str:
    found = _DENIED.search(said)
    if found is None:
        return ""
    user, verb, resource, group = found.groups()
    return (
        f'{user} may not {verb} {resource}; add the verb "{verb}" on "{resource}" (API group "{group}") to its role'
    )


def _read(body: bytes) -> _ApiStatus:
    try:
        return msgspec.json.decode(body, type=_ApiStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _ApiStatus()


def _one_line(error: Exception) -> str:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())
