"""Counts what becomes of events, from the facts as they are committed. Totals begin with the process."""

from collections import Counter
from datetime import datetime
from typing import assert_never

import msgspec

from forewarn.core import facts, lifecycle
from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, EventType, StartCause
from forewarn.node.feed import Commit
from forewarn.node.histogram import Histogram

_MINUTE = 60.0
_CAUSES = {StartCause.APPROVED: "approved", StartCause.DUE: "not_before"}


class _UnfinishedEvent(msgspec.Struct):
    """What is to be known of an unfinished event to count what becomes of it."""

    type: EventType
    status: EventStatus
    announced_at: datetime
    is_fetched: bool = False
    is_approved: bool = False


class EventCounters:
    """Listens to the feed and counts."""

    def __init__(self) -> None:
        self.unfinished: Counter[tuple[EventType, EventStatus]] = Counter()
        """How many events there are now."""
        self.announced: Counter[EventType] = Counter()
        self.started: Counter[str] = Counter()
        """By what let them start: ``approved``, ``not_before``, ``at_once``, or ``other``."""
        self.ended: Counter[tuple[EventType, EventStatus]] = Counter()
        self.approvals: Counter[bool] = Counter()
        """By whether they count."""
        self.postponements = 0
        self.until_approved = Histogram(1.0, 5.0, 15.0, 30.0, *(_MINUTE * each for each in (1, 2, 5, 10, 15, 30, 60)))
        """From the announcement to the first approval that counts."""
        self.until_fetched = Histogram(1.0, 2.0, 5.0, 10.0, 30.0, *(_MINUTE * each for each in (1, 2, 5, 15, 60)))
        """From the announcement to the first time that any VM was shown the event."""
        self._lives: dict[str, _UnfinishedEvent] = {}

    def load(self, fleet: Fleet) -> None:
        self._lives = {event.id: _unfinished(event) for event in fleet.events.values()}
        self.unfinished = Counter((life.type, life.status) for life in self._lives.values())

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            for fact in entry.facts:
                self._count(fact)

    def _count(self, fact: AnyFact) -> None:
        if type(fact) is facts.Attempted:
            return
        match fact:
            case facts.Approved() | facts.Started() | facts.Completed() | facts.Failed() | facts.Canceled():
                if life := self._lives.get(fact.event):
                    self._follow(life, fact)
            case facts.Waiting() | facts.BroughtForward() | facts.ClockStepped():
                pass
            case facts.Announced(event=event) | facts.StartedAtOnce(event=event):
                self._lives[event.id] = _unfinished(event)
                self.announced[event.type] += 1
                self.unfinished[event.type, event.status] += 1
                if isinstance(fact, facts.StartedAtOnce):
                    self.started["at_once"] += 1
            case facts.Fetched(fetches=fetches):
                for fetch in fetches:
                    life = self._lives.get(fetch.event)
                    if life and not life.is_fetched:
                        life.is_fetched = True
                        self.until_fetched.add((fetch.at - life.announced_at).total_seconds())
            case facts.Postponed():
                self.postponements += 1
            case _ if isinstance(fact, facts.NonEventFact):
                pass
            case _:
                assert_never(fact)

    def _follow(self, life: _UnfinishedEvent, fact: facts.Approved | facts.Started | facts.EventEnded) -> None:
        match fact:
            case facts.Approved(at=at, counts=counts):
                self.approvals[counts] += 1
                if counts and not life.is_approved:
                    life.is_approved = True
                    self.until_approved.add((at - life.announced_at).total_seconds())
            case facts.Started(cause=cause):
                self._move(life, fact)
                self.started[_CAUSES.get(cause, "other")] += 1
            case facts.Completed() | facts.Failed() | facts.Canceled():
                self._move(life, fact)
                del self._lives[fact.event]

    def _move(self, life: _UnfinishedEvent, fact: facts.Started | facts.EventEnded) -> None:
        self.unfinished[life.type, life.status] -= 1
        life.status = lifecycle.status_after(life.status, fact)
        (self.ended if life.status in lifecycle.ENDS else self.unfinished)[life.type, life.status] += 1


def _unfinished(event: Event) -> _UnfinishedEvent:
    return _UnfinishedEvent(
        event.type,
        event.status,
        event.announced_at,
        is_fetched=bool(event.fetched_by),
        is_approved=bool(event.approvals or event.approved_by),
    )
