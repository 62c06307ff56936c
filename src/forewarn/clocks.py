"""Time is handed in: the system's clock, and one that only moves when it is told to."""

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
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
        """Return seconds since some moment in the past: all that pass, suspended or not, whatever is set by hand."""

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        """Call ``do`` on the event loop once ``when`` has come, never before, never within this call."""

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        """Call ``do`` on the event loop after so long, whatever is done to the wall clock meanwhile."""


if hasattr(time, "CLOCK_BOOTTIME"):

    def boot_seconds() -> float:
        """Return the seconds since the machine was started, suspended or not."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    boot_seconds = time.monotonic


class SystemClock:
    """The wall clock. A step of it is noticed within seconds, also by timers that were set before."""

    seconds = staticmethod(boot_seconds)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        return _WallTimer(when, do)

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay.total_seconds(), do)


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
        self._began = self._now
        self._passed = timedelta()
        """How much time has passed, whatever the wall clock shows."""
        self._numbers = count()
        self._timers: list[tuple[datetime, int, _ManualTimer]] = []
        self._delays: list[tuple[timedelta, int, _ManualTimer]] = []

    def now(self) -> datetime:
        return self._now

    def seconds(self) -> float:
        return self._began.timestamp() + self._passed.total_seconds()

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        timer = _ManualTimer(do)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        timer = _ManualTimer(do)
        heapq.heappush(self._delays, (self._passed + delay, next(self._numbers), timer))
        return timer

    def advance(self, step: timedelta) -> None:
        """Move on by ``step``, making each call at its own time."""
        self.advance_to(self._now + step)

    def advance_to(self, end: datetime) -> None:
        """Move on to ``end``; time never goes back."""
        end = max(end, self._now)
        self._move(end, self._passed + (end - self._now))

    def step(self, by: timedelta) -> None:
        """Set the wall clock, back or ahead, while no time passes."""
        self._move(self._now + by, self._passed)

    def next_call(self) -> datetime | None:
        """Return when the next call is due."""
        while self._timers and self._timers[0][2].is_canceled:
            heapq.heappop(self._timers)
        while self._delays and self._delays[0][2].is_canceled:
            heapq.heappop(self._delays)
        waits = [self._wait_of_timer()] if self._timers else []
        waits += [self._wait_of_delay()] if self._delays else []
        return self._now + min(waits) if waits else None

    def _wait_of_timer(self) -> timedelta:
        return self._timers[0][0] - self._now

    def _wait_of_delay(self) -> timedelta:
        return self._delays[0][0] - self._passed

    def _move(self, now: datetime, passed: timedelta) -> None:
        """Make every call that falls due until the wall clock shows ``now`` and so much has passed."""
        while True:
            is_timer = bool(self._timers) and self._timers[0][0] <= now
            is_delay = bool(self._delays) and self._delays[0][0] <= passed
            if not (is_timer or is_delay):
                break
            if is_timer and is_delay:
                is_timer = (self._wait_of_timer(), self._timers[0][1]) <= (self._wait_of_delay(), self._delays[0][1])
            wait = max(self._wait_of_timer() if is_timer else self._wait_of_delay(), timedelta())
            self._now = max(self._now, min(self._now + wait, now))
            self._passed = max(self._passed, min(self._passed + wait, passed))
            timer = heapq.heappop(self._timers)[2] if is_timer else heapq.heappop(self._delays)[2]
            timer.fire()
        self._now, self._passed = now, max(passed, self._passed)


class _ManualTimer:
    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        self.is_canceled = False

    def cancel(self) -> None:
        self.is_canceled = True

    def fire(self) -> None:
        if not self.is_canceled:
            self._do()
