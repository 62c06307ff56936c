"""The wall clock of one simulated computer: it can be wrong, be stepped, and run too fast or too slow."""

import asyncio
import contextvars
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from forewarn.clocks import Timer

EPOCH = datetime(2024, 1, 1, 8, 0, tzinfo=UTC)
"""The true time when a simulation begins: on the Monday of ``words.MONDAY``, so that a transcript needs no dates."""


class SimulatedClock:
    """A clock that shows the simulation's time plus an error."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._error = timedelta()
        self.rate = 0.0
        """By which it runs too fast."""
        self._drifts_from = 0.0
        self._waiting: dict[_SimulatedTimer, None] = {}
        self._read = -1.0, EPOCH
        """The time when it was last read, and what it showed then: much asks for the time within one moment."""

    def now(self) -> datetime:
        seconds = self._loop.time()
        if self._read[0] != seconds:
            drifted = self.rate * (seconds - self._drifts_from)
            self._read = seconds, EPOCH + self._error + timedelta(seconds=round(seconds + drifted, 6))
        return self._read[1]

    def seconds(self) -> float:
        return self._loop.time() + 1000.0

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        timer = _SimulatedTimer(self, when, do)
        self._waiting[timer] = None
        timer.arm()
        return timer

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay.total_seconds(), do)

    def step(self, by: timedelta) -> None:
        """Set the wall clock back or ahead; timers notice at once."""
        self._error += by
        self._read = -1.0, EPOCH
        self._rearm()

    def drift(self, rate: float) -> None:
        """Run too fast by ``rate`` (too slow where it is negative) from now on: 0.001 is a second in 1,000."""
        self._error += timedelta(seconds=round(self.rate * (self._loop.time() - self._drifts_from), 6))
        self.rate, self._drifts_from = rate, self._loop.time()
        self._read = -1.0, EPOCH
        self._rearm()

    @property
    def error(self) -> timedelta:
        """How far it is ahead of the true time."""
        if not self.rate:
            return self._error
        return self.now() - EPOCH - timedelta(seconds=round(self._loop.time(), 6))

    def _rearm(self) -> None:
        for timer in tuple(self._waiting):
            timer.arm()

    def wait_for(self, when: datetime) -> float:
        """Return the seconds until the clock shows ``when``, a little more rather than less."""
        left = (when - self.now()).total_seconds()
        return max(left / (1 + self.rate), 0.0) + (2e-6 if left > 0 else 0.0)

    def forget(self, timer: "_SimulatedTimer") -> None:
        self._waiting.pop(timer, None)


class _SimulatedTimer:
    def __init__(self, clock: SimulatedClock, when: datetime, do: Callable[[], None]) -> None:
        self._clock = clock
        self._when = when
        self._do = do
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        """Of the process that set it, which may be dead when the clock is stepped."""
        self._handle: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(self._clock.wait_for(self._when), self._fire, context=self._context)

    def cancel(self) -> None:
        self._clock.forget(self)
        if self._handle is not None:
            self._handle.cancel()

    def _fire(self) -> None:
        if self._clock.now() < self._when:
            self.arm()
            return
        self._clock.forget(self)
        self._do()
