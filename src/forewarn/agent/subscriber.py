"""The other end of the agent's socket, for programs in Python: hear of changes, hold, say ready, ask for the status.

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
from types import TracebackType
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
PATIENCE = 10.0
"""Seconds that an answer may take; changes may take any time."""

_LONGEST = 16 * 1024 * 1024


_Record = TypeVar("_Record")


class _LineKind(msgspec.Struct, frozen=True):
    """What tells the agent's lines apart."""

    change: str = ""
    error: str = ""


class AgentSocket:
    """A conversation with the agent of this VM. Not for several threads at once."""

    def __init__(self, place: LocalAddress | str = DEFAULT_ADDRESS, *, token_file: Path | None = None) -> None:
        found = read_address(place) if isinstance(place, str) else place
        if found is None:
            raise BadInput('the agent has no socket: give it one with socket = "PATH" in agent.toml')
        self._place = found
        self._token_file = token_file or DEFAULT_STATE / TOKEN_FILE
        self._socket: socket.socket | None = None
        self._received = bytearray()
        self._changes: deque[ChangeLine] = deque()
        self._holder = ""

    def changes(self) -> Iterator[ChangeLine]:
        """Yield the events that are there as new, then each change; raise Unavailable when the agent ends.

        From the call on nothing is missed, also before the first change is asked for.
        """
        self._ask(LocalRequest(subscribe=True))
        return self._follow()

    def hold(self, name: str, within: timedelta | str, *types: str) -> tuple[str, ...]:
        """Have approvals wait until ``ready`` is said, at most ``within``; return the ids of events that wait now."""
        spelled = within if isinstance(within, str) else show_duration(within)
        held = self._ask(LocalRequest(hold=HoldRequest(name, spelled, types)))
        self._holder = name
        return held

    def ready(self, event: EventJson | ChangeLine | str, *, name: str = "") -> bool:
        """Say that the event may come, as far as this holder goes; return whether it was held."""
        if isinstance(event, ChangeLine):
            event = event.event
        event_id = event.event_id if isinstance(event, EventJson) else event
        return bool(self._ask(LocalRequest(ready=event_id, name=name or self._holder)))

    def status(self) -> AgentStatus:
        """Return how the agent stands."""
        return _read(self._answer(LocalRequest(status=True)), StatusReply).status

    def close(self) -> None:
        """Hang up. What is held stays held until its deadline."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self) -> Iterator[ChangeLine]:
        while True:
            while self._changes:
                yield self._changes.popleft()
            self._changes.append(self._next_change())

    def _ask(self, request: LocalRequest) -> tuple[str, ...]:
        return _read(self._answer(request), LocalSuccess).held or ()

    def _answer(self, request: LocalRequest) -> bytes:
        """Send a request and return the answer to it; changes that come in between are kept."""
        connection = self._connected()
        try:
            connection.settimeout(PATIENCE)
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
                raise Unavailable(f"no agent answers on {self._place}: {said}; see whether it runs") from None
            self._received.clear()
            if isinstance(self._place, ListenAddress):
                self._ask(LocalRequest(token=read_token(self._token_file)))
        return self._socket

    def _line(self, connection: socket.socket) -> bytes:
        while (end := self._received.find(b"\n")) < 0:
            more = connection.recv(65_536)
            if not more or len(self._received) > _LONGEST:
                raise ConnectionResetError(0, "it hung up")
            self._received += more
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _lost(self, error: OSError) -> Unavailable:
        self.close()
        return Unavailable(f"the agent on {self._place} is lost: {error.strerror or error}; connect again")


def _connect(place: LocalAddress) -> socket.socket:
    if isinstance(place, ListenAddress):
        connection = socket.create_connection((place.host, place.port), PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(0, "this system has no such sockets")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(PATIENCE)
        connection.connect(str(place))
    except OSError:
        connection.close()
        raise
    return connection


def _is_change(line: bytes) -> bool:
    return bool(_read(line, _LineKind).change)


def _refuse(line: bytes) -> None:
    """Raise what the agent said was wrong."""
    if said := _read(line, _LineKind).error:
        raise Refused(said)


def _read(line: bytes, into: type[_Record]) -> _Record:
    try:
        return msgspec.json.decode(line, type=into)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Unavailable("what answers there is no agent; see what the setting socket names") from None
