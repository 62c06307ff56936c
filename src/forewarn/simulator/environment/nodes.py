"""Several nodes in a simulation: each is a whole service; they share a database, and talk to each other.

What is simulated is what is between them: the database, the network, and who is paused, killed or cut off.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from socket import socket
from types import SimpleNamespace
from typing import Any, cast

from forewarn.cluster.cluster_node import ClusterNode
from forewarn.cluster.metadata_service import ClusterMetadataService
from forewarn.cluster.peer_setup import ClusterPeers
from forewarn.cluster.peers.certificates import PeerCertificates
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.api.context import ApiContext
from forewarn.journal.port import Journal
from forewarn.journal.shared import SharedJournal
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.database import SimulatedDatabase, SimulatedSharedJournal
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess, SimulatedSocket
from forewarn.simulator.environment.network import Network
from forewarn.simulator.environment.service import ControlResponse, Service, SimulatedDriver
from forewarn.wiring import Assembly

PEER_PORT = 8256
LONGEST_ELECTION = 5.0
"""Seconds in which a node leads, once one can."""
_REPORT_EVERY = timedelta(seconds=5)
"""Reports decide nothing here, and there are many of them."""
_LOOK_EVERY = 0.5
_SLACK = 0.6
"""Seconds by which it is noticed late that no node leads."""
_REMIND = 10.0
"""Seconds after which it is told again that no node can lead."""
_MOST_SKEW = 2.0
_AGAIN = 0.5
"""Seconds after which a message is repeated, at most."""


class SimulatedPeers(ClusterPeers):
    """What a node says to the others, over the simulated network, without TLS."""

    report_every = _REPORT_EVERY
    is_disturbed: Callable[[], bool] = staticmethod(lambda: False)
    """Tells whether the message that has arrived arrives once more."""

    def read_certificates(self, settings: Settings, address: ListenAddress) -> PeerCertificates:
        return cast("PeerCertificates", _NoCertificates())

    def listen(self, address: ListenAddress) -> socket:
        return cast("socket", SimulatedSocket(address.host, address.port))

    async def open(self) -> None:
        for path, answer in tuple(self._messages.items()):
            self._messages[path] = self._repeating(answer)  # type: ignore[assignment]  # it is no method
        await super().open()

    def _repeating(self, answer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        async def answer_again(body: bytes) -> None:
            await asyncio.sleep(_AGAIN)
            await answer(body)

        async def answer_perhaps_twice(body: bytes) -> bytes:
            if self.is_disturbed():
                again = asyncio.create_task(answer_again(body))
                again.add_done_callback(lambda task: task.cancelled() or task.exception())
            return cast("bytes", await answer(body))

        return answer_perhaps_twice


class _NoCertificates:
    """Stands for certificates: the simulated network of the nodes has no other callers."""

    client = None
    server = SimpleNamespace(context=None)

    def warning(self, now: datetime) -> str:
        return ""


class SimulatedNode(Service):
    """One node: a service that shares its journal with others."""

    def __init__(self, name: str, number: int, database: SimulatedDatabase, *parts: Any) -> None:  # noqa: ANN401
        """``parts`` are those of every service."""
        super().__init__(*parts)
        self.name = name
        self.address = f"10.1.0.{number}"
        self.is_paused, self.paused_at = False, 0.0
        self.is_disturbed: Callable[[], bool] = lambda: False
        """Tells whether a message of another node arrives twice."""
        self.cluster: ClusterNode | None = None
        self._database = database
        self._peers: SimulatedPeers | None = None

    @property
    def clock(self) -> SimulatedClock:
        return self._clock

    @property
    def is_leading(self) -> bool:
        """Whether it leads, as far as it knows."""
        return self.is_serving and self.cluster is not None and self.cluster.is_leading

    @property
    def current_until(self) -> float | None:
        """When its replica stopped holding everything that is durable; None while it does, or shows nothing."""
        if not self.is_alive or self.assembly is None:
            return None
        at = self._database.current_until(self.assembly.node.replica.revision)
        return None if at is None else at - self._database.clock.seconds() + self._loop.time()

    def make_journal(self) -> SimulatedSharedJournal:
        return SimulatedSharedJournal(self._database, self.name, self._random)

    def pause(self) -> None:
        if self.process is not None and self.process.is_alive and not self.is_paused:
            self.is_paused, self.paused_at = True, self._loop.time()
            self._loop.pause(self.process)

    def resume(self) -> None:
        self.is_paused = False
        if self.process is not None:
            self._loop.resume(self.process)

    def _make_process(self) -> SimulatedProcess:
        self.is_paused = False
        process = SimulatedProcess(f"{self.name}-{self._starts}", self.address)
        process.node = self.name
        return process

    def _assemble(self, journal: Journal, driver: SimulatedDriver) -> Assembly:
        assembly = Assembly(
            self.settings,
            self._clock,
            journal,
            driver,
            server=self._server_maker(),
            service=ClusterMetadataService,
        )
        address = ListenAddress(self.address, PEER_PORT)
        self.cluster = ClusterNode(assembly, cast("SharedJournal", journal), self.name, str(address))
        self._peers = SimulatedPeers(assembly, self.cluster, address)
        self._peers.is_disturbed = self.is_disturbed
        return assembly

    async def _open(self, assembly: Assembly) -> None:
        if self._peers:
            await self._peers.open()
        await super()._open(assembly)

    def _join(self, context: ApiContext) -> None:
        if self.cluster and self._peers:
            context.forwarder = self._peers.control
            context.cluster, context.cluster_status = self.cluster.view, self._peers.status.collect

    def _answer_peers(self) -> None:
        if self._peers:
            self._peers.answer_control(self.app)

    async def _close(self, assembly: Assembly) -> None:
        if self.cluster and self._peers:
            await self.cluster.drain()
            await super()._close(assembly)
            await self._peers.close()


class Nodes:
    """All nodes, and what happens to what is between them."""

    def __init__(self, loop: SimulatedLoop, network: Network, random: Random) -> None:
        self._loop = loop
        self._network = network
        self._random = random
        self.clock = SimulatedClock(loop)
        """The clock of the database, which is right."""
        self.database = SimulatedDatabase(self.clock)
        self.all: list[SimulatedNode] = []
        self.wrong: list[str] = []
        """What must never happen."""
        self.on_fault: Callable[[str], None] = lambda _: None
        self.on_leader: Callable[[str], None] = lambda _: None
        """Told of each node that begins to lead."""
        self.on_wrong: Callable[[str], None] = lambda _: None
        self.repeats = 0.0
        """Chance that a message of a node arrives twice."""
        self._leader = ""
        self._able_since: dict[str, float] = {}
        """Since when each node could have led."""
        self._nobody_since: float | None = None
        self._reported_at = 0.0
        """When it was last told that no node can lead."""
        self._lags: deque[tuple[float, float]] = deque([(0.0, 0.0)], maxlen=20)
        """When it was last looked, and how far nodes were behind then."""

    def add(self, node: SimulatedNode) -> None:
        self.all.append(node)
        node.is_disturbed = self._is_repeated
        self._network.nodes.add(node.address)

    def named(self, name: str) -> SimulatedNode:
        """Return a node; ``leader`` is the one that leads, or may."""
        if name == "leader":
            leading = [node for node in self.all if node.is_leading]
            return (leading or [node for node in self.all if node.is_serving] or self.all)[0]
        return next((node for node in self.all if node.name == name), self.all[0])

    def choose(self) -> SimulatedNode:
        """Return the node that a caller reaches."""
        serving = [node for node in self.all if node.is_serving]
        return self._random.choice(serving or self.all)

    async def request(self, *args: Any, **options: Any) -> ControlResponse | None:  # noqa: ANN401
        return await self.choose().request(*args, **options)

    def as_of(self) -> float:
        """Return the second up to which every node that may answer holds everything."""
        now = self._loop.time()
        return min((at for node in self.all if (at := node.current_until) is not None), default=now)

    def lag(self) -> float:
        """Return the seconds by which a node is behind, or was a moment ago."""
        now = self._loop.time()
        return max(now - self.as_of(), *(lag for _, lag in self._lags), 0.0)

    def cut(self, one: SimulatedNode, other: SimulatedNode, *, on: bool) -> None:
        pair = frozenset((one.address, other.address))
        (self._network.cut.add if on else self._network.cut.discard)(pair)

    def mend(self) -> None:
        """Stop all faults."""
        database, network = self.database, self._network
        database.is_down = database.is_silent = False
        database.latency, database.lost_heartbeats = 0.0, 0
        database.cut_off.clear()
        database.next_faults.clear()
        network.cut.clear()
        network.peer_loses, network.peer_delay, self.repeats = 0.0, 0.002, 0.0
        for node in self.all:
            node.resume()
            node.clock.step(-node.clock.error)

    def watch(self) -> None:
        """Look again and again whether a node leads."""
        now = self._loop.time()
        paused = [now - node.paused_at for node in self.all if node.is_paused]
        self._lags.append((now, max(now - self.as_of(), *paused, 0.0)))
        for node in self.all:
            if not self._can_lead(node):
                self._able_since.pop(node.name, None)
            else:
                self._able_since.setdefault(node.name, now)
        leading = [node for node in self.all if node.is_leading and not node.is_paused]
        if leading and leading[0].name != self._leader:
            self._leader = leading[0].name
            self.on_fault("leader changed")
            self.on_leader(self._leader)
        if leading or not self._able_since:
            self._nobody_since = None
        elif self._nobody_since is None:
            self._nobody_since = now
        if not self._able_since and now - self._reported_at > _REMIND:
            self._reported_at = now
            self.on_fault("no node can lead")
        able = min(self._able_since.values(), default=now)
        if self._nobody_since is not None and now - max(self._nobody_since, able) > LONGEST_ELECTION + _SLACK:
            text = f"no node leads, although {', '.join(self._able_since)} could for {LONGEST_ELECTION:g} s"
            self.wrong.append(f"{now:.3f} s: {text}")
            self.on_wrong(self.wrong[-1])
            self._nobody_since = now
        self._loop.call_later(_LOOK_EVERY, self.watch)

    def _can_lead(self, node: SimulatedNode) -> bool:
        database = self.database
        is_reaching = not database.is_down and node.name not in database.cut_off
        is_undisturbed = not database.latency and not database.lost_heartbeats and not database.next_faults
        is_right = abs(node.clock.error.total_seconds()) < _MOST_SKEW - 0.1
        return node.is_serving and not node.is_paused and is_reaching and is_undisturbed and is_right

    def _is_repeated(self) -> bool:
        is_so = self.repeats > 0 and self._random.random() < self.repeats
        if is_so:
            self.on_fault("message repeated")
        return is_so
