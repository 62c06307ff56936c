"""Wakes the rules when the time of events has come: one heap of deadlines, one timer."""

import asyncio
import heapq
import logging
from datetime import datetime, timedelta
from uuid import uuid4

from forewarn.clocks import Timer
from forewarn.core.commands import Wake
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Announced, BroughtForward, Postponed, Waiting
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, EventStatus
from forewarn.node.feed import Commit
from forewarn.node.node import Node

log = logging.getLogger(__name__)

_TOGETHER = 256
"""How many events one command wakes."""
_RETRY = timedelta(seconds=1)


class Waker:
    """Submits a ``Wake`` for every event whose NotBefore has passed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._deadlines: list[tuple[datetime, str]] = []
        self._timer: Timer | None = None
        self._waking: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Tell whether it waits for nothing but the clock."""
        return self._waking is None

    def load(self, fleet: Fleet) -> None:
        scheduled = (event for event in fleet.events.values() if event.status is EventStatus.SCHEDULED)
        self._deadlines = [(event.waits_until or event.not_before, event.id) for event in scheduled]
        heapq.heapify(self._deadlines)
        self._set_timer()

    def publish(self, commit: Commit) -> None:
        earliest = self._deadlines[0][0] if self._deadlines else None
        for entry in commit.entries:
            for fact in entry.facts:
                match fact:
                    case Announced(event=event):
                        heapq.heappush(self._deadlines, (event.not_before, event.id))
                    case Postponed(event=id_, not_before=when) | BroughtForward(event=id_, not_before=when):
                        heapq.heappush(self._deadlines, (when, id_))
                    case Waiting(event=id_, until=datetime() as when):
                        heapq.heappush(self._deadlines, (when, id_))
        if self._deadlines and self._deadlines[0][0] != earliest:
            self._set_timer()

    async def stop(self) -> None:
        self._deadlines.clear()
        self._set_timer()
        if self._waking:
            await self._waking

    def _set_timer(self, not_earlier: datetime | None = None) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._deadlines and self._waking is None:
            when = self._deadlines[0][0]
            self._timer = self._node.clock.call_at(max(when, not_earlier or when), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        retry_at = None
        while due := self._take_due():
            try:
                await self._node.submit(Wake(id=uuid4().hex, by=NODE, events=tuple(id_ for _, id_ in due)))
            except ForewarnError as error:
                log.warning("events that are due wait: %s", error)
                self._put_back(due)
                retry_at = self._node.clock.now() + _RETRY
                break
            self._put_back([deadline for deadline in due if self._came_too_early(deadline[1])])
        self._waking = None
        self._set_timer(retry_at)

    def _put_back(self, deadlines: list[tuple[datetime, str]]) -> None:
        for deadline in deadlines:
            heapq.heappush(self._deadlines, deadline)

    def _came_too_early(self, id_: str) -> bool:
        """Tell whether the rules did not find the event due: the clock was set back since it was looked at."""
        event = self._node.fleet.events.get(id_)
        if event is None or event.status is not EventStatus.SCHEDULED:
            return False
        return event.not_before > self._node.clock.now()

    def _take_due(self) -> list[tuple[datetime, str]]:
        now = self._node.clock.now()
        due: list[tuple[datetime, str]] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(due) < _TOGETHER:
            due.append(heapq.heappop(self._deadlines))  # what ended or started since is for the rules to see
        return due
