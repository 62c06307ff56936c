"""A server seen from outside: requests of every kind, well-formed or not, and what comes back."""

import re
import socket
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from forewarn.conformance.checks import CheckResult
from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.redaction import shown_address
from forewarn.http.codec import HttpRequest, MalformedResponse, authority
from forewarn.http.connection import ConnectionEnded, HttpClientConnection, TimeLimits, open_tcp
from forewarn.wire.error_responses import read_error
from forewarn.wire.versions import NEWEST

EVENTS = "/metadata/scheduledevents"
INSTANCE = "/metadata/instance"
VERSIONS = "/metadata/versions"
METADATA = {"Metadata": "true"}
_RETRIES = 3
_SHOWN = 60
_LARGEST = 1 << 28
"""Bytes that an answer may have: the document of a large group is long."""


class ServerReply(msgspec.Struct, frozen=True):
    """What came back; status 0 where nothing did, and the reason is the body."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the server made it
        """The body read as JSON; None where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def __str__(self) -> str:
        if self.status == 0:
            return self.body.decode()
        said = " ".join(read_error(self.body).split())
        return f"{self.status} {said[:_SHOWN]}{'…' * (len(said) > _SHOWN)}".strip()

    def has_status(self, expected: int, of: str = "") -> CheckResult:
        """Look whether it is answered so."""
        return CheckResult(f"{expected}{of and f' to {of}'}", str(self), self.status == expected)

    def is_refusal(self, expected: int, of: str = "") -> CheckResult:
        """Look whether it is refused so, with a sentence in ``error``."""
        has_error = isinstance(self.json, dict) and isinstance(self.json.get("error"), str)
        what = f"{expected} and an error in JSON{of and f' to {of}'}"
        return CheckResult(what, str(self), self.status == expected and has_error)


class Server:
    """The server under test. At most ``rate`` requests per second are sent; without a rate, as many as it answers."""

    def __init__(self, url: str, *, rate: float = 0.0, timeout: float = 10.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port or 80
        except ValueError:
            port = 0
        if parts.scheme != "http" or not parts.hostname or not port:
            raise BadInput(f"{shown_address(url)!r} is not a valid server address; write it as http://HOST:PORT")
        self.host, self.port = parts.hostname, port
        self.timeout = timeout
        self._pause = 1 / rate if rate else 0.0
        self._next_at = 0.0

    def require(self) -> None:
        """Raise Unavailable if the server does not answer."""
        try:
            socket.create_connection((self.host, self.port), self.timeout).close()
        except OSError as error:
            raise Unavailable(
                f"no server answers at {self.host}:{self.port}: {error.strerror or error}; is the server running?"
            ) from None

    def get(self, path: str = EVENTS, version: str = NEWEST.name, **headers: str) -> ServerReply:
        """Ask as a good client does; ``headers`` have underscores for hyphens."""
        return self.ask("GET", with_version(path, version), METADATA | _spelled(headers))

    def post(self, body: bytes, version: str = NEWEST.name, **headers: str) -> ServerReply:
        """Approve as a good client does."""
        return self.ask("POST", with_version(EVENTS, version), METADATA | _spelled(headers), body)

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None, wait: float = 0.0
    ) -> ServerReply:
        """Send a request; on 429, retry a few times."""
        for _ in range(_RETRIES):
            self._take_turn()
            reply = self._ask(method, target, headers, body, self.timeout + wait)
            if reply.status != 429:
                break
            later = reply.header("Retry-After")
            time.sleep(float(later) if later.isdecimal() else 1.0)
        return reply

    def send(self, request: bytes, timeout: float = 0.0) -> ServerReply:
        """Send bytes as they are, and read what comes back until the server closes or falls silent."""
        self._take_turn()
        received = b""
        try:
            with socket.create_connection((self.host, self.port), timeout or self.timeout) as opened:
                opened.sendall(request)
                while not _is_whole(received) and (block := opened.recv(65_536)):
                    received += block
        except OSError as error:
            if not received:
                return ServerReply(0, body=f"no answer: {str(error) or type(error).__name__}".encode())
        return _read(received)

    def _ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> ServerReply:
        request = HttpRequest(
            method=method,
            target=target,
            host=authority(self.host, self.port, 80),
            headers=(("Accept-Encoding", "identity"), *headers.items()),
            body=body,
        )
        connection = HttpClientConnection(partial(open_tcp, self.host, self.port), _LARGEST)
        try:
            response = connection.exchange(request, TimeLimits(connect=timeout, total=timeout))
        except (MalformedResponse, ConnectionEnded) as error:
            return ServerReply(0, body=f"no answer: it {error}".encode())
        except OSError as error:
            return ServerReply(0, body=f"no answer: {str(error) or type(error).__name__}".encode())
        finally:
            connection.close()
        return ServerReply(response.status, connection.codec.fields, response.body)

    def _take_turn(self) -> None:
        now = time.monotonic()
        if self._next_at > now:
            time.sleep(self._next_at - now)
        self._next_at = max(now, self._next_at) + self._pause


def with_version(path: str, version: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}api-version={version}"


def _spelled(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _is_whole(received: bytes) -> bool:
    head, ends, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length:[ \t]*(\d+)", head)
    return bool(ends) and length is not None and len(body) >= int(length[1])


def _read(received: bytes) -> ServerReply:
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = re.match(r"HTTP/\d\.\d (\d{3})", lines[0])
    if not status:
        return ServerReply(
            0, body=b"the connection was closed without an answer" if not received else b"no HTTP answer"
        )
    pairs = (line.partition(":") for line in lines[1:])
    return ServerReply(int(status[1]), tuple((name, value.strip()) for name, _, value in pairs), body)
