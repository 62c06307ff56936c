"""A blocking HTTP connection over TCP, TLS or a unix socket: kept open, bounded in time, never through a proxy."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from forewarn.http.codec import LARGEST_BODY, HttpCodec, HttpRequest, HttpResponse

if TYPE_CHECKING:
    import ssl

_CHUNK = 65_536


class TimeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that the parts of an exchange may take."""

    connect: float
    """For opening a connection, per address of the host."""
    total: float = inf
    """For the request and its complete response: limits a server that sends one byte a second."""
    silence: float = inf
    """Until the next piece of the response."""
    rest: float = inf
    """For the rest of a response after its first byte."""


class ConnectionEnded(ConnectionError):
    """The connection ended before the response was complete; the message is a predicate."""


class HttpClientConnection:
    """A connection that is opened with ``connect(seconds)`` whenever none is open.

    Methods raise OSError for network failures (TimeoutError for timeouts), MalformedResponse for responses that are
    not HTTP, and the errors of ``connect``.
    """

    def __init__(self, connect: Callable[[float], socket.socket], largest: int | None = LARGEST_BODY) -> None:
        self.codec = HttpCodec(largest)
        self.is_connected = False
        """Whether the last request had a connection: the server may have read it."""
        self._connect = connect
        self._largest = largest
        self._socket: socket.socket | None = None
        self._limits = TimeLimits(connect=0)
        self._until = inf
        self._response: HttpResponse | None = None
        self._is_ended = False

    def exchange(self, request: HttpRequest, limits: TimeLimits) -> HttpResponse:
        self.start(request, limits)
        while self._response is None:
            self._receive()
        return self._response

    def start(self, request: HttpRequest, limits: TimeLimits) -> None:
        """Send a request and return when the head of its response is complete.

        A request may be sent twice: if the server closed the idle connection, a new one is used.
        """
        if not self.codec.is_open:
            self.close()
        is_reused = self._socket is not None
        try:
            self._start(request, limits)
        except OSError as error:
            if not is_reused or isinstance(error, TimeoutError) or self.codec.has_received or self._is_ended:
                raise
            self._start(request, limits)

    def read(self) -> bytes:
        """Return the next part of the body; empty at its end."""
        while not (data := self.codec.take_body()) and self._response is None:
            self._receive()
        return data

    def end(self) -> None:
        """End the exchange of another thread, and open no more connections."""
        self._is_ended = True
        if (opened := self._socket) is not None:
            _wake(opened)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        opened, self._socket = self._socket, None
        if opened is not None:
            _wake(opened)  # close() alone does not
            opened.close()

    def _start(self, request: HttpRequest, limits: TimeLimits) -> None:
        self._response, self._limits = None, limits
        if self._socket is None:
            self.codec, self.is_connected = HttpCodec(self._largest), False
            self._socket = self._connect(limits.connect)
            self.is_connected = True
        with self._closing_on_failure():
            self._until = monotonic() + limits.total
            self._opened(min(limits.total, limits.silence)).sendall(self.codec.encode(request))
        while not self.codec.status:
            self._receive()

    def _receive(self) -> None:
        with self._closing_on_failure():
            data = self._opened(min(self._until - monotonic(), self._limits.silence)).recv(_CHUNK)
            if self._is_ended:
                raise ConnectionEnded("was let go of")
            if not self.codec.has_received:
                self._until = min(self._until, monotonic() + self._limits.rest)
            self._response = self.codec.feed(data)
            if self._response is None and not data:
                raise ConnectionEnded("closed the connection before its answer was whole")
        if self._response is not None and not self.codec.is_open:
            self.close()

    def _opened(self, seconds: float) -> socket.socket:
        opened = self._socket  # another thread may close the connection at any time
        if opened is None or self._is_ended:
            raise ConnectionEnded("was let go of")
        if seconds <= 0:
            raise TimeoutError("timed out")
        opened.settimeout(seconds if seconds < inf else None)
        return opened

    @contextmanager
    def _closing_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def _wake(opened: socket.socket) -> None:
    """End what another thread waits for on a connection."""
    with suppress(OSError):
        # Not the method of a TLS connection: that one also discards the state that the other thread reads with.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)


def open_tcp(host: str, port: int, seconds: float, tls: "ssl.SSLContext | None" = None) -> socket.socket:
    """Return a connection to a host, with TLS if ``tls`` is given."""
    # As bytes: for text, Python would load the tables of internationalized names.
    name = host.encode() if host.isascii() else host
    opened = socket.create_connection((name, port), seconds)  # type: ignore[arg-type]
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return tls.wrap_socket(opened, server_hostname=host) if tls else opened
    except BaseException:
        opened.close()
        raise


def open_unix(path: str, seconds: float) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.settimeout(seconds)
        opened.connect(path)
    except BaseException:
        opened.close()
        raise
    return opened
