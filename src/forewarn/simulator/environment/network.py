"""The simulated network: connections in memory that delay, stall and break as the seed wants it."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess, current_process

_Address = tuple[str, int]
_CONNECT_TIMEOUT = 60.0


class Network:
    """Joins clients to listeners. Bytes arrive in order, after a delay, or never."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self._listeners: dict[_Address, list[tuple[SimulatedProcess, Callable[[], asyncio.Protocol]]]] = {}
        self._between_nodes: dict[SimulatedTransport, None] = {}
        self.delay = 0.002
        """Seconds that bytes travel at most."""
        self.loses = 0.0
        """Chance that what is sent never arrives; the connection then stalls."""
        self.nodes: set[str] = set()
        """The addresses of nodes, which talk to each other."""
        self.cut: set[frozenset[str]] = set()
        """Pairs of addresses that do not reach each other."""
        self.peer_delay = 0.002
        self.peer_loses = 0.0
        """As ``delay`` and ``loses``, between nodes."""

    def listen(self, address: _Address, process: SimulatedProcess, make: Callable[[], asyncio.Protocol]) -> None:
        """Let a process accept connections, until ``ignore`` or its end; several share those of one address."""
        self._listeners.setdefault(address, []).append((process, make))
        process.on_kill[address] = lambda: self.ignore(address, process)

    def ignore(self, address: _Address, process: SimulatedProcess) -> None:
        """Accept no more connections for that process."""
        self._listeners[address] = [each for each in self._listeners.get(address, ()) if each[0] is not process]

    async def connect(self, protocol: asyncio.BaseProtocol, source: str, target: _Address) -> "SimulatedTransport":
        await asyncio.sleep(self.travel_time(source, target[0]))
        if frozenset((source, target[0])) in self.cut:
            await asyncio.sleep(_CONNECT_TIMEOUT)
            raise TimeoutError(110, "Connection timed out")
        listeners = self._listeners.get(target)
        if not listeners:
            raise ConnectionRefusedError(111, "Connection refused")
        process, make = listeners[0] if len(listeners) == 1 else self._random.choice(listeners)
        caller = current_process()
        assert caller is not None  # noqa: S101 - only processes connect
        near = SimulatedTransport(self, self._loop, protocol, caller, {"peername": target})
        far = SimulatedTransport(self, self._loop, make(), process, {"peername": (source, 40000)})
        near.peer, far.peer = far, near
        if self.nodes:
            self.note(near)
            self.note(far)
        cast("Any", near.protocol).connection_made(near)
        far.call(lambda: cast("Any", far.protocol).connection_made(far))
        return near

    def travel_time(self, source: str = "", target: str = "") -> float:
        is_of_nodes = source in self.nodes and target in self.nodes
        return self._random.random() * (self.peer_delay if is_of_nodes else self.delay)

    def is_lost(self, source: str = "", target: str = "") -> bool:
        if self.cut and frozenset((source, target)) in self.cut:
            return True
        chance = self.peer_loses if source in self.nodes and target in self.nodes else self.loses
        return chance > 0 and self._random.random() < chance

    def break_between_nodes(self) -> None:
        """Break all connections between nodes."""
        for transport in tuple(self._between_nodes):
            transport.call(transport.reset)

    def note(self, transport: "SimulatedTransport") -> None:
        """Remember a connection between nodes, until it is lost."""
        if {transport.address, transport.peer_address} <= self.nodes:
            self._between_nodes[transport] = None

    def forget(self, transport: "SimulatedTransport") -> None:
        self._between_nodes.pop(transport, None)


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

    @property
    def address(self) -> str:
        return self._owner.address

    @property
    def peer_address(self) -> str:
        return self.peer.address if self.peer else ""

    def call(self, do: Callable[[], object], delay: float = 0.0) -> None:
        """Have something done in the process of this end, after all that was sent to it before."""
        self._last_arrival = max(self._last_arrival, self._loop.time() + delay)
        self._loop.call_at(self._last_arrival, do, context=self._owner.context)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        peer = self.peer
        if self._is_closing or peer is None or not data:
            return
        if self._is_stalled or self._network.is_lost(self.address, peer.address):
            self._is_stalled = True
            return
        travels = self._network.travel_time(self.address, peer.address)
        peer.call(lambda content=bytes(data): peer.receive(content), travels)  # type: ignore[misc]

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
        self._network.forget(self)
        self._is_closing = self._is_lost = True
        if self.peer is not None and not self._is_stalled:
            peer = self.peer
            peer.call(peer.reset, self._network.travel_time())

    def reset(self) -> None:
        self._network.forget(self)
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self.protocol.connection_lost(ConnectionResetError(104, "Connection reset by peer"))

    def _lose(self) -> None:
        self._network.forget(self)
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
