"""Time is handed in: the system's clock, and one that only moves when it is told to."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic
from typing import Protocol


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Let the call not happen; harmless when it already did."""


class Clock(Protocol):
    """Tells the time, and calls when it has come."""

    def now(self) -> datetime:
        """Return the time, in UTC."""

    def seconds(self) -> float:
        """Return seconds since some moment in the past; they never go back, whatever is done to the wall clock."""

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        """Call ``do`` on the event loop once ``when`` has come, never before, never within this call."""


class SystemClock:
    """The wall clock. A step of it is noticed within seconds, also by timers that were set before."""

    seconds = staticmethod(monotonic)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        return _WallTimer(when, do)


class _WallTimer:
    """A timer that goes by the wall clock, while the loop's own timers go by a clock that never steps."""

    _LONGEST = 5.0

    def __init__(self, when: datetime, do: Callable[[], None]) -> None:
        self._when = when
        self._do = do
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._wait(), self._look)

    def cancel(self) -> None:
        self._handle.cancel()

    def _wait(self) -> float:
        left = (self._when - datetime.now(UTC)).total_seconds()
        return min(max(left, 0.0), self._LONGEST)

    def _look(self) -> None:
        wait = self._wait()
        if wait > 0:
            self._handle = self._loop.call_later(wait, self._look)
        else:
            self._do()


class ManualClock:
    """A clock that stands still until ``advance`` moves it, past every call that falls due on the way."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or datetime(2026, 1, 1, tzinfo=UTC)
        self._numbers = count()
        self._timers: list[tuple[datetime, int, _ManualTimer]] = []

    def now(self) -> datetime:
        return self._now

    def seconds(self) -> float:
        return self._now.timestamp()

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        timer = _ManualTimer(do)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def advance(self, step: timedelta) -> None:
        """Move on by ``step``, making each call at its own time."""
        self.advance_to(self._now + step)

    def advance_to(self, end: datetime) -> None:
        """Move on to ``end``; a clock never goes back."""
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            timer.fire()
        self._now = max(self._now, end)

    def next_call(self) -> datetime | None:
        """Return when the next call is due."""
        while self._timers and self._timers[0][2].is_canceled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None


class _ManualTimer:
    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        self.is_canceled = False

    def cancel(self) -> None:
        self.is_canceled = True

    def fire(self) -> None:
        if not self.is_canceled:
            self._do()
