"""Posts a body to a web address: one connection, one answer, no redirect, no proxy, certificates verified."""

import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from forewarn import __version__
from forewarn.core.errors import ForewarnError

_READ = 200
"""Bytes of an answer that are looked at, to say what the receiver said."""
_LONGEST_WAIT = 3600
USER_AGENT = f"Forewarn/{__version__}"


class NotDelivered(ForewarnError):
    """A message was not delivered."""

    def __init__(self, why: str, *, is_gone: bool = False, wait: int = 0) -> None:
        super().__init__(why)
        self.is_gone = is_gone
        """The receiver wants nothing more, ever."""
        self.wait = wait
        """For how many seconds the receiver wants to be left alone."""


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float, tls: ssl.SSLContext) -> str:
    """Return what the receiver answered, once it has taken the body; raise NotDelivered otherwise.

    Errors name the receiver's host only: the rest of an address may be a secret.
    """
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_late = threading.Event()
    try:
        connection = _connection(parts.scheme, parts.hostname or "", parts.port, timeout, tls)
        watch = threading.Timer(timeout, _cut, (connection, is_late))
        watch.daemon = True
        watch.start()
        try:
            connection.request("POST", path, body, {"User-Agent": USER_AGENT, "Connection": "close", **headers})
            answer = connection.getresponse()
            said = answer.read(_READ).decode(errors="replace") if answer.status >= 300 else ""
        finally:
            watch.cancel()
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        why = f"no answer within {timeout:g} s" if is_late.is_set() else _why(error)
        raise NotDelivered(f"{place} cannot be reached: {why}") from None
    answered = f"{place} answered {answer.status} {answer.reason}".rstrip()
    if 200 <= answer.status < 300:
        return answered
    if 300 <= answer.status < 400:
        raise NotDelivered(f"{answered}; redirects are not followed: set the address that it leads to")
    detail = f": {' '.join(said.split())}" if said.strip() else ""
    raise NotDelivered(
        answered + detail, is_gone=answer.status == 410, wait=_seconds(answer.getheader("Retry-After", ""))
    )


def _connection(scheme: str, host: str, port: int | None, timeout: float, tls: ssl.SSLContext) -> HTTPConnection:
    if scheme == "https":
        return HTTPSConnection(host, port, timeout=timeout, context=tls)
    return HTTPConnection(host, port, timeout=timeout)


def _cut(connection: HTTPConnection, is_late: threading.Event) -> None:
    """End a conversation that takes too long as a whole, however lively its parts are."""
    is_late.set()
    if connection.sock:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


def _seconds(written: str) -> int:
    """Read ``Retry-After``; a date counts as nothing."""
    return min(int(written), _LONGEST_WAIT) if written.isascii() and written.isdigit() and len(written) < 10 else 0
