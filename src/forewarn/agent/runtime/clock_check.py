"""Compares this VM's clock with the endpoint's and chooses the one by which the agent measures NotBefore.

    agree ──Date differs──▶ unsure ──three samples agree──▶ the endpoint's clock: ``offset`` is added to this VM's
      ▲                       │  the agent decides nothing meanwhile, for some seconds
      └──they agree again─────┴──samples disagree, or Date stands still──▶ this VM's clock, and it is logged

One Date alone changes nothing. A new scheduled event with a NotBefore that is in the past by the endpoint's clock
and in the future by this VM's shows that NotBefore does not follow Date: then this VM's clock is used. Otherwise
NotBefore is in the endpoint's time, and times in the memory keep their meaning when this VM's clock is set.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from forewarn.clocks import Clock, Timer
from forewarn.config.durations import show_duration
from forewarn.core.model import EventStatus
from forewarn.wire.dates import read_time
from forewarn.wire.document import ScheduledEvent

log = logging.getLogger("forewarn.agent")

TOLERANCE = timedelta(seconds=5)
"""A larger difference counts; small enough for an eviction, which is announced 30 seconds ahead."""
SAMPLES = 3
AGREE = timedelta(seconds=2)
"""Largest difference between samples of one offset; Date has whole seconds."""
APART = timedelta(seconds=1)
"""Least time between two samples: a Date that has not changed after that stands still."""
_NONE = timedelta(0)


class EndpointClock:
    """The endpoint's time: this VM's clock plus ``offset``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = _NONE

    def now(self) -> datetime:
        return _moved(self._clock.now(), self.offset)

    def own(self, when: datetime | None = None) -> datetime:
        """Return a time, by default the present, converted to this VM's own clock."""
        return self._clock.now() if when is None else _moved(when, -self.offset)

    def seconds(self) -> float:
        return self._clock.seconds()

    def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
        return self._clock.call_at(self.own(when), do)

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return self._clock.call_later(delay, do)


class _Sample(msgspec.Struct, frozen=True):
    date: str
    at: datetime
    ahead: timedelta


class ClockCheck:
    """Compares the clocks with each response, and sets the offset of an ``EndpointClock``."""

    def __init__(self, clock: EndpointClock) -> None:
        self.trouble = ""
        """Status sentence about the clocks; empty while they agree."""
        self._clock = clock
        self._samples: list[_Sample] = []
        self._is_contradicted = False
        """Whether an event has shown that NotBefore does not follow Date; until the clocks agree."""
        self._is_refuted = False
        """Whether samples disagreed since the clocks last agreed, so that the agent no longer waits for them."""

    @property
    def is_unsure(self) -> bool:
        """Whether more samples are needed; that takes some seconds."""
        return bool(self._samples) and not self._is_refuted

    def add_date(self, date: str) -> None:
        """Add the Date of a response that was received now."""
        now = self._clock.own()
        try:
            ahead = read_time(date) - now
        except ValueError:
            return  # not every endpoint sends a Date
        wanted = ahead if abs(ahead) > TOLERANCE else _NONE
        if abs(wanted - self._clock.offset) <= TOLERANCE:
            self._samples.clear()
            self._is_refuted = False
            if not self._clock.offset:
                self.trouble, self._is_contradicted = "", False
            return
        if self._is_contradicted:
            return
        last = self._samples[-1] if self._samples else None
        if last and _NONE <= now - last.at < APART:
            return
        if last and (date == last.date or any(abs(ahead - each.ahead) > AGREE for each in self._samples)):
            self._samples.clear()
            self.give_up()
        self._samples.append(_Sample(date, now, ahead))
        if len(self._samples) >= SAMPLES:
            self._set_offset(wanted)

    def check_events(self, new: Iterable[ScheduledEvent]) -> None:
        """Check whether events that are shown for the first time contradict the offset."""
        offset, now, own = self._clock.offset, self._clock.now(), self._clock.own()
        if offset <= _NONE:
            return
        coming = (event.not_before for event in new if event.status is EventStatus.SCHEDULED and event.not_before)
        if any(own < not_before <= now for not_before in coming):
            self._is_contradicted = True
            self._clock.offset = _NONE
            self.trouble = f"{_differs(offset)}, but NotBefore of a new event contradicts it; this VM's clock is used"
            log.warning("NotBefore of a new event contradicts the endpoint's Date; this VM's clock is used")

    def give_up(self) -> None:
        """Keep the present offset, because the endpoint's clock cannot be determined."""
        if not self._is_refuted:
            self._is_refuted = True
            self.trouble = "the endpoint's Date differs from this VM's clock by a varying amount and is ignored"
            log.warning("the endpoint's Date differs from this VM's clock by a varying amount and is ignored")

    def _set_offset(self, offset: timedelta) -> None:
        self._samples.clear()
        self._is_refuted = False
        self._clock.offset = offset
        fields = {"offset_seconds": round(offset.total_seconds())}
        if offset:
            self.trouble = f"{_differs(offset)}; the endpoint's clock is used; set this VM's clock"
            log.warning(
                "this VM's clock differs from the endpoint's; the endpoint's clock is used; set this VM's clock",
                extra={"fields": fields},
            )
        else:
            self.trouble = ""
            log.info("this VM's clock agrees with the endpoint's again and is used")


def _differs(offset: timedelta) -> str:
    apart = show_duration(timedelta(seconds=round(abs(offset).total_seconds())))
    side = "behind" if offset > _NONE else "ahead of"
    return f"this VM's clock is {apart} {side} the endpoint's"


def _moved(when: datetime, by: timedelta) -> datetime:
    try:
        return when + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if by > _NONE else datetime.min.replace(tzinfo=UTC)
