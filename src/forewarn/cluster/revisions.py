"""Waiting until the replica of this node holds a revision that the leader named."""

import asyncio
import heapq
from itertools import count

from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit
from forewarn.node.replica import Replica


class RevisionWaiter:
    """Follows the commits of a replica; subscribe it after what shows them."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._numbers = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def holds(self, revision: int) -> bool:
        """Return whether the replica holds a revision."""
        return self._replica.revision >= revision

    async def wait(self, revision: int, seconds: float) -> bool:
        """Wait until the replica holds a revision; return whether it does."""
        if self.holds(revision):
            return True
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (revision, next(self._numbers), reached))
        try:
            async with asyncio.timeout(seconds):
                await reached
        except TimeoutError:
            pass  # it stays in the queue until the replica is there
        return self.holds(revision)

    def load(self, fleet: Fleet) -> None:
        self._wake()

    def publish(self, commit: Commit) -> None:
        self._wake()

    def _wake(self) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= self._replica.revision:
            reached = heapq.heappop(waiting)[2]
            if not reached.done():
                reached.set_result(None)
