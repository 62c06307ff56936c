"""Which clock tells how much time an event leaves: this VM's, or the endpoint's where the two differ.

    agree ──Date differs──▶ unsure ──three samples agree──▶ the endpoint's clock: ``offset`` is added to this VM's
      ▲                       │  nothing is decided meanwhile, for some seconds
      └──they agree again─────┴──samples disagree, or Date stands still──▶ this VM's clock, and it is logged

One Date alone changes nothing. A new event that is still to come, but has its NotBefore in the past by the endpoint's
clock and not by this VM's, shows that NotBefore goes by another clock than Date: then this VM's counts. Otherwise
NotBefore is the endpoint's time, and what is kept in the memory means the same after this VM's clock was set.
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
"""From here on the clocks differ: what an eviction, announced thirty seconds ahead, can bear."""
SAMPLES = 3
AGREE = timedelta(seconds=2)
"""By how much samples of one offset may differ; Date has whole seconds."""
APART = timedelta(seconds=1)
"""The least time between two samples: a Date that has not changed in it stands still."""
_NONE = timedelta(0)


class EndpointClock:
    """A clock that is ahead of another by ``offset``, so that it shows the endpoint's time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = _NONE

    def now(self) -> datetime:
        return _moved(self._clock.now(), self.offset)

    def own(self, when: datetime | None = None) -> datetime:
        """Return a time, or the present one, as this VM's own clock shows it."""
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
    """Compares the clocks with each answer, and sets the offset of an ``EndpointClock``."""

    def __init__(self, clock: EndpointClock) -> None:
        self.trouble = ""
        """What is to be said of the clocks; empty while they agree."""
        self._clock = clock
        self._samples: list[_Sample] = []
        self._is_contradicted = False
        """Whether an event has shown that NotBefore does not go by Date; until the clocks agree."""
        self._is_refuted = False
        """Whether samples disagreed since the clocks last agreed, so that nobody waits for them any more."""

    @property
    def is_unsure(self) -> bool:
        """Tell whether it is being found out which clock counts; it takes some seconds."""
        return bool(self._samples) and not self._is_refuted

    def hear(self, date: str) -> None:
        """Take in the Date of an answer that came now."""
        now = self._clock.own()
        try:
            ahead = read_time(date) - now
        except ValueError:
            return  # not every endpoint tells the time
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
            self._reckon(wanted)

    def judge(self, new: Iterable[ScheduledEvent]) -> None:
        """Take in events that are shown for the first time: whether they fit the clock that counts."""
        offset, now, own = self._clock.offset, self._clock.now(), self._clock.own()
        if offset <= _NONE:
            return
        coming = (event.not_before for event in new if event.status is EventStatus.SCHEDULED and event.not_before)
        if any(own < not_before <= now for not_before in coming):
            self._is_contradicted = True
            self._clock.offset = _NONE
            self.trouble = f"{_differs(offset)}, but NotBefore of a new event does not go by it; this VM's counts"
            log.warning("NotBefore does not go by the endpoint's Date; times are reckoned by this VM's clock")

    def give_up(self) -> None:
        """Go on with the clock that counted until now, as the endpoint's cannot be made out."""
        if not self._is_refuted:
            self._is_refuted = True
            self.trouble = "the endpoint's Date differs from the clock, but not steadily; it is not reckoned with"
            log.warning("the endpoint's Date is not steady, and is not reckoned with")

    def _reckon(self, offset: timedelta) -> None:
        self._samples.clear()
        self._is_refuted = False
        self._clock.offset = offset
        fields = {"offset_seconds": round(offset.total_seconds())}
        if offset:
            self.trouble = f"{_differs(offset)}; times are reckoned by the endpoint's; set the clock"
            log.warning(
                "this VM's clock differs from the endpoint's; times are reckoned by the endpoint's clock",
                extra={"fields": fields},
            )
        else:
            self.trouble = ""
            log.info("this VM's clock agrees with the endpoint's again; times are reckoned by it")


def _differs(offset: timedelta) -> str:
    apart = show_duration(timedelta(seconds=round(abs(offset).total_seconds())))
    side = "behind" if offset > _NONE else "ahead of"
    return f"this VM's clock is {apart} {side} the endpoint's"


def _moved(when: datetime, by: timedelta) -> datetime:
    try:
        return when + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if by > _NONE else datetime.min.replace(tzinfo=UTC)
