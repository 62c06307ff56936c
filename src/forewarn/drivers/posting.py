"""Posts a body and returns the answer, whatever it is: one connection, no redirect, certificates verified."""

import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import msgspec

from forewarn import __version__
from forewarn.core.errors import ForewarnError

LARGEST_ANSWER = 64 * 1024
_LONGEST_WAIT = 3600.0


class Reply(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes = b""
    wait: float = 0.0
    """For how many seconds the receiver wants to be left alone."""


class NoReply(ForewarnError):
    """No answer came."""

    def __init__(self, why: str, *, may_have_arrived: bool) -> None:
        super().__init__(why)
        self.may_have_arrived = may_have_arrived
        """Whether the receiver may have read the message all the same."""


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Reply:
    """Return the answer, within so many seconds in all; raise NoReply when there is none."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    watch = threading.Timer(timeout, _cut, (connection,))
    watch.daemon = True
    is_connected = False
    try:
        connection.connect()
        is_connected = True
        watch.start()
        connection.request("POST", path, body, {"User-Agent": f"Forewarn/{__version__}", **headers})
        answer = connection.getresponse()
        return Reply(answer.status, answer.read(LARGEST_ANSWER), _seconds(answer.getheader("Retry-After", "")))
    except (OSError, HTTPException, ValueError) as error:
        place = parts.netloc.rpartition("@")[2]
        raise NoReply(f"{place} gives no answer: {_why(error)}", may_have_arrived=is_connected) from None
    finally:
        watch.cancel()
        connection.close()


def _cut(connection: HTTPConnection) -> None:
    """End a conversation that takes too long as a whole, however lively its parts are."""
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


def _seconds(written: str) -> float:
    """Read ``Retry-After``; a date counts as nothing."""
    digits = written if written.isascii() and written.isdigit() and len(written) < 10 else "0"
    return min(float(digits), _LONGEST_WAIT)
