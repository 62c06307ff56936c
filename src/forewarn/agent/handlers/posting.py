"""Sends a request to a web address for a handler: no redirect, no proxy, certificates verified, never held by it."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import msgspec

from forewarn.agent.handler import Task
from forewarn.core.errors import ForewarnError

_MARGIN = 0.2
"""Seconds before the deadline at which the wait ends, so that the answer is in time."""
_LOOK_AGAIN = 0.05
_READ = 500
"""Bytes of an answer that are looked at, to say what the receiver said."""


class NoReply(ForewarnError):
    """No answer came."""


class Reply(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    reason: str
    said: str


class Message(msgspec.Struct, frozen=True):
    """What is sent, and where."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    ca_file: str = ""
    """Whose certificates are trusted; the system's where empty."""


class _Exchange:
    """One connection, in a thread: looking a name up cannot be interrupted, and may take minutes."""

    def __init__(self, message: Message, seconds: float) -> None:
        self._message = message
        self._seconds = seconds
        self._connection: HTTPConnection | None = None
        self._is_over = threading.Event()
        self._reply: Reply | None = None
        self._trouble = ""
        threading.Thread(target=self._run, name="webhook", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        return self._is_over.wait(seconds)

    def reply(self) -> Reply:
        if self._reply is None:
            raise NoReply(self._trouble)
        return self._reply

    def cut(self) -> None:
        """Leave a conversation that takes too long as a whole, however lively its parts are."""
        import socket  # noqa: PLC0415 a handler that is not used costs nothing

        with suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]

    def _run(self) -> None:
        message = self._message
        parts = urlsplit(message.url)
        try:
            self._connection = _connection(message, self._seconds)
            try:
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                self._connection.request(message.method, path, message.body, dict(message.headers))
                answer = self._connection.getresponse()
                said = " ".join(answer.read(_READ).decode(errors="replace").split())
                self._reply = Reply(
                    answer.status, answer.reason, "".join(each for each in said if each.isprintable())
                )
            finally:
                self._connection.close()
        except (OSError, HTTPException, ValueError) as error:
            self._trouble = _why(error)
        finally:
            self._is_over.set()


def send(message: Message, task: Task) -> Reply:
    """Return the answer, whatever it is; raise NoReply when none comes in time. Errors do not tell the address."""
    left = (task.deadline - datetime.now(UTC)).total_seconds() - _MARGIN
    until = datetime.now(UTC).timestamp() + left
    exchange = _Exchange(message, max(left, 0.05))
    while not exchange.wait(_LOOK_AGAIN):
        if task.stopping.is_set() or datetime.now(UTC).timestamp() >= until:
            exchange.cut()
            raise NoReply("the agent stops" if task.stopping.is_set() else "it takes too long")
    return exchange.reply()


def _connection(message: Message, seconds: float) -> HTTPConnection:
    parts = urlsplit(message.url)
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    import ssl  # noqa: PLC0415 as above

    try:
        context = ssl.create_default_context(cafile=message.ca_file or None)
    except OSError as error:
        raise ValueError(f"the certificates in {message.ca_file} cannot be read ({error.strerror})") from None
    return HTTPSConnection(parts.hostname or "", parts.port, timeout=seconds, context=context)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes too long"
    if verify := getattr(error, "verify_message", ""):
        return f"its certificate is not trusted ({verify})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return (str(error) or type(error).__name__).splitlines()[0]
