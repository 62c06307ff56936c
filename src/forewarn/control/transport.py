"""How the client of the control API reaches a service: through its unix socket, over HTTP or HTTPS."""

import http.client
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from forewarn.control.bodies import ProblemDetails
from forewarn.control.problems import error_of
from forewarn.control.socket_path import short_path, socket_path
from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.redaction import shown_address

READ_TIMEOUT = 300.0
"""Seconds without a word after which the service counts as gone."""
_WHAT_WAS_DONE = "what was asked may have been done or not: look with 'forewarn event list --all'"
_GONE = (http.client.RemoteDisconnected, http.client.BadStatusLine, ConnectionResetError, BrokenPipeError)


class AnswerLost(Unavailable):
    """A request was sent, and its answer did not come."""


class Transport(ABC):
    """A connection to one service, made anew when it was closed in between."""

    def __init__(self, where: str, headers: dict[str, str]) -> None:
        self.where = where
        self._headers = headers
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """Send a request and return its answer, which is still to be read; raise what it was refused for."""
        is_fresh = self._connection is None
        try:
            answer = self._send(method, path, body, headers)
        except _GONE as error:
            # A connection that was kept may have been closed meanwhile. Every write has its key, so that it
            # happens once however often it is sent.
            self.close()
            if is_fresh:
                raise self._went_away() from error
            try:
                answer = self._send(method, path, body, headers)
            except _GONE:
                raise self._went_away() from None
            except OSError as again:
                raise self._unreachable(again) from None
        except TimeoutError:
            self.close()
            raise self._was_silent() from None
        except ssl.SSLError as error:
            self.close()
            raise Unavailable(
                f"{self.where} cannot be trusted: {error.reason or error}; check its certificate"
            ) from None
        except OSError as error:
            self.close()
            raise self._unreachable(error) from None
        if answer.status >= 400:
            self._refuse(answer)
        return answer

    def read(self, answer: http.client.HTTPResponse) -> bytes:
        """Return the whole body of an answer."""
        try:
            return answer.read()
        except TimeoutError:
            raise self._was_silent() from None
        except (OSError, http.client.HTTPException):
            raise self._went_away() from None

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = self.connect()
        self._connection.request(method, path, body, {**self._headers, **headers})
        return self._connection.getresponse()

    def _refuse(self, answer: http.client.HTTPResponse) -> None:
        said = self.read(answer)
        try:
            problem = msgspec.json.decode(said, type=ProblemDetails)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unavailable(
                f"{self.where} answered {answer.status} {answer.reason}, and is perhaps no Forewarn"
            ) from None
        raise error_of(problem)

    def _was_silent(self) -> AnswerLost:
        return AnswerLost(
            f"the service at {self.where} has said nothing for {READ_TIMEOUT:.0f} seconds; {_WHAT_WAS_DONE}"
        )

    def _went_away(self) -> AnswerLost:
        return AnswerLost(f"the service went away before it answered; {_WHAT_WAS_DONE}")

    @abstractmethod
    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that opens when it is first used."""

    @abstractmethod
    def _unreachable(self, error: OSError) -> Unavailable:
        """Say that nobody answers there, and what to do."""


class UnixTransport(Transport):
    """Through the socket in a data directory."""

    def __init__(self, directory: Path) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise Unavailable("this system has no unix sockets; name the service with --url URL")
        self._path = socket_path(directory)
        super().__init__(str(self._path), {})

    def connect(self) -> http.client.HTTPConnection:
        return _UnixConnection(self._path)

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


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=READ_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            with short_path(self._path) as name:
                self.sock.connect(name)
        except OSError:
            self.sock.close()
            raise


class WebTransport(Transport):
    """Over HTTP or HTTPS, with a token."""

    def __init__(self, url: str, token: str, authority: Path | None = None) -> None:
        parts = parse_service_url(url)
        if not (token.isascii() and token.isprintable()):
            raise BadInput("the token holds characters that no token has; copy it again, in one line")
        self._host = parts.hostname or ""
        self._port = parts.port
        self._is_secure = parts.scheme == "https"
        self._authority = authority
        super().__init__(url.rstrip("/"), {"Authorization": f"Bearer {token}"} if token else {})

    def connect(self) -> http.client.HTTPConnection:
        if not self._is_secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=READ_TIMEOUT)
        try:
            context = ssl.create_default_context(cafile=str(self._authority) if self._authority else None)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(
                f"{self._authority} is no certificate of an authority: {error.strerror or error}; give one in PEM"
            ) from None
        return http.client.HTTPSConnection(self._host, self._port, timeout=READ_TIMEOUT, context=context)

    def _unreachable(self, error: OSError) -> Unavailable:
        said = error.strerror or str(error)
        return Unavailable(f"no service answers at {self.where}: {said}; check the address, and that it runs")


def parse_service_url(url: str) -> SplitResult:
    """Take a URL of a service apart; raise BadInput that says how one is written."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.path.strip("/") or parts.query or parts.username:
        raise BadInput(
            f"{shown_address(url)!r} is no address of a service; write it like https://forewarn.example.org:8255"
        )
    return parts
