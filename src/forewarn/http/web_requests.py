"""Sends a request to a web address: one connection, no redirect, no proxy, certificates verified, bounded in time.

A DNS lookup cannot be interrupted and may take minutes, and a server may send its response byte by byte: the exchange
has a thread of its own, and the caller waits for its time limit at most.
"""

import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from forewarn import __version__
from forewarn.core.errors import ForewarnError
from forewarn.core.redaction import scrubbed, secrets_in
from forewarn.http.codec import HttpRequest, MalformedResponse, authority
from forewarn.http.connection import ConnectionEnded, HttpClientConnection, TimeLimits, open_tcp

if TYPE_CHECKING:
    import socket
    import ssl

USER_AGENT = f"Forewarn/{__version__}"
LARGEST_RESPONSE = 64 * 1024
_LONGEST_WAIT = 3600
_POLL_INTERVAL = 0.05
_PLAIN_HEADERS = frozenset({"content-type", "user-agent", "webhook-id", "webhook-timestamp"})
_LONG = 8
"""Words of a header with at least this length may be secrets."""


class WebRequest(msgspec.Struct, frozen=True):
    """A request and its address."""

    url: str
    body: bytes
    headers: Mapping[str, str] = {}
    method: str = "POST"

    @property
    def place(self) -> str:
        """The host and port only: the rest of an address may be a secret."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that the receiver may repeat: in the address and in headers."""
        headers = {**_authorization(urlsplit(self.url)), **self.headers}
        keys = [value for name, value in headers.items() if name.lower() not in _PLAIN_HEADERS]
        return (*keys, *(word for key in keys for word in key.split() if len(word) >= _LONG), *secrets_in(self.url))


class WebResponse(msgspec.Struct, frozen=True):
    """The response of the receiver."""

    status: int
    reason: str = ""
    body: bytes = b""
    wait: int = 0
    """The seconds of Retry-After."""
    secrets: tuple[str, ...] = ()
    """Secrets of the request that the receiver may repeat."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status < 400

    @property
    def said(self) -> str:
        """The beginning of the body as one printable line."""
        text = " ".join(self.body[:2000].decode(errors="replace").split())
        return scrubbed("".join(letter for letter in text if letter.isprintable()), self.secrets)[:200]


class NoWebResponse(ForewarnError):
    """There is no response."""

    def __init__(self, why: str, *, may_have_arrived: bool) -> None:
        super().__init__(why)
        self.may_have_arrived = may_have_arrived
        """Whether the receiver may have read the request."""


def send(
    message: WebRequest, seconds: float, tls: "ssl.SSLContext | None" = None, is_unwanted: Callable[[], bool] = bool
) -> WebResponse:
    """Return the response within a time limit; raise NoReply if there is none, or if it was canceled.

    Errors do not contain the address.
    """
    exchange = _Exchange(message, seconds, tls)
    end = monotonic() + seconds
    while not exchange.is_over.wait(min(_POLL_INTERVAL, max(end - monotonic(), 0.0))):
        if is_unwanted():
            raise exchange.cut("it is no longer wanted")
        if monotonic() >= end:
            raise exchange.cut(_too_late(seconds))
    return exchange.reply()


class _Exchange:
    def __init__(self, message: WebRequest, seconds: float, tls: "ssl.SSLContext | None") -> None:
        self.is_over = threading.Event()
        self._message = message
        self._seconds = seconds
        self._tls = tls
        self._connection = HttpClientConnection(self._connect, largest=None)
        self._reply: WebResponse | None = None
        self._why = ""
        threading.Thread(target=self._run, name="posting", daemon=True).start()

    def reply(self) -> WebResponse:
        if self._reply is None:
            raise NoWebResponse(self._why, may_have_arrived=self._connection.is_connected)
        return self._reply

    def cut(self, why: str) -> NoWebResponse:
        """End the exchange."""
        self._connection.end()
        return NoWebResponse(why, may_have_arrived=self._connection.is_connected)

    def _run(self) -> None:
        secrets = self._message.secrets
        try:
            self._reply = self._exchange(secrets)
        except (OSError, MalformedResponse, ValueError) as error:
            self._why = scrubbed(_why(error, self._seconds), secrets)
        finally:
            self._connection.close()
            self.is_over.set()

    def _exchange(self, secrets: tuple[str, ...]) -> WebResponse:
        parts = urlsplit(self._message.url)
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Connection": "close"}
        request = HttpRequest(
            method=self._message.method,
            target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
            host=authority(parts.hostname or "", *_ports(parts)),
            headers=tuple((headers | _authorization(parts) | dict(self._message.headers)).items()),
            body=self._message.body,
        )
        connection = self._connection
        limit = max(self._seconds, _POLL_INTERVAL)
        connection.start(request, TimeLimits(connect=limit, total=limit))
        body = b""
        with suppress(ConnectionEnded):  # a receiver that closes early has sent a shorter body
            while len(body) < LARGEST_RESPONSE and (data := connection.read()):
                body += data
        codec = connection.codec
        wait = next((value for name, value in codec.fields if name.lower() == "retry-after"), "")
        reason = scrubbed(codec.reason, secrets)
        return WebResponse(codec.status, reason, body[:LARGEST_RESPONSE], _seconds(wait), secrets)

    def _connect(self, seconds: float) -> "socket.socket":
        parts = urlsplit(self._message.url)
        tls = self._tls
        if parts.scheme == "https" and tls is None:
            from forewarn.http.tls import make_client_context  # noqa: PLC0415 - large, and rarely needed

            tls = make_client_context()
        return open_tcp(parts.hostname or "", _ports(parts)[0], seconds, tls if parts.scheme == "https" else None)


def _ports(parts: SplitResult) -> tuple[int, int]:
    """Return the port of an address, and the one that its scheme implies."""
    default = 443 if parts.scheme == "https" else 80
    return parts.port or default, default


def _authorization(parts: SplitResult) -> dict[str, str]:
    """Return the Authorization header for a user and password in the address."""
    if parts.username is None:
        return {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}


def _too_late(seconds: float) -> str:
    return f"no answer within {seconds:.3g} s"


def _why(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return _too_late(seconds)
    if isinstance(error, (MalformedResponse, ConnectionEnded)):
        return f"it {error}"
    if verify := getattr(error, "verify_message", ""):
        return f"its certificate is not trusted ({verify})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return (str(error) or type(error).__name__).splitlines()[0]


def _seconds(written: str) -> int:
    """Parse ``Retry-After``; a date is ignored."""
    return min(int(written), _LONGEST_WAIT) if written.isascii() and written.isdigit() and len(written) < 10 else 0
