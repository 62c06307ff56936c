"""Periodic task that submits request records to the node in batches.

A crash loses at most the last seconds of them; after a restart a group counts as having asked at the start.
"""

import asyncio
import logging
from datetime import timedelta
from uuid import uuid4

from forewarn.clocks import Timer
from forewarn.core.commands import Command, RecordAsked, RecordFetched, SwitchOff
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Mark
from forewarn.core.model import NODE
from forewarn.metadata.request_records import RequestRecords
from forewarn.node.node import Node

log = logging.getLogger(__name__)

_FETCHES_EVERY = timedelta(seconds=2)
_SWEEP_EVERY = timedelta(minutes=1)
_MARKS_EVERY = timedelta(minutes=10)
_EXACT = 0.001
"""Seconds; times in floating point are not more precise."""


class RequestRecorder:
    """Submits request records to the node while the service runs."""

    def __init__(self, node: Node, records: RequestRecords) -> None:
        self._node = node
        self._records = records
        # With hurry, a group may be idle after seconds: sweep often enough to notice.
        self._sweep_every = min(_SWEEP_EVERY, node.rules.idle_after / 24)
        self._marks_every = min(_MARKS_EVERY, node.rules.mark_after / 6)
        self._asked: list[Mark] = []
        self._sweep_at = self._marks_at = node.clock.seconds()
        self._timer: Timer | None = None
        self._fires_at = self._sweep_at
        self._is_stopped = False
        self._recording: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no submission is in progress."""
        return self._recording is None

    def start(self) -> None:
        self._sweep_at = self._node.clock.seconds() + self._sweep_every.total_seconds()
        self._set_timer(self._sweep_at)
        self._records.noted = self._expect_more

    async def stop(self) -> None:
        """Submit the records still in memory."""
        self._is_stopped = True
        if self._timer:
            self._timer.cancel()
        if self._recording:
            await self._recording
        await self.record_fetches()

    def _expect_more(self) -> None:
        """Schedule a submission soon, so that records of the next moments are submitted together."""
        soon = self._node.clock.seconds() + max(_FETCHES_EVERY, self._node.retry_after).total_seconds()
        if self._recording is None and soon < self._fires_at and not self._is_stopped:
            self._set_timer(soon)

    def _set_timer(self, when: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._fires_at = when
        delay = timedelta(seconds=max(0.0, when - self._node.clock.seconds()))
        self._timer = self._node.clock.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._recording = asyncio.create_task(self._record())

    async def _record(self) -> None:
        now = self._node.clock.seconds()
        await self.record_fetches()
        if now >= self._sweep_at - _EXACT:
            self._sweep_at = now + self._sweep_every.total_seconds()
            await self._node.check_clock()
            await self._sweep(now)
        self._recording = None
        if not self._is_stopped:
            self._set_timer(self._sweep_at)
            if self._records.has_fetches:
                self._expect_more()

    async def record_fetches(self) -> None:
        """Submit the recorded fetches now."""
        fetches = self._records.take_fetches()
        if fetches and not await self._submit(RecordFetched(id=uuid4().hex, by=NODE, fetches=fetches)):
            self._records.put_back(fetches)

    async def _sweep(self, now: float) -> None:
        """Check every enrolled group, a slice at a time, and switch off idle ones."""
        self._asked.clear()
        is_over = False
        while not is_over:
            swept = self._records.sweep(since=self._node.timekeeper.stepped_seconds)
            is_over = swept.is_over
            self._asked += swept.asked
            if swept.idle:
                await self._submit(SwitchOff(id=uuid4().hex, by=NODE, marks=tuple(swept.idle)))
            await asyncio.sleep(0)
        if self._asked and now >= self._marks_at - _EXACT:
            self._marks_at = now + self._marks_every.total_seconds()
            await self._submit(RecordAsked(id=uuid4().hex, by=NODE, marks=tuple(self._asked)))

    async def _submit(self, command: Command) -> bool:
        """Submit a command; return whether it was committed."""
        try:
            await self._node.submit(command)
        except ForewarnError as error:
            log.warning("requests of VMs were not recorded", extra={"fields": {"reason": str(error)}})
            return False
        return True
