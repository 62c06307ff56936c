"""Keeps the journal short to read: snapshots beside the server, then the old facts go, a few at a time."""

import asyncio
import logging
from datetime import timedelta

from forewarn.clocks import Timer
from forewarn.core.errors import ForewarnError
from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit
from forewarn.node.node import Node

log = logging.getLogger(__name__)

_LOOK_EVERY = timedelta(seconds=10)


class Keeper:
    """Looks now and then whether a snapshot is due, has it taken, and compacts the journal after it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._timer: Timer | None = None
        self._keeping: asyncio.Task[None] | None = None

    def load(self, fleet: Fleet) -> None:
        if self._timer is None and self._keeping is None:
            self._set_timer()

    def publish(self, commit: Commit) -> None:
        """Do nothing: a snapshot can wait for the next look."""

    async def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._keeping:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    def _set_timer(self) -> None:
        self._timer = self._node.clock.call_at(self._node.clock.now() + _LOOK_EVERY, self._look)

    def _look(self) -> None:
        self._timer = None
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        try:
            await self._node.take_snapshot_if_due()
        except ForewarnError as error:
            log.warning("no snapshot was taken: %s", error)
        self._keeping = None
        self._set_timer()
