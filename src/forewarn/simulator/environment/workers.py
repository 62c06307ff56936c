"""Workers in a simulation: simulated processes with the real worker in them, which die and lag as the seed wants.

What is simulated is what is between them: the channel, the shared memory, and who holds the locks.
"""

import contextvars
from collections.abc import Callable, Collection, Sequence
from random import Random
from socket import socket

from forewarn.clocks import Clock
from forewarn.core.facts import Entry
from forewarn.journal.port import Journal, Recovered, SupportsFollowers
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.listener import Acceptor
from forewarn.node.large_change import LargeChangeSizes
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.network import Network
from forewarn.wiring import Assembly
from forewarn.workers.follower import CannotFollow, FellBehind
from forewarn.workers.messages import Message, WorkerSettings, encode
from forewarn.workers.pool import WorkerPool
from forewarn.workers.pool_setup import worker_settings
from forewarn.workers.shared_memory import SharedMemory
from forewarn.workers.worker import Worker

_LONGEST_LIFE = 40.0
"""Seconds after which a worker is killed at the latest, while faults happen."""
_TIME_LIMIT = 0.1
"""Seconds of silence that a leader allows; less than on a real machine, as all durations of a simulation are."""
_LAG = 0.15
"""Seconds by which messages to a worker that lags are late."""
_ALIVE_EVERY, _REPORT_EVERY = 2.5, 10.0
"""Seconds between signs of life and between reports: seldom, because a simulation may last for days."""
_TRAVEL_TIME = 0.04
"""Seconds that a message takes at most; most take far less."""


class _Channel:
    """One direction of a channel: messages arrive in order, unless the receiver is dead."""

    def __init__(self, loop: SimulatedLoop, random: Random, context: contextvars.Context) -> None:
        self._loop = loop
        self._random = random
        self._context = context
        self._last_arrival = 0.0
        self.lag = 0.0
        self.receive: Callable[[bytes], None] = lambda _: None
        self.on_close: Callable[[], None] = lambda: None

    def send(self, message: Message) -> None:
        self.send_encoded(encode(message))

    def send_encoded(self, body: bytes) -> None:
        self._call(lambda: self.receive(body))

    def close(self) -> None:
        self._call(self.on_close)

    def _call(self, do: Callable[[], None]) -> None:
        arrives = self._loop.time() + self._random.random() ** 3 * _TRAVEL_TIME + self.lag
        self._last_arrival = max(self._last_arrival, arrives)
        self._loop.call_at(self._last_arrival, do, context=self._context)


class _FollowedJournal:
    """A journal as another process reads it: each time anew from the disk."""

    def __init__(self, read: Callable[[], Journal]) -> None:
        self._read = read

    def load_follower(self) -> Recovered:
        journal = self._read()
        return journal.load_follower() if isinstance(journal, SupportsFollowers) else journal.load()

    def entries(self, after: int = 0, limit: int | None = None) -> list[Entry]:
        journal = self._read()
        if not isinstance(journal, SupportsFollowers):
            journal.load()
        return list(journal.entries(after, limit))


class _SimulatedListener:
    """Accepts the connections of VMs from the simulated network."""

    listening: Sequence[socket] = ()

    def __init__(
        self, registry: ConnectionRegistry, network: Network, endpoint: tuple[str, int], process: SimulatedProcess
    ) -> None:
        self._registry = registry
        self._network = network
        self._endpoint = endpoint
        self._process = process

    async def start(self) -> None:
        self._registry.start()
        self._network.listen(self._endpoint, self._process, lambda: Acceptor(self._registry))

    async def stop(self) -> None:
        self._network.ignore(self._endpoint, self._process)
        await self._registry.stop(5.0)

    def set_ttl(self, ttl: int) -> None:
        """Do nothing: simulated packets have no hops."""


class SimulatedWorkerProcess:
    """A worker as its leader has it, and the environment of the worker itself."""

    def __init__(
        self, pid: int, site: "WorkerSite", process: SimulatedProcess, channel: _Channel, clock: Clock
    ) -> None:
        self.pid = pid
        self.process = process
        self.channel = channel
        self.clock = clock
        self._site = site

    def kill(self) -> None:
        self._site.loop.kill(self.process)

    def configure(self, settings: WorkerSettings) -> None:
        """Do nothing: there is one log."""

    def open_journal(self, settings: WorkerSettings) -> Journal:
        return _FollowedJournal(self._site.read_journal)  # type: ignore[return-value]  # a follower needs no more

    def note_loaded(self) -> None:
        self._site.holders[self.pid] = self
        self.process.on_kill[self] = self._release

    def _release(self) -> None:
        self._site.holders.pop(self.pid, None)

    def make_listener(
        self, registry: ConnectionRegistry, settings: WorkerSettings, taps: Collection[str]
    ) -> _SimulatedListener:
        return _SimulatedListener(registry, self._site.network, self._site.endpoint, self.process)

    def tell_leader_age(self, age: float | None) -> None:
        """Do nothing: it is never read."""

    def end(self, error: CannotFollow) -> None:
        if isinstance(error, FellBehind):
            self._site.wrong.append(f"a worker fell behind: {error}")
        self.kill()


class WorkerSite:
    """The computer that leaders and workers run on: what outlives a leader."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: Network,
        endpoint: tuple[str, int],
        random: Random,
        read_journal: Callable[[], Journal],
    ) -> None:
        self.loop = loop
        self.network = network
        self.endpoint = endpoint
        self.read_journal = read_journal
        self.holders: dict[int, SimulatedWorkerProcess] = {}
        """The workers that hold a lock, by the id of their process."""
        self.has_faults = True
        """Whether workers die and lag."""
        self.wrong: list[str] = []
        """What must never happen."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told of every fault that happens."""
        self.started = 0
        self._random = random

    def make_pool(
        self, assembly: Assembly, leader: SimulatedProcess, count: int, sizes: LargeChangeSizes
    ) -> WorkerPool:
        """Return the workers of a leader; from now on its commits are published to them."""
        memory = SharedMemory(-1, count)

        async def start(
            number: int, received: Callable[[bytes], None], ended: Callable[[str], None]
        ) -> SimulatedWorkerProcess:
            return self._start(assembly, leader, memory, sizes, number, received, ended)

        settings = worker_settings(assembly.settings, self.endpoint[1])
        pool = WorkerPool(
            assembly.node,
            assembly.records,
            memory,
            settings,
            start,
            end_others=self._end_others,
            time_limit=_TIME_LIMIT,
            alive_every=_ALIVE_EVERY,
            silence_limit=3 * _REPORT_EVERY,
        )
        pool.publication.sizes = sizes
        assembly.node.writer.publisher = pool.publication
        assembly.before_leading = pool.prepare
        return pool

    def _start(
        self,
        assembly: Assembly,
        leader: SimulatedProcess,
        memory: SharedMemory,
        sizes: LargeChangeSizes,
        number: int,
        received: Callable[[bytes], None],
        ended: Callable[[str], None],
    ) -> SimulatedWorkerProcess:
        self.started += 1
        loop, random = self.loop, self._random
        process = SimulatedProcess(f"worker-{self.started}")
        to_worker = _Channel(loop, random, process.context)
        to_leader = _Channel(loop, random, leader.context)
        made = SimulatedWorkerProcess(self.started, self, process, to_worker, assembly.node.clock)
        worker = process.context.run(lambda: Worker(number, memory, made, sizes, report_every=_REPORT_EVERY))
        worker.channel = to_leader
        to_worker.receive, to_leader.receive = worker.receive, received
        # The kernel tells the leader that a process has ended, after everything that it had sent.
        process.on_kill[worker] = lambda: self._soon(leader, lambda: ended("was killed"))
        leader.on_kill[worker] = lambda: self._soon(process, worker.lose_leader)
        loop.spawn(process, self._run(worker, process))
        if self.has_faults and random.random() < 0.8:
            cause_fault = random.choice((self._kill, self._lag))
            loop.call_later(random.random() * _LONGEST_LIFE, cause_fault, made, context=contextvars.Context())
        return made

    def _soon(self, process: SimulatedProcess, do: Callable[[], None]) -> None:
        self.loop.call_later(0.001, do, context=process.context)

    def _kill(self, worker: SimulatedWorkerProcess) -> None:
        if self.has_faults and worker.process.is_alive:
            self.on_fault("worker killed")
            worker.kill()

    def _lag(self, worker: SimulatedWorkerProcess) -> None:
        if self.has_faults and worker.process.is_alive:
            self.on_fault("worker lagging")
            worker.channel.lag = _LAG

    async def _run(self, worker: Worker, process: SimulatedProcess) -> None:
        await worker.run()
        self.loop.kill(process)

    async def _end_others(self, keep: Callable[[int], bool]) -> None:
        for pid, holder in list(self.holders.items()):
            if not keep(pid):
                holder.kill()
