"""How the client of the control API reaches a service: through its unix socket, over HTTP or HTTPS."""

import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import SplitResult

import msgspec

from forewarn.control.bodies import ProblemDetails
from forewarn.control.problems import error_of
from forewarn.control.socket_path import short_path, socket_path
from forewarn.core.errors import BadInput, ForewarnError, Unavailable
from forewarn.core.redaction import shown_address
from forewarn.core.web_addresses import split_web_address
from forewarn.http.codec import HttpRequest, HttpResponse, MalformedResponse
from forewarn.http.codec import authority as host_header
from forewarn.http.connection import HttpClientConnection, TimeLimits, open_tcp, open_unix
from forewarn.http.tls import make_client_context

READ_TIMEOUT = 300.0
"""Seconds without a word after which the service counts as gone."""
_WHAT_WAS_DONE = "what was asked may have been done or not: look with 'forewarn event list --all'"
_LIMITS = TimeLimits(connect=READ_TIMEOUT, silence=READ_TIMEOUT)


class AnswerLost(Unavailable):
    """A request was sent, and its answer did not come."""


class Transport(ABC):
    """A connection to one service, made anew when it was closed in between."""

    def __init__(self, where: str, host: str, headers: dict[str, str]) -> None:
        self.where = where
        self._host = host
        self._headers = {"Accept-Encoding": "identity", **headers}
        self._connection = HttpClientConnection(self._connect, largest=None)

    def close(self) -> None:
        self._connection.close()

    def end(self) -> None:
        """End the request of another thread, and send no more."""
        self._connection.end()

    def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> HttpResponse:
        """Send a request and return its answer; raise what it was refused for.

        It may be sent twice: every write has its key, so that it happens once however often it is sent.
        """
        request = HttpRequest(
            method=method,
            target=path,
            host=self._host,
            headers=tuple({**self._headers, **headers}.items()),
            body=body,
        )
        with self._telling():
            response = self._connection.exchange(request, _LIMITS)
        if response.status >= 400:
            raise self._refusal(response)
        return response

    def lines(self, path: str) -> Iterator[bytes]:
        """Send a request and, once it is answered, return the lines of the answer as they come."""
        request = HttpRequest(target=path, host=self._host, headers=tuple(self._headers.items()))
        with self._telling():
            self._connection.start(request, _LIMITS)
        if self._connection.codec.status >= 400:
            body = b"".join(self._pieces())
            raise self._refusal(HttpResponse(self._connection.codec.status, {}, body))
        return self._lines()

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        for piece in self._pieces():
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines

    def _pieces(self) -> Iterator[bytes]:
        with self._telling():
            while piece := self._connection.read():
                yield piece

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say of a failure what it means for the request."""
        try:
            yield
        except TimeoutError:
            raise self._was_silent() from None
        except ssl.SSLError as error:
            raise Unavailable(
                f"{self.where} cannot be trusted: {error.reason or error}; check its certificate"
            ) from None
        except MalformedResponse:
            raise self._went_away() from None
        except OSError as error:
            raise (self._went_away() if self._connection.is_connected else self._unreachable(error)) from None

    def _refusal(self, response: HttpResponse) -> ForewarnError:
        try:
            return error_of(msgspec.json.decode(response.body, type=ProblemDetails))
        except (msgspec.DecodeError, UnicodeDecodeError):
            said = f"{response.status} {self._connection.codec.reason}".rstrip()
            return Unavailable(f"{self.where} answered {said}, and may not be Forewarn")

    def _was_silent(self) -> AnswerLost:
        return AnswerLost(
            f"the service at {self.where} did not answer for {READ_TIMEOUT:.0f} seconds; {_WHAT_WAS_DONE}"
        )

    def _went_away(self) -> AnswerLost:
        return AnswerLost(f"the service went away before it answered; {_WHAT_WAS_DONE}")

    @abstractmethod
    def _connect(self, seconds: float) -> socket.socket:
        """Open a connection."""

    @abstractmethod
    def _unreachable(self, error: OSError) -> Unavailable:
        """Say that no service answers there, and what to do."""


class UnixTransport(Transport):
    """Through the socket in a data directory."""

    def __init__(self, directory: Path) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise Unavailable("this system has no unix sockets; name the service with --url URL")
        self._path = socket_path(directory)
        super().__init__(str(self._path), "localhost", {})

    def _connect(self, seconds: float) -> socket.socket:
        with short_path(self._path) as name:
            return open_unix(name, seconds)

    def _unreachable(self, error: OSError) -> Unavailable:
        directory = self._path.parent
        if isinstance(error, PermissionError):
            return Unavailable(
                f"you may not use {self._path}; run this as the user who runs the service,"
                " or use a token: 'forewarn login --url URL'"
            )
        return Unavailable(
            f"no service answers in {directory}; start one with 'forewarn serve --data {directory}',"
            " name the right directory with 'forewarn --data DIR', or one elsewhere with 'forewarn --url URL'"
        )


class WebTransport(Transport):
    """Over HTTP or HTTPS, with a token."""

    def __init__(self, url: str, token: str, authority: Path | None = None) -> None:
        parts = parse_service_url(url)
        if not (token.isascii() and token.isprintable()):
            raise BadInput("the token holds characters that no token has; copy it again, in one line")
        self._is_secure = parts.scheme == "https"
        default = 443 if self._is_secure else 80
        self._address = parts.hostname or "", parts.port or default
        self._authority = authority
        super().__init__(
            url.rstrip("/"),
            host_header(*self._address, default),
            {"Authorization": f"Bearer {token}"} if token else {},
        )

    def _connect(self, seconds: float) -> socket.socket:
        return open_tcp(*self._address, seconds, self._tls() if self._is_secure else None)

    def _tls(self) -> ssl.SSLContext:
        try:
            return make_client_context(str(self._authority) if self._authority else None)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"{self._authority} is not a CA certificate: {error.strerror or error}; give one in PEM"
            ) from None

    def _unreachable(self, error: OSError) -> Unavailable:
        said = error.strerror or str(error)
        return Unavailable(f"no service answers at {self.where}: {said}; check the address, and that it runs")


def parse_service_url(url: str) -> SplitResult:
    """Take a URL of a service apart; raise BadInput that says how one is written."""
    parts = split_web_address(url)
    if parts is None or parts.path.strip("/") or parts.query or parts.username:
        raise BadInput(
            f"{shown_address(url)!r} is not a valid service address; write it like https://forewarn.example.org:8255"
        )
    return parts
