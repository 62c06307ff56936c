"""The simulated network: connections in memory that delay, stall and break as the seed wants it."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess, current_process

_Address = tuple[str, int]


class Network:
    """Joins clients to listeners. Bytes arrive in order, after a delay, or never."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._listeners: dict[_Address, tuple[SimulatedProcess, Callable[[], asyncio.Protocol]]] = {}
        self.delay = 0.002
        """Seconds that bytes travel at most."""
        self.loses = 0.0
        """Chance that what is sent never arrives; the connection then stalls."""

    def listen(self, address: _Address, process: SimulatedProcess, make: Callable[[], asyncio.Protocol]) -> None:
        """Let a process accept connections, until ``ignore`` or its end."""
        self._listeners[address] = process, make
        process.on_kill[address] = lambda: self.ignore(address, process)

    def ignore(self, address: _Address, process: SimulatedProcess) -> None:
        """Accept no more connections for that process."""
        if address in self._listeners and self._listeners[address][0] is process:
            del self._listeners[address]

    async def connect(self, protocol: asyncio.BaseProtocol, source: str, target: _Address) -> "SimulatedTransport":
        await asyncio.sleep(self.travel_time())
        if target not in self._listeners:
            raise ConnectionRefusedError(111, "Connection refused")
        process, make = self._listeners[target]
        caller = current_process()
        assert caller is not None  # noqa: S101 - only processes connect
        near = SimulatedTransport(self, self._loop, protocol, caller, {"peername": target})
        far = SimulatedTransport(self, self._loop, make(), process, {"peername": (source, 40000)})
        near.peer, far.peer = far, near
        cast("Any", near.protocol).connection_made(near)
        far.call(lambda: cast("Any", far.protocol).connection_made(far))
        return near

    def travel_time(self) -> float:
        return self._random.random() * self.delay

    def is_lost(self) -> bool:
        return self.loses > 0 and self._random.random() < self.loses


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        network: Network,
        loop: SimulatedLoop,
        protocol: asyncio.BaseProtocol,
        owner: SimulatedProcess,
        extra: dict[str, Any],
    ) -> None:
        super().__init__(extra)
        self._network = network
        self._loop = loop
        self.protocol = protocol
        self._owner = owner
        owner.on_kill[self] = self.break_off
        self.peer: SimulatedTransport | None = None
        self._last_arrival = 0.0
        self._is_closing = False
        self._is_lost = False
        self._is_stalled = False
        """What was sent did not arrive, so nothing after it does."""

    def call(self, do: Callable[[], object], delay: float = 0.0) -> None:
        """Have something done in the process of this end, after all that was sent to it before."""
        self._last_arrival = max(self._last_arrival, self._loop.time() + delay)
        self._loop.call_at(self._last_arrival, do, context=self._owner.context)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        peer = self.peer
        if self._is_closing or peer is None or not data:
            return
        if self._is_stalled or self._network.is_lost():
            self._is_stalled = True
            return
        peer.call(lambda content=bytes(data): peer.receive(content), self._network.travel_time())  # type: ignore[misc]

    def receive(self, data: bytes) -> None:
        if not self._is_lost:
            cast("asyncio.Protocol", self.protocol).data_received(data)

    def write_eof(self) -> None:
        if self.peer is not None and not self._is_stalled:
            peer = self.peer
            peer.call(peer.receive_end, self._network.travel_time())

    def receive_end(self) -> None:
        if not self._is_lost and not cast("asyncio.Protocol", self.protocol).eof_received():
            self.close()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._is_closing:
            self.write_eof()
            self._is_closing = True
            self.call(self._lose)

    def abort(self) -> None:
        self.close()

    def break_off(self) -> None:
        """End the connection without a word, as when the process at this end dies."""
        self._is_closing = self._is_lost = True
        if self.peer is not None and not self._is_stalled:
            peer = self.peer
            peer.call(peer.reset, self._network.travel_time())

    def reset(self) -> None:
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self.protocol.connection_lost(ConnectionResetError(104, "Connection reset by peer"))

    def _lose(self) -> None:
        self._owner.on_kill.pop(self, None)
        if not self._is_lost:
            self._is_lost = True
            self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_reading(self) -> bool:
        return not self._is_closing
