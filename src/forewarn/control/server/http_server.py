"""HTTP server of the control plane: the unix socket in the data directory, and a TCP port if one is set.

uvicorn runs in the service's own event loop, on sockets that are made here, and leaves signals alone.
"""

import asyncio
import logging
import os
import pwd
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from math import inf
from typing import Any, cast

import msgspec
import uvicorn
from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.types.asgi_types import HTTPReceiveMessage, HTTPSendMessage

from forewarn.control.api.context import PEER, Peer
from forewarn.control.bodies import ProblemDetails
from forewarn.control.problems import MEDIA_TYPE, PREFIX
from forewarn.control.server.sockets import LIMITS, ServerLimits, most_connections
from forewarn.core.model import Caller, CallerKind
from forewarn.node.histogram import Histogram
from forewarn.socket_files import KEEP_SOCKET_FILE

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 5
"""Seconds that answers may still take when the service stops."""
LARGEST_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""
_BACKLOG = 2048
_LARGEST_READ = 256 * 1024
"""Bytes that an event loop reads at once."""
_CONNECTION = "forewarn-connection"


class _InvalidRequestLog:
    """Logs requests that are not HTTP, at most once per interval, with the number of them since the last line."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._count = 0
        self._due_at = float("-inf")

    def add(self, address: str, now: float) -> None:
        self._count += 1
        if now >= self._due_at:
            fields = {"count": self._count, "last_address": address or "control.sock"}
            log.warning("invalid HTTP requests were refused", extra={"fields": fields})
            self._count, self._due_at = 0, now + self._interval


class _ControlConnection(asyncio.Protocol):
    """A connection, in front of uvicorn's: one through the unix socket knows who is at its other end.

    A request must arrive in time, and its head must be small. uvicorn says when one has arrived: it calls the app.
    """

    def __init__(self, server: "ControlServer") -> None:
        self._server = server
        self._address = ""
        self._loop = asyncio.get_running_loop()
        self._arrival: asyncio.TimerHandle | None = None
        self._head_size = 0
        self._is_answering = False
        self._body_left = 0.0
        """Bytes that may still belong to the body of the last request."""
        self._is_reading = False
        self._transport: asyncio.Transport
        self._inner: Any = None
        """uvicorn's part."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        server = self._server
        server.connections.add(self)
        state: dict[str, object] = {_CONNECTION: self}
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == getattr(socket, "AF_UNIX", None):
            state[PEER] = peer_of(connection)
        else:
            self._address = str((transport.get_extra_info("peername") or "?")[0])
            server.open_of[self._address] += 1
            has_too_many = server.open_of[self._address] > server.limits.per_address
            if has_too_many or len(server.connections) > most_connections(server.limits.connections):
                self._transport.abort()
                return
        self._inner = server.make_protocol(state)
        self._inner.connection_made(_WatchedTransport(self._transport, self))
        self._await(self._server.limits.arrival)

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_arrived()
        if self._address:
            self._server.open_of[self._address] -= 1
            if not self._server.open_of[self._address]:
                del self._server.open_of[self._address]
        if self._inner is not None:
            self._inner.connection_lost(exc)
        self._server.connections.discard(self)
        self._server.notice_end()

    def data_received(self, data: bytes) -> None:
        if self._inner is None or self._transport.is_closing():
            return
        of_body = min(self._body_left, len(data))
        self._body_left -= of_body
        if of_body < len(data):
            if not self._is_answering and (not self._head_size or self._arrival is None):
                self._await(self._server.limits.arrival)
            self._head_size += len(data) - int(of_body)
        self._is_reading = True
        try:
            self._inner.data_received(data)
        finally:
            self._is_reading = False
        # The app is called before this is, if the head is complete.
        self._loop.call_soon(self._check_head)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    def write(self, data: bytes) -> None:
        """Write an answer of uvicorn's. What it answers while it reads, before the app is called, is no HTTP."""
        if not self._is_reading:
            self._transport.write(data)
            return
        self._server.invalid.add(self._address, self._loop.time())
        self._refuse(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP/1.1; send it with an HTTP client")

    def begin_answer(self, body: float) -> None:
        """Note that the head of a request has arrived; its body has at most so many bytes."""
        self._is_answering, self._body_left, self._head_size = True, body, 0
        self._has_arrived()
        if body:
            self._await(self._server.limits.body_arrival)

    def end_body(self) -> None:
        """Note that the body of a request has arrived."""
        self._body_left = 0.0
        self._has_arrived()

    def end_answer(self) -> None:
        """Note that a request is answered; what it left unread of its body may still come."""
        self._is_answering = False
        if self._body_left == inf:
            self._body_left = self._server.limits.unread

    def shutdown(self) -> None:
        """Close the connection, once the request that is being answered is answered."""
        if self._inner is not None:
            self._inner.shutdown()

    def _check_head(self) -> None:
        if self._transport.is_closing():
            return
        if self._is_answering:
            # uvicorn stops reading when it has another whole request: this is none.
            if self._head_size > LARGEST_HEAD + _LARGEST_READ:
                self._transport.abort()
        elif self._head_size > LARGEST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large; send less")

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer what no route sees, and hang up."""
        problem = ProblemDetails(type=f"{PREFIX}bad-input", title=status.phrase, status=status, detail=detail)
        body = msgspec.json.encode(problem)
        head = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode()), b"%s: %s" % _date()]
        head += [f"content-type: {MEDIA_TYPE}".encode(), b"content-length: %d" % len(body), b"connection: close"]
        self._transport.write(b"\r\n".join([*head, b"", body]))
        self._transport.close()

    def _await(self, seconds: float) -> None:
        """Give a request some time to arrive: a client that sends half of one must not hold a connection for ever."""
        self._has_arrived()
        self._arrival = self._loop.call_later(seconds, self._transport.abort)

    def _has_arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None


class _WatchedTransport:
    """The transport as uvicorn sees it: everything but writing is the real one's."""

    def __init__(self, transport: asyncio.Transport, connection: _ControlConnection) -> None:
        self._transport = transport
        self.write = connection.write

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        return getattr(self._transport, name)


def _date() -> tuple[bytes, bytes]:
    return b"date", formatdate(usegmt=True).encode()


def peer_of(connection: socket.socket) -> Peer:
    """Find out who is at the other end from the system, which cannot be lied to."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    else:
        uid = os.getuid()  # the file's permissions let no other user in, except root
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    return Peer(Caller(CallerKind.OPERATOR, name, "control.sock"), uid)


class ControlServer:
    """Answers on sockets that already listen; TLS is spoken over TCP alone."""

    def __init__(
        self,
        app: ASGIApp,
        sockets: Sequence[socket.socket],
        tls: ssl.SSLContext | None = None,
        limits: ServerLimits = LIMITS,
        durations: Histogram | None = None,
    ) -> None:
        """``durations`` counts how long requests take until their answer begins."""
        self.limits = limits
        self._durations = durations
        self.connections: set[_ControlConnection] = set()
        self.open_of: Counter[str] = Counter()
        """How many connections each address has."""
        self.invalid = _InvalidRequestLog(limits.log_interval)
        self._app = app
        self._sockets = sockets
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._answers: set[asyncio.Task[object]] = set()
        self._is_idle = asyncio.Event()
        self._config = uvicorn.Config(
            cast("Any", self._answer),
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # its warnings are about callers, who must not fill the log
            access_log=False,  # the record tells who did what
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
        )
        self._state = uvicorn.Server(self._config).server_state

    async def open(self) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if listening.family == getattr(socket, "AF_UNIX", None):
                server = await loop.create_unix_server(
                    self._connect, sock=listening, backlog=_BACKLOG, **KEEP_SOCKET_FILE
                )
            else:
                arrival = self.limits.arrival if self._tls else None
                server = await loop.create_server(
                    self._connect, sock=listening, ssl=self._tls, ssl_handshake_timeout=arrival, backlog=_BACKLOG
                )
            self._servers.append(server)

    async def close(self) -> None:
        """Accept no more connections, finish the responses under way, and close every connection."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self.connections):
            connection.shutdown()
        self.notice_end()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT):
                await self._is_idle.wait()
        except TimeoutError:
            for answer in self._answers:
                answer.cancel()

    def make_protocol(self, state: dict[str, object]) -> asyncio.Protocol:
        """Return what reads requests and writes answers; requests carry ``state`` in their scope."""
        make = cast("Any", self._config.http_protocol_class)
        return cast("asyncio.Protocol", make(config=self._config, server_state=self._state, app_state=state))

    def notice_end(self) -> None:
        """Look whether the last connection and the last answer have ended."""
        if not self.connections and not self._answers:
            self._is_idle.set()
        else:
            self._is_idle.clear()

    def _connect(self) -> asyncio.Protocol:
        return _ControlConnection(self)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = cast("_ControlConnection", scope["state"].pop(_CONNECTION))

        async def receive_body() -> HTTPReceiveMessage:
            message = cast("HTTPReceiveMessage", await receive())
            if message["type"] == "http.request" and not message["more_body"]:
                connection.end_body()
            return message

        loop = asyncio.get_running_loop()
        began = loop.time()

        async def send_dated(message: HTTPSendMessage) -> None:
            if message["type"] == "http.response.start":
                if self._durations is not None:
                    self._durations.add(loop.time() - began)
                message["headers"] = [_date(), *message["headers"]]
            await send(message)

        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._answers.add(task)
        connection.begin_answer(_body_of(scope))
        try:
            await self._app(scope, cast("Receive", receive_body), cast("Send", send_dated))
        finally:
            connection.end_answer()
            self._answers.discard(task)
            self.notice_end()


def _body_of(scope: Scope) -> float:
    """Return how many bytes the body of a request has; infinity where it comes in chunks."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return inf
        if name == b"content-length":
            return int(value)
    return 0
