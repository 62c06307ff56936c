"""Registry of open connections: limits per caller and in total, and graceful shutdown."""

import asyncio
import contextlib
from typing import Protocol

from forewarn.metadata.limits import Limits
from forewarn.metadata.request import AllowedHosts, RequestCache
from forewarn.metadata.service import MetadataService
from forewarn.wire import error_responses
from forewarn.wire.error_responses import ErrorResponse

UNKNOWN_SHARE = 4
"""Callers that are not VMs may use one in this many of all connections."""


class RegisteredConnection(Protocol):
    """One open connection."""

    address: str

    def close_gracefully(self) -> None:
        """Close after the pending responses are sent."""

    def abort(self) -> None:
        """Close immediately."""


class ConnectionRegistry:
    """Registers every open connection and enforces the connection limits."""

    def __init__(
        self, service: MetadataService, limits: Limits, hosts: AllowedHosts | None = None, *, tick: float = 1.0
    ) -> None:
        """``tick``: seconds between two calls of the service's ``tick``."""
        self.service = service
        self.limits = limits
        self.request_cache = RequestCache(hosts)
        # One bound method each, shared by all connections, so that it stays in the processor's cache.
        self.answer = service.answer
        self.read_single = self.request_cache.read_single
        self.is_closing = False
        self._connections: dict[RegisteredConnection, None] = {}
        self._open_of: dict[str, int] = {}
        self._of_unknown_callers: set[RegisteredConnection] = set()
        """Connections of callers that matched no VM when they connected; together they have one share."""
        self._is_empty = asyncio.Event()
        self._next_tick: asyncio.TimerHandle | None = None
        self._tick_seconds = tick
        self._tick_due = float("inf")

    def __len__(self) -> int:
        return len(self._connections)

    def objection(self, address: str) -> ErrorResponse | None:
        """Return the error response if this caller may not open another connection."""
        limits = self.limits
        if limits.connections:
            is_crowd = len(self._of_unknown_callers) >= max(1, limits.connections // UNKNOWN_SHARE)
            if len(self._connections) >= limits.connections or (is_crowd and address not in self.service.vm_entries):
                return error_responses.UNAVAILABLE
        if limits.connections_per_caller and self._open_of.get(address, 0) >= limits.connections_per_caller:
            return error_responses.TOO_MANY_REQUESTS
        return None

    def enter(self, connection: RegisteredConnection) -> None:
        self._connections[connection] = None
        if connection.address not in self.service.vm_entries:
            self._of_unknown_callers.add(connection)
        self._open_of[connection.address] = self._open_of.get(connection.address, 0) + 1
        self._is_empty.clear()

    def leave(self, connection: RegisteredConnection) -> None:
        """Deregister a connection; repeating it does nothing."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        self._of_unknown_callers.discard(connection)
        address = connection.address
        self._open_of[address] -= 1
        if not self._open_of[address]:
            del self._open_of[address]
        if not self._connections:
            self._is_empty.set()

    def start(self) -> None:
        """Start the timer that ticks."""
        self._tick()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._next_tick:
            # The tick is late by as long as the loop was busy; so is a request that came at that moment.
            self.service.delays.add(max(0.0, now - self._tick_due))
        self.service.tick()
        self._tick_due = now + self._tick_seconds
        self._next_tick = loop.call_at(self._tick_due, self._tick)

    async def stop(self, grace: float = 5.0) -> None:
        """Send pending responses, release long polls, then close every connection."""
        self.is_closing = True
        self.service.close()
        for connection in list(self._connections):
            connection.close_gracefully()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._is_empty.wait()
        for connection in list(self._connections):
            connection.abort()
        if self._next_tick:
            self._next_tick.cancel()
