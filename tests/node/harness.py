"""A node on a memory journal and a clock that stands still, with a small fleet, for the tests of this folder."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

from forewarn.clocks import ManualClock
from forewarn.core.commands import Approve, ChangeFleet, Enrol, HostOperation, OperateHost, OperateVm, VmOperation
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind, GroupKind, GroupTerms, Host, Vm
from forewarn.core.notice import Rules
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Journal
from forewarn.node.feed import Commit
from forewarn.node.node import Node

OPERATOR = Caller(CallerKind.OPERATOR, "root")
MINUTE = timedelta(minutes=1)
_Fact = TypeVar("_Fact")
_Result = TypeVar("_Result")


def run(
    story: Callable[["NodeHarness"], Awaitable[_Result]],
    journal: Journal | None = None,
    clock: ManualClock | None = None,
) -> _Result:
    """Play a story on a fresh node."""

    async def play() -> _Result:
        harness = NodeHarness(journal or MemoryJournal(), clock)
        async with asyncio.timeout(20):
            await harness.node.start()
            try:
                return await story(harness)
            finally:
                await harness.node.stop()

    return asyncio.run(play())


class NodeHarness:
    """The node under test, and everything it committed."""

    def __init__(self, journal: Journal, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.node = Node(journal, self.clock, Rules())
        self.entries: list[Entry] = []
        self.loads = 0
        self._watchers: list[tuple[type, asyncio.Future[AnyFact]]] = []
        self.node.replica.subscribe(self)

    def load(self, fleet: Fleet) -> None:
        self.loads += 1

    def publish(self, commit: Commit) -> None:
        self.entries.extend(commit.entries)
        for entry in commit.entries:
            for fact in entry.facts:
                self._tell(fact)

    @property
    def facts(self) -> list[AnyFact]:
        return [fact for entry in self.entries for fact in entry.facts]

    def next(self, kind: type[_Fact]) -> "asyncio.Future[_Fact]":
        """Return a future of the next fact of this kind to be committed."""
        future: asyncio.Future[_Fact] = asyncio.get_running_loop().create_future()
        self._watchers.append((kind, future))  # type: ignore[arg-type]  # one list for futures of every kind
        return future

    def _tell(self, fact: AnyFact) -> None:
        for watcher in [watcher for watcher in self._watchers if isinstance(fact, watcher[0])]:
            self._watchers.remove(watcher)
            watcher[1].set_result(fact)

    async def add_fleet(self, *, enrolled: bool = True) -> None:
        """Declare hosts h1 and h2 with the availability set web: web-0, a spot VM, and web-2 on h1, web-1 on h2."""
        await self.node.submit(
            ChangeFleet(
                id=uuid4().hex,
                by=OPERATOR,
                hosts=(Host("h1"), Host("h2")),
                groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),),
                vms=tuple(
                    Vm(f"web-{number}", "web", host=f"h{number % 2 + 1}", update_domain=number, spot=number == 0)
                    for number in range(3)
                ),
            )
        )
        if enrolled:
            await self.node.submit(Enrol(id=uuid4().hex, by=OPERATOR, group="web", vm="web-0"))

    async def operate(self, operation: str, vm: str) -> str:
        """Announce an operation on a VM; return the event's id."""
        command = OperateVm(id=uuid4().hex, by=OPERATOR, operation=VmOperation(operation), vm=vm)
        return self._announced(await self.node.submit(command))[0]

    async def operate_host(self, operation: str, host: str) -> list[str]:
        """Announce an operation on a host; return the ids of its events."""
        command = OperateHost(id=uuid4().hex, by=OPERATOR, operation=HostOperation(operation), host=host)
        return self._announced(await self.node.submit(command))

    async def approve(self, *events: str, vm: str = "web-0") -> None:
        await self.node.submit(Approve(id=uuid4().hex, by=Caller(CallerKind.VM, vm), events=events))

    def _announced(self, facts: tuple[AnyFact, ...]) -> list[str]:
        return [fact.event.id for fact in facts if hasattr(fact, "event") and hasattr(fact.event, "id")]


def add_host(name: str) -> ChangeFleet:
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(name),))
