"""Submits a command when deadlines of events have passed: one heap of deadlines, one timer."""

import asyncio
import heapq
import logging
from datetime import datetime, timedelta
from typing import assert_never

from forewarn.clocks import Timer
from forewarn.core.commands import CheckDeadlines
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import (
    Announced,
    Approved,
    Attempted,
    BroughtForward,
    ClockStepped,
    EventEnded,
    Fetched,
    NonEventFact,
    Postponed,
    Started,
    StartedAtOnce,
    Waiting,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, EventStatus
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.randomness import new_id

log = logging.getLogger(__name__)

_HEEDED = (ClockStepped, Announced, Postponed, BroughtForward, Waiting)
"""The facts that set deadlines."""
_TOGETHER = 256
"""How many events one command wakes."""
_AGAIN = timedelta(seconds=1)
"""After what time an event is looked at again that was due and did not start."""


class DeadlineScheduler:
    """Submits a ``CheckDeadlines`` for every event whose NotBefore has passed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._deadlines: list[tuple[datetime, str]] = []
        self._timer: Timer | None = None
        self._waking: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing but the clock."""
        return self._waking is None

    def load(self, fleet: Fleet) -> None:
        scheduled = (event for event in fleet.events.values() if event.status is EventStatus.SCHEDULED)
        # The end of quiet hours may have been computed by a clock that was wrong: the rules compute it anew at once.
        now = self._node.clock.now()
        self._deadlines = [(now if event.waits_until else event.not_before, event.id) for event in scheduled]
        heapq.heapify(self._deadlines)
        self._set_timer()

    def publish(self, commit: Commit) -> None:
        if not commit.holds(_HEEDED):
            return
        earliest = self._deadlines[0][0] if self._deadlines else None
        for entry in commit.entries:
            for fact in entry.facts:
                match fact:
                    case ClockStepped():
                        self.load(commit.fleet)
                        return
                    case Announced(event=event):
                        heapq.heappush(self._deadlines, (event.not_before, event.id))
                    case Postponed(event=id_, not_before=when) | BroughtForward(event=id_, not_before=when):
                        heapq.heappush(self._deadlines, (when, id_))
                    case Waiting(event=id_, until=datetime() as when):
                        heapq.heappush(self._deadlines, (when, id_))
                    case StartedAtOnce() | Approved() | Waiting() | Started() | Attempted() | Fetched():
                        pass
                    case _ if isinstance(fact, (EventEnded, NonEventFact)):
                        pass
                    case _:
                        assert_never(fact)
        if self._deadlines and self._deadlines[0][0] != earliest:
            self._set_timer()

    async def stop(self) -> None:
        self._deadlines.clear()
        self._set_timer()
        if self._waking:
            await self._waking

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._deadlines and self._waking is None:
            self._timer = self._node.clock.call_at(self._deadlines[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        while due := self._take_due():
            try:
                await self._node.submit(CheckDeadlines(id=new_id(), by=NODE, events=tuple(id_ for _, id_ in due)))
            except ForewarnError as error:
                log.warning("events that are due wait", extra={"fields": {"events": len(due), "reason": str(error)}})
                self._put_back(due)
                self._waking = None
                if self._deadlines:
                    self._timer = self._node.clock.call_later(self._node.writer.retry_after, self._ring)
                return
            self._put_back([(when, id_) for _, id_ in due if (when := self._due_later(id_))])
        self._waking = None
        self._set_timer()

    def _put_back(self, deadlines: list[tuple[datetime, str]]) -> None:
        for deadline in deadlines:
            heapq.heappush(self._deadlines, deadline)

    def _due_later(self, id_: str) -> datetime | None:
        """Return when an event is due that the rules did not find due: the clock was set since it was looked at."""
        event = self._node.replica.fleet.events.get(id_)
        if event is None or event.status is not EventStatus.SCHEDULED:
            return None
        if event.waits_for:
            return None  # it starts when that one ends
        soon = self._node.clock.now() + _AGAIN
        return max(event.waits_until or self._node.writer.timekeeper.due_at(event), soon)

    def _take_due(self) -> list[tuple[datetime, str]]:
        now = self._node.clock.now()
        due: list[tuple[datetime, str]] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(due) < _TOGETHER:
            due.append(heapq.heappop(self._deadlines))  # what ended or started since is for the rules to see
        return due
