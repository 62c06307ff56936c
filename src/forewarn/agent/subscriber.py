"""Client of the agent's local socket for Python programs: subscribe to changes, hold approvals, read the status.

with AgentSocket() as agent:
    agent.hold("database", "120s")
    for change in agent.changes():
        if change.change == "new" and change.concerns_me:
            flush_to_disk()
            agent.ready(change.event)
"""

import socket
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from forewarn.agent.local.address import TOKEN_FILE, LocalAddress, read_address, read_token
from forewarn.agent.local.protocol import ChangeLine, HoldRequest, LocalRequest, LocalSuccess, StatusReply, write_line
from forewarn.agent.observation.status import AgentStatus
from forewarn.config.durations import show_duration
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput, Refused, Unavailable
from forewarn.wire.event_json import EventJson

DEFAULT_ADDRESS = "/run/forewarn-agent/agent.sock"
DEFAULT_STATE = Path("/var/lib/forewarn-agent")
TIMEOUT = 10.0
"""Timeout of a reply in seconds; waiting for changes has no timeout."""

_LONGEST = 16 * 1024 * 1024


_Record = TypeVar("_Record")


class _LineKind(msgspec.Struct, frozen=True):
    """The fields that distinguish changes, errors and replies."""

    change: str = ""
    error: str = ""


class AgentSocket:
    """A connection to the agent of this VM. Not thread-safe."""

    def __init__(self, place: LocalAddress | str = DEFAULT_ADDRESS, *, token_file: Path | None = None) -> None:
        found = read_address(place) if isinstance(place, str) else place
        if found is None:
            raise BadInput('the agent has no socket; set socket = "PATH" in agent.toml')
        self._place = found
        self._token_file = token_file or DEFAULT_STATE / TOKEN_FILE
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._changes: deque[ChangeLine] = deque()
        self._holder = ""

    def changes(self) -> Iterator[ChangeLine]:
        """Yield the present events as new, then each change; raise Unavailable when the agent ends.

        The subscription begins with the call, not with the first iteration.
        """
        self._ask(LocalRequest(subscribe=True))
        return self._follow()

    def hold(self, name: str, within: timedelta | str, *types: str) -> tuple[str, ...]:
        """Hold approvals until ``ready``, at most ``within``; return the ids of the events held now."""
        spelled = within if isinstance(within, str) else show_duration(within)
        held = self._ask(LocalRequest(hold=HoldRequest(name, spelled, types)))
        self._holder = name
        return held

    def ready(self, event: EventJson | ChangeLine | str, *, name: str = "") -> bool:
        """Release this holder's hold on an event; return whether it was held."""
        if isinstance(event, ChangeLine):
            event = event.event
        event_id = event.event_id if isinstance(event, EventJson) else event
        return bool(self._ask(LocalRequest(ready=event_id, name=name or self._holder)))

    def status(self) -> AgentStatus:
        return _read(self._answer(LocalRequest(status=True)), StatusReply).status

    def close(self) -> None:
        """Disconnect. Holds stay until their deadline."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self) -> Iterator[ChangeLine]:
        while True:
            while self._changes:
                yield self._changes.popleft()
            self._changes.append(self._next_change())

    def _ask(self, request: LocalRequest) -> tuple[str, ...]:
        return _read(self._answer(request), LocalSuccess).held or ()

    def _answer(self, request: LocalRequest) -> bytes:
        """Send a request and return the reply; changes received before it are queued."""
        connection = self._connected()
        try:
            connection.settimeout(TIMEOUT)
            connection.sendall(write_line(request))
            while _is_change(line := self._line(connection)):
                self._changes.append(_read(line, ChangeLine))
        except OSError as error:
            raise self._lost(error) from None
        _refuse(line)
        return line

    def _next_change(self) -> ChangeLine:
        connection = self._connected()
        connection.settimeout(None)
        try:
            line = self._line(connection)
        except OSError as error:
            raise self._lost(error) from None
        _refuse(line)
        return _read(line, ChangeLine)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            try:
                self._socket = _connect(self._place)
            except OSError as error:
                said = error.strerror or str(error)
                raise Unavailable(f"no agent answers on {self._place}: {said}; check that it runs") from None
            self._received.clear()
            if isinstance(self._place, ListenAddress):
                self._ask(LocalRequest(token=read_token(self._token_file)))
        return self._socket

    def _line(self, connection: socket.socket) -> bytes:
        while (end := self._received.find(b"\n")) < 0:
            more = connection.recv(65_536)
            if not more or len(self._received) > _LONGEST:
                raise ConnectionResetError(0, "the agent closed the connection")
            self._received += more
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _lost(self, error: OSError) -> Unavailable:
        self.close()
        return Unavailable(f"lost the connection to the agent on {self._place}: {error.strerror or error}; reconnect")


def _connect(place: LocalAddress) -> socket.socket:
    if isinstance(place, ListenAddress):
        connection = socket.create_connection((place.host, place.port), TIMEOUT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(0, "this system has no Unix sockets")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(TIMEOUT)
        connection.connect(str(place))
    except OSError:
        connection.close()
        raise
    return connection


def _is_change(line: bytes) -> bool:
    return bool(_read(line, _LineKind).change)


def _refuse(line: bytes) -> None:
    """Raise Refused if the line is an error."""
    if said := _read(line, _LineKind).error:
        raise Refused(said)


def _read(line: bytes, into: type[_Record]) -> _Record:
    try:
        return msgspec.json.decode(line, type=into)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Unavailable("the reply is not from an agent; check the setting socket") from None
