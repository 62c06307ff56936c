"""The leader: everything that only one process of a service may do."""

from contextlib import AsyncExitStack
from typing import Protocol

from forewarn.core.fleet import Fleet
from forewarn.node.deadlines import DeadlineScheduler
from forewarn.node.driver import Driver
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.node.observer import Observer
from forewarn.node.performer import Performer
from forewarn.node.power import PowerController
from forewarn.node.snapshots import SnapshotScheduler


class LeaderPart(Protocol):
    """Follows the commits while its process leads."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing but the clock and new facts."""

    def load(self, fleet: Fleet) -> None:
        """Begin with this fleet, or begin again with it."""

    def publish(self, commit: Commit) -> None:
        """Take in what became durable since."""

    async def stop(self) -> None:
        """End what is under way; the next leader derives from the fleet what is left to do."""


class Leader:
    """Starts deadlines, driver calls, observation, snapshots and the parts handed in, and stops them.

    - Before ``lead`` and after ``resign`` no driver is called and no command is submitted by a part.
    - Each ``lead`` makes its own parts anew and loads every part from the replica, so that they begin with exactly
      what is committed. A part that is handed in stops for good when its leader resigns.
    - On one machine the process leads from its start until its stop.
    """

    def __init__(self, node: Node, driver: Driver) -> None:
        self._node = node
        self._driver = driver
        self._added: list[LeaderPart] = []
        self._parts: tuple[LeaderPart | Observer, ...] = ()
        self._started = AsyncExitStack()

    def add(self, part: LeaderPart) -> None:
        """Hand in a part that is to start with ``lead``, such as notifications."""
        self._added.append(part)

    @property
    def busy(self) -> list[str]:
        """The parts that have something under way."""
        return [type(part).__name__.lower() for part in self._parts if not part.is_idle]

    async def lead(self) -> None:
        """Start every part; on failure none is left running."""
        node, driver = self._node, self._driver
        following: tuple[LeaderPart, ...] = (
            SnapshotScheduler(node),
            Performer(node, driver),
            PowerController(node, driver),
            DeadlineScheduler(node),
            *self._added,
        )
        observer = Observer(node, driver)
        async with AsyncExitStack() as started:
            for part in following:
                started.push_async_callback(part.stop)
                node.replica.subscribe(part)
                started.callback(node.replica.feed.unsubscribe, part)
            await observer.start()
            started.push_async_callback(observer.stop)
            self._parts = (*following, observer)
            self._started = started.pop_all()

    async def resign(self) -> None:
        """Stop every part, the last one started first. Repeating it does nothing."""
        await self._started.aclose()
        self._parts = ()
