"""Clocks: the system clock, and a manual clock for tests and the emulator."""

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; nothing happens if it was already made."""


class Clock(Protocol):
    """Current time and timers."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def seconds(self) -> float:
        """Return elapsed seconds since an arbitrary moment, including suspension; independent of the wall clock."""

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        """Call ``do`` on the event loop once ``when`` is reached, never before, never within this call."""

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        """Call ``do`` on the event loop after this delay, unaffected by setting the wall clock."""


if hasattr(time, "CLOCK_BOOTTIME"):

    def boot_seconds() -> float:
        """Return the seconds since boot, including suspension."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    boot_seconds = time.monotonic


class SystemClock:
    """The wall clock. Timers, including those already set, notice a step of it within seconds."""

    seconds = staticmethod(boot_seconds)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        return _WallTimer(when, do)

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay.total_seconds(), do)


class _WallTimer:
    """A timer on the wall clock; the event loop's own timers use a monotonic clock."""

    _LONGEST = 5.0

    def __init__(self, when: datetime, do: Callable[[], None]) -> None:
        self._when = when
        self._do = do
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._wait(), self._check)

    def cancel(self) -> None:
        self._handle.cancel()

    def _wait(self) -> float:
        left = (self._when - datetime.now(UTC)).total_seconds()
        return min(max(left, 0.0), self._LONGEST)

    def _check(self) -> None:
        wait = self._wait()
        if wait > 0:
            self._handle = self._loop.call_later(wait, self._check)
        else:
            self._do()


class ManualClock:
    """A clock that stands still until ``advance`` moves it; calls that fall due are made on the way."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or datetime(2026, 1, 1, tzinfo=UTC)
        self._began = self._now
        self._passed = timedelta()
        """Elapsed time, independent of the wall clock."""
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
        """Advance by ``step``, making each call at its own time."""
        self.advance_to(self._now + step)

    def advance_to(self, end: datetime) -> None:
        """Advance to ``end``; time never goes back."""
        end = max(end, self._now)
        self._move(end, self._passed + (end - self._now))

    def step(self, by: timedelta) -> None:
        """Set the wall clock back or ahead without elapsed time."""
        self._move(self._now + by, self._passed)

    def next_call(self) -> datetime | None:
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
        """Make every call due until the wall clock shows ``now`` and ``passed`` has elapsed."""
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
