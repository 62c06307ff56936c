"""Time of the rules, and steps of the wall clock.

Wall time is compared with the last fact and with the time that has really passed. A clock a little behind the last
fact counts as that fact's time. A larger difference is a *step*: it is recorded, and the present clock counts. For a
day after a step nothing is compacted and no group is switched off, and no event starts by its deadline before its
notice has really passed.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import assert_never

from forewarn.clocks import Clock
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Attempted,
    BroughtForward,
    Canceled,
    ClockStepped,
    Completed,
    Entry,
    Failed,
    Fetched,
    NonEventFact,
    Postponed,
    Started,
    StartedAtOnce,
    Waiting,
)
from forewarn.core.fleet import Fleet
from forewarn.core.fleet_records import EPOCH
from forewarn.core.lifecycle import LONGEST_ABSENCE, after_step
from forewarn.core.model import Event
from forewarn.core.notice import SECOND

log = logging.getLogger(__name__)

TOLERANCE = timedelta(seconds=60)
"""A difference up to this is not a step; not scaled by ``hurry``."""
CAUTION = timedelta(hours=24)
"""How long nothing is compacted after a step; not scaled by ``hurry`` either."""
_PROMPT = 1.0
"""Seconds within which what was decided is usually recorded."""
_EXACT = 0.001
"""Seconds; the resolution of a time in floating point."""


class Timekeeper:
    """Reads the clock for the node. ``seconds`` pass whatever is done to the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen_at = clock.now()
        self._seen_seconds = clock.seconds()
        self._expected: datetime | None = None
        self._cautious_until = 0.0
        self._offset = 0.0
        """Seconds minus wall time when this process began; what was announced before is measured by it."""
        self._offsets: dict[str, float] = {}
        """The same for events that were announced since, or before a step: seconds minus wall time then."""
        self._before: dict[str, float] = {}
        """The offsets that what was decided, and is not durable yet, has changed."""
        self.stepped_seconds: float | None = None
        """When the last step was seen, in ``seconds``."""

    @property
    def unrecorded(self) -> datetime | None:
        """The time that was expected at a step that is not recorded yet."""
        return self._expected

    @property
    def is_cautious(self) -> bool:
        """Whether the clock stepped less than a day ago, so that no decision about old entries goes by it."""
        return self._clock.seconds() < self._cautious_until

    def start(self, fleet: Fleet) -> None:
        """Begin with what is recorded; note a clock that is far from it."""
        now, seconds = self._clock.now(), self._clock.seconds()
        # A clock far behind the last fact is a step, after which the present clock counts.
        is_behind = fleet.last_at - now > TOLERANCE
        self._offset = seconds - (now if is_behind else max(now, fleet.last_at)).timestamp()
        step = ClockStepped(now, fleet.last_at) if is_behind else None
        self._offsets = dict(_shifted(fleet, step, self._offset))
        if fleet.last_at != EPOCH and now - fleet.last_at > LONGEST_ABSENCE:
            # The service was down for so long, or the clock is wrong: notices begin anew in both cases.
            self._offsets = {id_: seconds - event.announced_at.timestamp() for id_, event in fleet.events.items()}
            self._step(fleet.last_at, now)
        elif fleet.clock_step and timedelta() <= (since := max(now, fleet.last_at) - fleet.clock_step.at) < CAUTION:
            self._cautious_until = seconds + (CAUTION - since).total_seconds()
        self.read(fleet.last_at)

    def reload(self, fleet: Fleet) -> None:
        """Forget what was decided and is not recorded: events that the journal does not hold, starts and ends.

        Of two times at which a notice may have begun, the later one counts.
        """
        for id_, offset in self._before.items():
            self._offsets[id_] = max(offset, self._offsets.get(id_, offset))
        self._before.clear()
        self._offsets = {id_: offset for id_, offset in self._offsets.items() if id_ in fleet.events}

    def read(self, last_at: datetime) -> datetime:
        """Return the time that the next facts have; note a step."""
        now, seconds = self._clock.now(), self._clock.seconds()
        expected = self._seen_at + timedelta(seconds=seconds - self._seen_seconds)
        self._seen_at, self._seen_seconds = now, seconds
        if abs(now - expected) > TOLERANCE:
            self._step(expected, now)
        elif self._expected is None and last_at - now > TOLERANCE:
            self._step(last_at, now)
        return max(now, last_at) if self._expected is None else now

    def follow(self, facts: Iterable[AnyFact]) -> None:
        """Take in what was decided: events that are announced, and events that have started or ended."""
        for fact in facts:
            if type(fact) is Approved or type(fact) is Attempted:
                continue  # as most facts are; like some below, they change nothing about when a notice began
            match fact:
                case Announced(event=event):
                    self._offsets[event.id] = self._seen_seconds - event.announced_at.timestamp()
                case Started(event=id_) | Canceled(event=id_) | Completed(event=id_) | Failed(event=id_):
                    self._keep(id_)
                    self._offsets.pop(id_, None)
                case Postponed(event=id_, at=at) if fact.not_before - timedelta(seconds=fact.seconds) - at < SECOND:
                    self._keep(id_)
                    self._offsets[id_] = self._seen_seconds - at.timestamp()  # it counts from now, by this clock
                case StartedAtOnce() | Waiting() | Postponed() | BroughtForward():
                    pass
                case _ if isinstance(fact, (Fetched, ClockStepped, NonEventFact)):
                    pass
                case _:
                    assert_never(fact)

    def note_recorded(self, entries: Sequence[Entry]) -> None:
        """Take in what is durable: a step that is recorded need not be recorded again.

        The notice of an event that was recorded late counts from then: before, no VM could see it.
        """
        self._before.clear()
        if (late := self._clock.seconds() - self._seen_seconds) > _PROMPT:
            for fact in chain.from_iterable(entry.facts for entry in entries):
                if isinstance(fact, Announced) and fact.event.id in self._offsets:
                    self._offsets[fact.event.id] += late
        if any(isinstance(fact, ClockStepped) for entry in entries for fact in entry.facts):
            self._expected = None

    def _keep(self, id_: str) -> None:
        if id_ in self._offsets:
            self._before.setdefault(id_, self._offsets[id_])

    def has_passed(self, event: Event) -> bool:
        """Return whether the notice of an event had really passed when the clock was last read."""
        return self._left(event, self._seen_seconds) <= _EXACT

    def due_at(self, event: Event) -> datetime:
        """Return when the event is due, by the wall clock as it goes now."""
        left = self._left(event, self._clock.seconds())
        if left <= _EXACT:
            return event.not_before
        return max(event.not_before, self._clock.now() + timedelta(seconds=left))

    def _left(self, event: Event, seconds: float) -> float:
        return self._offsets.get(event.id, self._offset) + event.not_before.timestamp() - seconds

    def _step(self, expected: datetime, now: datetime) -> None:
        self._expected = self._expected or expected
        self.stepped_seconds = self._clock.seconds()
        self._cautious_until = self.stepped_seconds + CAUTION.total_seconds()
        log.warning(
            "the clock stepped: check that the time is right",
            extra={"fields": {"expected": expected.isoformat(), "now": now.isoformat()}},
        )


def _shifted(fleet: Fleet, step: ClockStepped | None, offset: float) -> Iterator[tuple[str, float]]:
    """Yield the offsets of events that were announced before the clock was set ahead, at a start."""
    for id_, event in fleet.events.items():
        after = after_step(event, step) if step else event
        if after.clock_shift > 0:
            yield id_, offset + after.clock_shift


def warning_of(step: ClockStepped) -> str:
    """Return the message to operators about a step."""
    return (
        f"the clock showed {step.at:%Y-%m-%dT%H:%M:%SZ} when {step.expected:%Y-%m-%dT%H:%M:%SZ} was expected: "
        "check that the time is right and run chrony or systemd-timesyncd; for a day nothing is compacted"
    )
