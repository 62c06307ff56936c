"""Where operators and owners arrive: the unix socket in the data directory, and a TCP port if there is to be one.

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
from http import HTTPStatus

import msgspec
import uvicorn
from litestar.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from forewarn.control.api.context import PEER, Peer
from forewarn.control.bodies import ProblemDetails
from forewarn.control.problems import MEDIA_TYPE, PREFIX
from forewarn.control.server.sockets import MOST_PER_ADDRESS, most_connections
from forewarn.core.model import Caller, CallerKind
from forewarn.socket_files import KEEP_SOCKET_FILE

log = logging.getLogger(__name__)

_STOP_TIMEOUT = 5
"""Seconds that answers may still take when the service stops."""
ARRIVAL = 20.0
"""Seconds that the head of a request may take to arrive."""
BODY_ARRIVAL = 600.0
"""Seconds that its body may take: a large fleet comes over a slow line."""
LARGEST_HEAD = 64 * 1024
"""Bytes that the head of a request may have."""
_BACKLOG = 2048
_TICK = 1.0
_MOMENT = 0.005
_LOG_INTERVAL = 60.0
"""Seconds between log lines about invalid requests: callers without a token must not fill the log."""
_INVALID = "Invalid HTTP request received."
"""What uvicorn logs of each."""


class _InvalidRequestLog:
    """Logs requests that are not HTTP, at most once per interval, with the number of them since the last line."""

    def __init__(self) -> None:
        self._count = 0
        self._due_at = float("-inf")

    def add(self, address: str, now: float) -> None:
        self._count += 1
        if now >= self._due_at:
            fields = {"count": self._count, "last_address": address or "control.sock"}
            log.warning("invalid HTTP requests were refused", extra={"fields": fields})
            self._count, self._due_at = 0, now + _LOG_INTERVAL


def _is_not_invalid_request(record: logging.LogRecord) -> bool:
    return record.msg != _INVALID


class _ControlConnection(HttpToolsProtocol):
    """A connection; one through the unix socket knows who is at its other end."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, open_of: Counter[str], invalid: _InvalidRequestLog
    ) -> None:
        super().__init__(config, server_state, app_state={})
        self._open_of = open_of
        self._invalid = invalid
        self._address = ""
        self.access_log = False  # the record tells who did what
        self._arrival: asyncio.TimerHandle | None = None
        self._is_in_head = True
        self._head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == getattr(socket, "AF_UNIX", None):
            self.app_state = {**self.app_state, PEER: peer_of(connection)}
        else:
            self._address = str(self.client[0]) if self.client else "?"
            self._open_of[self._address] += 1
            if len(self.connections) > most_connections() or self._open_of[self._address] > MOST_PER_ADDRESS:
                transport.abort()
                return
        self._await(ARRIVAL)

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_arrived()
        if self._address:
            self._open_of[self._address] -= 1
            if not self._open_of[self._address]:
                del self._open_of[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            self._head_size += len(data)
            if self._head_size > LARGEST_HEAD:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too large; send less")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._head_size = True, 0
        self._await(ARRIVAL)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._await(BODY_ARRIVAL)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._has_arrived()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP request."""
        self._invalid.add(self._address, self.loop.time())
        self._refuse(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP/1.1; send it with an HTTP client")

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the request is answered as if it asked for no upgrade."""

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer what no route sees, and hang up."""
        problem = ProblemDetails(type=f"{PREFIX}bad-input", title=status.phrase, status=status, detail=detail)
        body = msgspec.json.encode(problem)
        head = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode())]
        head += [b"%s: %s" % header for header in self.server_state.default_headers]
        head += [f"content-type: {MEDIA_TYPE}".encode(), b"content-length: %d" % len(body), b"connection: close"]
        self.transport.write(b"\r\n".join([*head, b"", body]))
        self.transport.close()

    def _await(self, seconds: float) -> None:
        """Give a request some time to arrive: whoever sends half of one must not hold a connection for ever."""
        self._has_arrived()
        self._arrival = self.loop.call_later(seconds, self.transport.abort)

    def _has_arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None


def peer_of(connection: socket.socket) -> Peer:
    """Find out who is at the other end from the system, which cannot be lied to."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    else:
        uid = os.getuid()  # the file's permissions let nobody else in, but for root
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    return Peer(Caller(CallerKind.OPERATOR, name, "control.sock"), uid)


class ControlServer(uvicorn.Server):
    """Answers on sockets that already listen; TLS is spoken over TCP alone."""

    def __init__(self, app: ASGIApp, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_ControlConnection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=75,
            )
        )
        self._sockets = sockets
        self._tls = tls
        self._ticking: asyncio.Task[None] | None = None
        self._open_of: Counter[str] = Counter()
        self._invalid = _InvalidRequestLog()
        logging.getLogger("uvicorn.error").addFilter(_is_not_invalid_request)

    async def open(self) -> None:
        """Begin to answer."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        self._ticking = asyncio.create_task(self.main_loop())
        loop = asyncio.get_running_loop()
        self.servers = []
        for listening in self._sockets:
            if listening.family == getattr(socket, "AF_UNIX", None):
                server = await loop.create_unix_server(
                    self._converse, sock=listening, backlog=_BACKLOG, **KEEP_SOCKET_FILE
                )
            else:
                server = await loop.create_server(self._converse, sock=listening, ssl=self._tls, backlog=_BACKLOG)
            self.servers.append(server)
        self.started = True

    async def close(self) -> None:
        """Take nobody more in, let what is being answered be answered, and close every connection."""
        if self._ticking is None:
            return
        self._ticking.cancel()
        self._ticking = None
        for server in self.servers:
            server.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        try:
            # uvicorn's own shutdown sleeps a tenth of a second even when nobody is connected.
            async with asyncio.timeout(_STOP_TIMEOUT):
                while state.connections or state.tasks:  # noqa: ASYNC110 uvicorn tells nobody of the last one's end
                    await asyncio.sleep(_MOMENT)
        except TimeoutError:
            for task in state.tasks:
                task.cancel()

    async def main_loop(self) -> None:
        """Keep the ``Date`` of answers right."""
        while True:
            await self.on_tick(0)
            await asyncio.sleep(_TICK)

    def _converse(self) -> asyncio.Protocol:
        return _ControlConnection(self.config, self.server_state, self._open_of, self._invalid)
