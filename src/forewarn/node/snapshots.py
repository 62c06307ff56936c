"""Snapshots and compaction: a child process takes a snapshot, then old facts are deleted, a few at a time."""

import asyncio
import logging
from datetime import timedelta

from forewarn.clocks import Timer
from forewarn.core.errors import ForewarnError
from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit
from forewarn.node.node import Node

log = logging.getLogger(__name__)

_CHECK_INTERVAL = timedelta(seconds=10)


class SnapshotScheduler:
    """Checks after commits whether a snapshot is due, starts it, and then compacts the journal."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._timer: Timer | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing but the clock."""
        return self._keeping is None

    def load(self, fleet: Fleet) -> None:
        self._check_soon()

    def publish(self, commit: Commit) -> None:
        self._check_soon()

    async def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._keeping:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    def _check_soon(self) -> None:
        if self._timer is None and self._keeping is None:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer = self._node.clock.call_later(_CHECK_INTERVAL, self._check)

    def _check(self) -> None:
        self._timer = None
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        try:
            await self._node.take_snapshot_if_due()
        except ForewarnError as error:
            log.warning("snapshot or compaction failed", extra={"fields": {"reason": str(error)}})
            self._set_timer()
        except Exception:  # a journal may be third-party code
            log.exception("snapshot or compaction failed")
            self._set_timer()
        self._keeping = None
