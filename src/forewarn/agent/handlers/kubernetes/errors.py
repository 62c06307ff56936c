"""Errors of the Kubernetes API server and of the connection to it.

Only ``ApiUnreachable`` and its subclasses are retried.
"""

import re

import msgspec

from forewarn.core.errors import BadInput, ForewarnError, NotAllowed, Refused, Unavailable, Unknown

_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
)


class ApiUnreachable(Unavailable):
    """The API server does not answer, or is temporarily unable to."""


class ApiUnable(ApiUnreachable):
    """The API server answers with an error that may be temporary."""


class ApiUnauthorized(NotAllowed):
    """The API server does not accept the agent's credential."""


class ApiForbidden(NotAllowed):
    """The agent's account lacks a permission."""


class ObjectMissing(Unknown):
    """The object does not exist."""


class ObjectConflict(Refused):
    """The object exists already, or was changed concurrently."""


class ApiBlocked(Refused):
    """A policy of the cluster forbids it for now."""


class ApiBadRequest(BadInput):
    """The API server rejects the request as invalid."""


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
    status_body = _read(body)
    # Only the details name the disruption budget.
    budget = next((each.message for each in status_body.details.causes if each.reason == "DisruptionBudget"), "")
    said = " ".join((budget or status_body.message or f"it answered {status}").split())
    match status:
        case 401:
            return ApiUnauthorized(
                f"the API server {url} does not accept the agent's token or certificate;"
                " check the service account of its pod, or the settings 'token_file' and 'certificate_file'"
            )
        case 403:
            lacking = _lacking(said)
            # If no permission is missing, an admission policy refused, and may accept later.
            return ApiForbidden(lacking) if lacking else ApiBlocked(said)
        case 404 if status_body.kind == "Status":
            return ObjectMissing(said)
        case 404:
            # Another web server: its 404 says nothing about the object.
            return ApiUnable(f"{url} does not answer like an API server; check the address")
        case 409:
            return ObjectConflict(said)
        case 429 if budget:
            return ApiBlocked(said)
        case 400 | 405 | 406 | 413 | 415 | 422:
            return ApiBadRequest(f"the API server {url} rejects the request: {said}")
        case _:
            return ApiUnable(f"the API server {url} is temporarily unable to answer: {said}")


def error_of_failure(error: Exception, url: str) -> ForewarnError:
    # Compare the class by name, so that connections without TLS do not import ssl.
    if type(error).__name__ == "SSLCertVerificationError":
        reason = getattr(error, "verify_message", "") or str(error)
        return ApiUnreachable(
            f"the certificate of the API server {url} is not trusted ({reason}); set its authority in 'ca_file'"
        )
    if type(error).__module__ == "ssl":
        return ApiUnreachable(f"no TLS with the API server {url}: {_one_line(error)}; check its address and port")
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
