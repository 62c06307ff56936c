"""All connections together: how many there are, whose they are, and how they end when the service stops."""

import asyncio
import contextlib
from typing import Protocol

from forewarn.metadata.hosts import AllowedHosts
from forewarn.metadata.limits import Limits
from forewarn.metadata.request import Memo
from forewarn.metadata.service import Service
from forewarn.wire import problems
from forewarn.wire.problems import Problem

_BEAT = 1.0
_SHARE = 4
"""The part of all connections that callers may have who are no VM: one in so many."""


class Connection(Protocol):
    """One connection, in whatever state it is."""

    address: str

    def wind_up(self) -> None:
        """Close as soon as what is owed has been sent."""

    def abort(self) -> None:
        """Close at once."""


class Edge:
    """Knows every connection there is."""

    def __init__(self, service: Service, limits: Limits, hosts: AllowedHosts | None = None) -> None:
        self.service = service
        self.limits = limits
        self.memo = Memo(hosts)
        # One object each for all conversations: what all of them use stays in the processor's cache.
        self.answer = service.answer
        self.read_alone = self.memo.read_alone
        self.is_closing = False
        self._connections: set[Connection] = set()
        self._open_of: dict[str, int] = {}
        self._strange: set[Connection] = set()
        """Those of callers who were no VM when they came: all together have a share, whatever addresses they use."""
        self._is_empty = asyncio.Event()
        self._beating: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def objection(self, address: str) -> Problem | None:
        """Return why this caller may not have another connection, if so."""
        limits = self.limits
        if limits.connections:
            is_crowd = len(self._strange) >= max(1, limits.connections // _SHARE)
            if len(self._connections) >= limits.connections or (is_crowd and address not in self.service.seats):
                return problems.UNAVAILABLE
        if limits.connections_per_caller and self._open_of.get(address, 0) >= limits.connections_per_caller:
            return problems.TOO_MANY_REQUESTS
        return None

    def enter(self, connection: Connection) -> None:
        """Count a connection in."""
        self._connections.add(connection)
        if connection.address not in self.service.seats:
            self._strange.add(connection)
        self._open_of[connection.address] = self._open_of.get(connection.address, 0) + 1
        self._is_empty.clear()

    def leave(self, connection: Connection) -> None:
        """Count a connection out, once."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._strange.discard(connection)
        address = connection.address
        self._open_of[address] -= 1
        if not self._open_of[address]:
            del self._open_of[address]
        if not self._connections:
            self._is_empty.set()

    def start(self) -> None:
        """Begin to count the seconds."""
        self.service.beat()
        self._beating = asyncio.get_running_loop().call_later(_BEAT, self.start)

    async def stop(self, grace: float = 5.0) -> None:
        """Finish the answers that are owed, release those who wait, and close every connection."""
        self.is_closing = True
        self.service.close()
        for connection in list(self._connections):
            connection.wind_up()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._is_empty.wait()
        for connection in list(self._connections):
            connection.abort()
        if self._beating:
            self._beating.cancel()
