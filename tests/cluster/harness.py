"""Nodes of one cluster in one process: journal and machines are in memory, and clocks stand still."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TypeVar
from uuid import uuid4

from forewarn.clocks import ManualClock
from forewarn.cluster.cluster_node import ClusterNode, NodeRole
from forewarn.cluster.metadata_service import ClusterMetadataService
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.core.commands import ChangeFleet, Command, Enrol, OperateVm, VmOperation
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, Observation, ObservationKind, Vm
from forewarn.journal.port import JournalFailed
from forewarn.journal.shared_memory import SharedMemoryJournal, SharedMemoryStore
from forewarn.metadata.service import MetadataService
from forewarn.node.driver import Impact, ImpactDone, ImpactNotBegun, ImpactOutcome, ImpactUnknown
from forewarn.wiring import Assembly

OPERATOR = Caller(CallerKind.OPERATOR, "root")
SETTINGS = Settings(metadata=ListenAddress("127.0.0.1", 0))
_Result = TypeVar("_Result")


class Machines:
    """What is done to machines, by whichever node: it remembers each impact, and the highest term."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        """The event and the term of every impact."""
        self.refused: list[tuple[str, int]] = []
        self.hosts: dict[str, str] = {}
        """Where machines are that somebody moved."""
        self._lock = Lock()
        self._term = 0

    def begin(self, impact: Impact) -> ImpactOutcome:
        with self._lock:
            if impact.term < self._term:
                self.refused.append((impact.event.id, impact.term))
                return ImpactUnknown("another leader has asked since")
            self._term = impact.term
            self.done.append((impact.event.id, impact.term))
            return ImpactDone()

    def find(self, impact: Impact) -> ImpactOutcome:
        with self._lock:
            self._term = max(self._term, impact.term)
            return ImpactDone() if any(id_ == impact.event.id for id_, _ in self.done) else ImpactNotBegun()


class MachineDriver:
    """One node's driver. ``before`` is called in the thread of each call, before it reaches the machines."""

    moves_live = False

    def __init__(self, machines: Machines, *, fences_terms: bool) -> None:
        self.fences_terms = fences_terms
        self.before: Callable[[str], None] = lambda _: None
        self._machines = machines
        self._report: Callable[[Observation], None] = lambda _: None

    def perform(self, impact: Impact) -> ImpactOutcome:
        self.before("perform")
        return self._machines.begin(impact)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        self.before("outcome_of")
        return self._machines.find(impact)

    def watch(self, report: Callable[[Observation], None]) -> None:
        self._report = report
        self.resync()

    def resync(self) -> None:
        for vm, host in self._machines.hosts.items():
            self._report(Observation(vm, ObservationKind.MOVED, datetime.now(UTC), host=host))

    def close(self) -> None:
        """Nothing is to be closed."""


class _NoServer:
    """A metadata server that nobody calls."""

    port = 0

    def __init__(self, service: MetadataService) -> None:
        self.service = service

    async def start(self) -> None:
        """Answer nobody."""

    async def stop(self) -> None:
        """Nothing is to be finished."""


class NodeUnderTest:
    """One node."""

    def __init__(self, cluster: "ClusterHarness", name: str, clock: ManualClock, address: str | None = None) -> None:
        self.name = name
        self.clock = clock
        self.journal = SharedMemoryJournal(cluster.store, name)
        self.driver = MachineDriver(cluster.machines, fences_terms=cluster.fences_terms)
        self.assembly = Assembly(
            SETTINGS, clock, self.journal, self.driver, _NoServer, service=ClusterMetadataService
        )
        self.node = self.assembly.node
        self.cluster_node = ClusterNode(
            self.assembly, self.journal, name, f"{name}:8256" if address is None else address
        )
        self.node.forwarder = _Forwarder(cluster, self)

    @property
    def is_leading(self) -> bool:
        return self.cluster_node.is_leading

    @property
    def is_following(self) -> bool:
        return self.cluster_node.role is NodeRole.FOLLOWING


class _Forwarder:
    """Hands commands to the leader, as the peers do over the network."""

    def __init__(self, cluster: "ClusterHarness", node: NodeUnderTest) -> None:
        self._cluster = cluster
        self._node = node

    def begin(self, command: Command) -> "asyncio.Future[None]":
        return asyncio.ensure_future(self._forward(command))

    async def _forward(self, command: Command) -> None:
        leader = await self._cluster.leader()
        await leader.node.submit(command)
        revision = leader.node.replica.revision
        await until(lambda: self._node.node.replica.revision >= revision)


class ClusterHarness:
    """The nodes, what they share, and what befalls them."""

    def __init__(self, *, fences_terms: bool = True) -> None:
        self.clock = ManualClock()
        self.store = SharedMemoryStore(self.clock)
        self.store.before = self._fail
        self.machines = Machines()
        self.fences_terms = fences_terms
        self.nodes: dict[str, NodeUnderTest] = {}
        self.cut_off: set[str] = set()
        """The nodes that do not reach the database; ``*`` stands for all."""

    def _fail(self, node: str, _: str) -> None:
        if self.cut_off & {node, "*"}:
            raise JournalFailed("the database does not answer")

    async def start(self, name: str, clock: ManualClock | None = None, address: str | None = None) -> NodeUnderTest:
        node = self.nodes[name] = NodeUnderTest(self, name, clock or self.clock, address)
        await node.assembly.start()
        return node

    async def stop(self) -> None:
        self.cut_off.clear()
        for node in self.nodes.values():
            await node.assembly.stop()

    async def leader(self) -> NodeUnderTest:
        """Return the node that leads, once there is one; time passes until then."""
        await self.pass_until(lambda: any(node.is_leading for node in self.nodes.values()))
        (leader,) = [node for node in self.nodes.values() if node.is_leading]
        return leader

    async def follower(self) -> NodeUnderTest:
        leader = await self.leader()
        return next(node for node in self.nodes.values() if node is not leader)

    async def pass_until(self, condition: Callable[[], bool]) -> float:
        """Let time pass until a condition holds; return the seconds that it took."""
        began = self.clock.seconds()
        while not condition():
            if self.clock.seconds() - began > 60:
                raise AssertionError("it does not come about")
            await self.advance(0.1)
        return self.clock.seconds() - began

    async def advance(self, seconds: float) -> None:
        """Let time pass in small steps, and everything happen that follows from it."""
        for _ in range(max(1, round(seconds / 0.1))):
            clocks = (self.clock, *(node.clock for node in self.nodes.values()))
            for clock in {id(clock): clock for clock in clocks}.values():
                clock.advance(timedelta(seconds=0.1))
            await settle()

    async def submit(self, command: Command) -> None:
        await (await self.leader()).node.submit(command)

    async def add_fleet(self) -> None:
        """Add a host, a group of three VMs that is enrolled."""
        await self.submit(
            ChangeFleet(
                id=uuid4().hex,
                by=OPERATOR,
                hosts=(Host("h1"), Host("h2")),
                groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),),
                vms=tuple(Vm(f"web-{n}", "web", update_domain=n, host="h1") for n in range(3)),
            )
        )

    async def enrol(self) -> None:
        by = Caller(CallerKind.VM, "web-0")
        await self.submit(Enrol(id=uuid4().hex, by=by, group="web", vm="web-0"))

    def restart(self, vm: str) -> OperateVm:
        return OperateVm(id=uuid4().hex, by=OPERATOR, operation=VmOperation.RESTART, vm=vm)

    def check_agreement(self) -> None:
        """Every node holds exactly what the journal holds."""
        fold = self.store.entries.load()
        for node in self.nodes.values():
            assert node.node.replica.revision == fold.revision
            assert vars_of(node.node.replica.fleet.events) == vars_of(fold.fleet.events)
            assert node.node.replica.fleet.vms.keys() == fold.fleet.vms.keys()


def vars_of(records: object) -> str:
    return repr(records)


async def settle() -> None:
    """Let threads and tasks do what they can do without more time."""
    for _ in range(5):
        await asyncio.sleep(0.001)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - threads are at work
        await asyncio.sleep(0.001)


def run(story: Callable[[ClusterHarness], Awaitable[_Result]], *, fences_terms: bool = True) -> _Result:
    """Play a story with an empty cluster."""

    async def play() -> _Result:
        cluster = ClusterHarness(fences_terms=fences_terms)
        async with asyncio.timeout(30):
            try:
                return await story(cluster)
            finally:
                await cluster.stop()

    return asyncio.run(play())
