"""Timers of many events that share two timers of the clock.

Thousands of events may be under way. A task and two timers for each of them would be a million objects, and each run
of the garbage collector would stop the event loop for a tenth of a second.
"""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta

from forewarn.clocks import Clock, Timer

_TOGETHER = 100
"""How many events are called at once: requests are answered in between."""
_EXACT = 0.001
"""Seconds; times in floating point are not more precise."""


class EventTimers:
    """Calls ``ring`` with an event at a time of the wall clock, or after as much time as there was until then.

    A clock that was set, and is then set right again, would else let an event wait for long.
    """

    def __init__(self, clock: Clock, ring: Callable[[str], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._due: dict[str, datetime] = {}
        self._by_time: list[tuple[datetime, str]] = []
        self._by_seconds: list[tuple[float, datetime, str]] = []
        """Both heaps may hold times that do not count any more: ``_due`` has those that do."""
        self._timers: list[Timer] = []

    def __contains__(self, event: str) -> bool:
        return event in self._due

    def set(self, event: str, when: datetime) -> None:
        """Call for an event, once."""
        left = (when - self._clock.now()).total_seconds()
        self._due[event] = when
        heapq.heappush(self._by_time, (when, event))
        heapq.heappush(self._by_seconds, (self._clock.seconds() + left, when, event))
        if self._by_time[0][1] == event or self._by_seconds[0][2] == event:
            self._set_timers()

    def ring_all(self) -> None:
        """Call for all events now."""
        events = tuple(self._due)
        self.clear()
        for event in events:
            self._ring(event)

    def clear(self) -> None:
        self._due.clear()
        self._by_time.clear()
        self._by_seconds.clear()
        self._set_timers()

    def _set_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._by_time:
            self._timers.append(self._clock.call_at(self._by_time[0][0], self._ring_due))
        if self._by_seconds:
            left = max(0.0, self._by_seconds[0][0] - self._clock.seconds())
            self._timers.append(self._clock.call_later(timedelta(seconds=left), self._ring_due))

    def _ring_due(self) -> None:
        now, seconds = self._clock.now(), self._clock.seconds() + _EXACT
        due: dict[str, None] = {}
        while self._by_time and self._by_time[0][0] <= now and len(due) < _TOGETHER:
            when, event = heapq.heappop(self._by_time)
            if self._due.get(event) == when:
                due[event] = None
        while self._by_seconds and self._by_seconds[0][0] <= seconds and len(due) < _TOGETHER:
            _, when, event = heapq.heappop(self._by_seconds)
            if self._due.get(event) == when:
                due[event] = None
        for event in due:
            del self._due[event]
        self._set_timers()
        for event in due:
            self._ring(event)
