"""Server of the local socket: sends changes of events to programs on the VM and accepts their holds."""

import asyncio
import hmac
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from forewarn import socket_files
from forewarn.agent.decision.holds import Holds, read_holder
from forewarn.agent.local import address
from forewarn.agent.local.address import LocalAddress
from forewarn.agent.local.connection import CLOSE_TIMEOUT, LocalConnection
from forewarn.agent.local.protocol import (
    ChangeLine,
    HoldRequest,
    LocalProblem,
    LocalRequest,
    LocalSuccess,
    StatusReply,
    read_request,
    write_line,
)
from forewarn.agent.observation.status import AgentStatus
from forewarn.client.changes import Change, ChangeKind
from forewarn.clocks import Clock
from forewarn.config.values import ListenAddress
from forewarn.core.errors import ForewarnError
from forewarn.core.model import EventStatus
from forewarn.wire.azure_names import read_id
from forewarn.wire.document import ScheduledEvent
from forewarn.wire.event_json import make_event_json

MOST_CONNECTIONS = 64
TIMEOUT = 10.0
"""Seconds within which a program on a port must send the token."""
_TURNS = 4
"""Iterations of the event loop after which connections being accepted or aborted have been handled."""

OnHold = Callable[[str, str, datetime], None]
"""Called with the event's id, the holder's name, and the end of the hold."""
OnReady = Callable[[str, str], None]
"""Called with the event's id and the name of the holder that is ready."""


class LocalServer:
    """Accepts connections, sends changes to subscribers, and places and releases holds."""

    def __init__(
        self,
        place: LocalAddress,
        *,
        token_file: Path,
        status: Callable[[], AgentStatus],
        present: Callable[[], tuple[ScheduledEvent, ...]],
        concerns: Callable[[ScheduledEvent], bool],
        approved: Callable[[str], bool],
        held: OnHold,
        ready: OnReady,
        clock: Clock,
        most_connections: int = MOST_CONNECTIONS,
        timeout: float = TIMEOUT,
        close_timeout: float = CLOSE_TIMEOUT,
    ) -> None:
        self._place = place
        self._token_file = token_file
        self._status = status
        self._present = present
        self._concerns = concerns
        self._approved = approved
        self._held = held
        self._ready = ready
        self._clock = clock
        self._most_connections = most_connections
        self._timeout = timeout
        self._close_timeout = close_timeout
        self._holds = Holds()
        self._connections: set[LocalConnection] = set()
        self._server: asyncio.Server | None = None
        self._token = ""
        self._made = (0, 0)
        self._is_closed = False

    async def open(self) -> None:
        """Start listening; raise BadInput or Unavailable with the remedy."""
        loop = asyncio.get_running_loop()
        listener = address.listen(self._place)
        if isinstance(self._place, ListenAddress):
            try:
                self._token = address.make_token(self._token_file)
            except ForewarnError:
                listener.close()
                raise
            self._server = await loop.create_server(self._connection, sock=listener)
        else:
            self._made = socket_files.identity(self._place)
            self._server = await loop.create_unix_server(
                self._connection, sock=listener, **socket_files.KEEP_SOCKET_FILE
            )

    @property
    def count(self) -> int:
        """Number of connections that have subscribed or hold."""
        return sum(connection.is_subscribed or bool(connection.holders) for connection in self._connections)

    @property
    def port(self) -> int:
        """The listening port, also if the configured port is 0; 0 for a socket file."""
        is_port = self._server is not None and isinstance(self._place, ListenAddress)
        return int(self._server.sockets[0].getsockname()[1]) if self._server and is_port else 0

    async def close(self) -> None:
        if self._server is None:
            return
        self._is_closed = True
        self._server.close()
        if isinstance(self._place, Path):
            socket_files.remove(self._place, self._made)
        for connection in [*self._connections]:
            connection.abort()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await self._server.wait_closed()

    def publish(self, change: Change) -> None:
        """Place holds on a new event, then send the change to subscribers."""
        if change.kind is ChangeKind.GONE:
            self._holds.forget(change.event.id)
        else:
            self._hold(change.event)
        line = self._line(change)
        for connection in [*self._connections]:
            if connection.is_subscribed:
                connection.send_line(line)

    def _line(self, change: Change, *, present: bool = False) -> bytes:
        return write_line(
            ChangeLine(
                change=change.kind.value,
                ending=change.ending.value if change.ending else "",
                event=make_event_json(change.event),
                concerns_me=self._concerns(change.event),
                present=present,
            )
        )

    def _connection(self) -> LocalConnection:
        return LocalConnection(self._on_connect, self._on_line, self._on_disconnect, self._close_timeout)

    def _on_connect(self, connection: LocalConnection) -> None:
        self._connections.add(connection)
        connection.is_trusted = not self._token
        if self._is_closed:
            connection.abort()
        elif len(self._connections) > self._most_connections:
            connection.close_with_error(
                f"{self._most_connections} programs are connected already; disconnect one of them first"
            )
        elif not connection.is_trusted:
            asyncio.get_running_loop().call_later(self._timeout, self._expect_token, connection)

    def _expect_token(self, connection: LocalConnection) -> None:
        if not connection.is_trusted:
            connection.close_with_error(
                f"no token within {self._timeout:.0f} seconds; send the token from {self._token_file}"
            )

    def _on_disconnect(self, connection: LocalConnection) -> None:
        self._connections.discard(connection)
        for holder in connection.holders.values():
            self._holds.leave(holder)

    def _on_line(self, connection: LocalConnection, line: bytes) -> None:
        try:
            request = read_request(line)
        except ForewarnError as error:
            if connection.is_trusted:
                connection.send_line(write_line(LocalProblem(str(error))))
            else:
                connection.close_with_error(f"the first line has no token; send the token from {self._token_file}")
            return
        if not connection.is_trusted:
            if not hmac.compare_digest(request.token.encode(), self._token.encode()):
                connection.close_with_error(f"wrong token; send the token from {self._token_file}")
                return
            connection.is_trusted = True
        try:
            self._do(connection, request)
        except ForewarnError as error:
            connection.send_line(write_line(LocalProblem(str(error))))

    def _do(self, connection: LocalConnection, request: LocalRequest) -> None:
        match request:
            case LocalRequest(hold=HoldRequest() as hold):
                connection.send_line(write_line(LocalSuccess(ok=True, held=self._register(connection, hold))))
            case LocalRequest(ready=str(event), name=name) if event:
                connection.send_line(write_line(LocalSuccess(ok=True, held=self._release(event, name))))
            case LocalRequest(status=True):
                connection.send_line(write_line(StatusReply(self._status())))
            case LocalRequest(subscribe=True):
                connection.send_line(write_line(LocalSuccess(ok=True)))
                self._subscribe(connection)
            case _:
                connection.send_line(write_line(LocalSuccess(ok=True)))

    def _subscribe(self, connection: LocalConnection) -> None:
        connection.is_subscribed = True
        for event in self._present():
            connection.send_line(self._line(Change(ChangeKind.NEW, event), present=True))

    def _register(self, connection: LocalConnection, hold: HoldRequest) -> tuple[str, ...]:
        """Add a holder; return the ids of the events that it holds now."""
        holder = read_holder(hold.name, hold.within, hold.types)
        self._holds.register(holder)
        connection.holders[holder.name] = holder
        present = self._present()
        for event in present:
            self._hold(event)
        return tuple(event.shown_id for event in present if self._holds.holds(holder.name, event.id))

    def _hold(self, event: ScheduledEvent) -> None:
        if event.status is EventStatus.SCHEDULED and self._concerns(event) and not self._approved(event.id):
            for name, until in self._holds.take(event, self._clock.now()).items():
                self._held(event.id, name, until)

    def _release(self, event: str, name: str) -> tuple[str, ...]:
        """Release a hold; return the event's id if it was held."""
        event_id = read_id(event)
        self._holds.require(name)
        if not self._holds.holds(name, event_id):
            return ()  # the event is gone, or was never held
        self._ready(event_id, name)
        return (next((each.shown_id for each in self._present() if each.id == event_id), event),)
