"""The leader: everything that only one process of a service may do."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol

from forewarn.core.fleet import Fleet
from forewarn.node.deadlines import DeadlineScheduler
from forewarn.node.driver import Driver, is_immediate
from forewarn.node.driver_calls import DriverCalls
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.node.observer import Observer
from forewarn.node.performer import Performer
from forewarn.node.power import PowerController
from forewarn.node.rollout_checks import RolloutChecker
from forewarn.node.rollout_executor import RolloutExecutor
from forewarn.node.snapshots import SnapshotScheduler

_PERFORMING_AT_ONCE = 32
_SWITCHING_AT_ONCE = 16


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
        """End what is under way; the next leader derives from the fleet what is left to do.

        A part that is handed in may be loaded again afterwards, when its process leads again.
        """


class Leader:
    """Starts deadlines, driver calls, observation, snapshots and the parts handed in, and stops them.

    - Before ``lead`` and after ``resign`` no driver is called and no command is submitted by a part.
    - Each ``lead`` makes its own parts anew and loads every part from the replica, so that they begin with exactly
      what is committed. A process may lead several times.
    - On one machine the process leads from its start until its stop.
    """

    def __init__(self, node: Node, driver: Driver) -> None:
        self.may_act: Callable[[int], bool] = lambda _: True
        """Tells whether the driver may be called now, in a term; it is called from any thread."""
        self._node = node
        self._driver = driver
        # These outlast a resignation: what was begun before it may still be under way.
        self._performing = DriverCalls(driver, _PERFORMING_AT_ONCE, may_call=self._may_call)
        self._switching = DriverCalls(driver, _SWITCHING_AT_ONCE, may_call=self._may_call)
        self._observer = Observer(node, driver)
        self.rollout_checker = RolloutChecker()
        """Runs the gates of rollouts."""
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
        attempts_by = node.term, node.name, node.driver_name
        node.writer.attempts_by = attempts_by if is_immediate(driver) else None
        following: tuple[LeaderPart, ...] = (
            SnapshotScheduler(node),
            Performer(node, driver, self._performing),
            PowerController(node, driver, self._switching),
            DeadlineScheduler(node),
            RolloutExecutor(node, driver, self.rollout_checker, partial(self._may_call, node.term)),
            *self._added,
        )
        observer = self._observer
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
        self._node.writer.attempts_by = None
        await self._started.aclose()
        self._parts = ()

    def stir_rollouts(self) -> None:
        """Let every rollout look at the rules, which have changed; without leading this does nothing."""
        for part in self._parts:
            if isinstance(part, RolloutExecutor):
                part.stir_all()

    def _may_call(self, term: int) -> bool:
        """Return whether the driver may be called; a call that was begun in an earlier term is not made any more."""
        return self.may_act(term) and term == self._node.term
