"""Where operators and owners arrive: the unix socket in the data directory, and a TCP port if there is to be one.

uvicorn runs in the service's own event loop, on sockets that are made here, and leaves signals alone.
"""

import asyncio
import os
import pwd
import socket
import ssl
import struct
from collections.abc import Sequence

import uvicorn
from litestar.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from forewarn.control.api.plane import PEER
from forewarn.core.model import Caller, CallerKind

_PATIENCE = 5
"""Seconds that answers may still take when the service stops."""
ARRIVAL = 20.0
"""Seconds that the head of a request may take to arrive."""
MOST_CONNECTIONS = 4_096
"""Over TCP; whoever comes through the unix socket is always let in."""
_BACKLOG = 2048
_TICK = 1.0
_MOMENT = 0.005


class _Conversation(HttpToolsProtocol):
    """A connection; one through the unix socket knows who is at its other end."""

    def __init__(self, config: uvicorn.Config, server_state: ServerState) -> None:
        super().__init__(config, server_state, app_state={})
        self.access_log = False  # the record tells who did what
        self._arrival: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == getattr(socket, "AF_UNIX", None):
            self.app_state = {**self.app_state, PEER: peer_of(connection)}
        elif len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        super().on_headers_complete()

    def _await_head(self) -> None:
        """Give the head of a request some time to arrive: whoever sends none must not hold a connection for ever."""
        self._head_is_here()
        self._arrival = self.loop.call_later(ARRIVAL, self.transport.abort)

    def _head_is_here(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None


def peer_of(connection: socket.socket) -> Caller:
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
    return Caller(CallerKind.OPERATOR, name, "control.sock")


class ControlServer(uvicorn.Server):
    """Answers on sockets that already listen; TLS is spoken over TCP alone."""

    def __init__(self, app: ASGIApp, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Conversation,
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

    async def open(self) -> None:
        """Begin to answer."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        self._ticking = asyncio.create_task(self.main_loop())
        loop = asyncio.get_running_loop()
        self.servers = []
        for listening in self._sockets:
            if listening.family == getattr(socket, "AF_UNIX", None):
                server = await loop.create_unix_server(self._converse, sock=listening, backlog=_BACKLOG)
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
            async with asyncio.timeout(_PATIENCE):
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
        return _Conversation(self.config, self.server_state)
