"""Clocks: the system clock, and a manual clock for tests and the emulator."""

import asyncio
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
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


def call_when_due(clock: Clock, when: datetime, do: Callable[[], None]) -> Timer:
    """Call ``do`` at a time of the wall clock, and also after as much time as there is until then now.

    A clock that was set, and is then set right again, would else let it wait for long.
    """
    return _TwoTimers(clock.call_at(when, do), clock.call_later(max(when - clock.now(), timedelta()), do))


async def sleep(clock: Clock, delay: timedelta) -> None:
    """Wait as long as this on a clock."""
    await _wait(partial(clock.call_later, delay))


async def sleep_until(clock: Clock, when: datetime) -> None:
    """Wait until a time of the wall clock, as ``call_when_due`` does."""
    await _wait(partial(call_when_due, clock, when))


async def _wait(set_timer: Callable[[Callable[[], None]], Timer]) -> None:
    is_over = asyncio.Event()
    timer = set_timer(is_over.set)
    try:
        await is_over.wait()
    finally:
        timer.cancel()


class _TwoTimers:
    def __init__(self, first: Timer, second: Timer) -> None:
        self._timers = first, second

    def cancel(self) -> None:
        for timer in self._timers:
            timer.cancel()


class SystemClock:
    """The wall clock. Timers, including those already set, notice a step of it within seconds."""

    seconds = staticmethod(boot_seconds)

    def __init__(self) -> None:
        self._timers: _WallTimers | None = None

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        loop = asyncio.get_running_loop()
        if self._timers is None or self._timers.loop is not loop:
            self._timers = _WallTimers(loop)
        return self._timers.add(when, do)

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay.total_seconds(), do)


class _WallTimers:
    """Timers on the wall clock; the event loop's own timers, of which all of them need one, use a monotonic clock."""

    _LONGEST = 5.0
    """Seconds after which a step of the wall clock is noticed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._numbers = count()
        self._queue: list[tuple[datetime, int, _QueuedTimer]] = []
        self._canceled = 0
        self._handle: asyncio.TimerHandle | None = None

    def add(self, when: datetime, do: Callable[[], None]) -> Timer:
        timer = _QueuedTimer(self, do)
        heapq.heappush(self._queue, (when, next(self._numbers), timer))
        if self._queue[0][2] is timer:
            self._set_alarm()
        return timer

    def note_canceled(self) -> None:
        """Forget canceled timers when they are the most."""
        self._canceled += 1
        if self._canceled * 2 > len(self._queue):
            self._queue = [each for each in self._queue if each[2].do]
            heapq.heapify(self._queue)
            self._canceled = 0

    def _set_alarm(self) -> None:
        if self._handle:
            self._handle.cancel()
            self._handle = None
        if self._queue:
            left = (self._queue[0][0] - datetime.now(UTC)).total_seconds()
            self._handle = self.loop.call_later(min(max(left, 0.0), self._LONGEST), self._check)

    def _check(self) -> None:
        now = datetime.now(UTC)
        while self._queue and self._queue[0][0] <= now:
            timer = heapq.heappop(self._queue)[2]
            if timer.do:
                self.loop.call_soon(timer.run)
            else:
                self._canceled -= 1
        self._set_alarm()


class _QueuedTimer:
    """One timer; what it does is None when that was done or canceled."""

    __slots__ = ("_timers", "do")

    def __init__(self, timers: _WallTimers, do: Callable[[], None]) -> None:
        self._timers = timers
        self.do: Callable[[], None] | None = do

    def run(self) -> None:
        do, self.do = self.do, None
        if do:
            do()

    def cancel(self) -> None:
        if self.do:
            self.do = None
            self._timers.note_canceled()


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
