"""A running clock that can be advanced: timers that become due fire at once."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from forewarn.clocks import ManualClock, Timer, boot_seconds

_LONGEST_WAIT = 5.0
"""Seconds after which the wall clock is read again: it may have been set."""


class RunningClock(ManualClock):
    """The wall clock plus the time by which it was advanced."""

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))
        self._ahead = timedelta()
        self._began_seconds = boot_seconds()
        self._alarm: asyncio.TimerHandle | None = None

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def seconds(self) -> float:
        return boot_seconds() + self._ahead.total_seconds()

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        timer = super().call_at(when, do)
        self._set_alarm()
        return timer

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        timer = super().call_later(self._really_passed() - self._passed + delay, do)
        self._set_alarm()
        return timer

    def advance(self, step: timedelta) -> None:
        self.advance_to(self.now() + step)

    def advance_to(self, end: datetime) -> None:
        self._ahead += max(end - self.now(), timedelta())
        self._ring()

    def close(self) -> None:
        """Make no more calls."""
        if self._alarm:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        self.close()
        due = self.next_call()
        if due is not None:
            wait = min(max((due - self.now()).total_seconds(), 0.0), _LONGEST_WAIT)
            self._alarm = asyncio.get_running_loop().call_later(wait, self._ring)

    def _ring(self) -> None:
        self._move(self.now(), self._really_passed())
        self._set_alarm()

    def _really_passed(self) -> timedelta:
        return timedelta(seconds=self.seconds() - self._began_seconds)
