"""Collects the life of every event, from announcement to end, from the facts in the journal."""

from collections.abc import Callable
from datetime import datetime
from typing import assert_never

import msgspec

from forewarn.core import lifecycle
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    ClockStepped,
    EventChanged,
    EventCreated,
    Fetched,
    NonEventFact,
    Started,
    StartedAtOnce,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus
from forewarn.node.feed import Commit


class EventLife(msgspec.Struct):
    """One event's life so far."""

    event: Event
    """The event as it is, or as it ended."""
    fetched: dict[str, datetime] = {}
    """By VM: when it first fetched the event."""
    approved: dict[str, datetime] = {}
    """By approver: when it approved; also approvals that do not count."""
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def id(self) -> str:
        return self.event.id

    @property
    def status(self) -> EventStatus:
        return self.event.status

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None


class EventLog:
    """Follows the journal and stores every event, also those that are over."""

    def __init__(self) -> None:
        self.lives: dict[str, EventLife] = {}
        self.changed: Callable[[], None] = lambda: None
        """Called after every commit."""

    def load(self, fleet: Fleet) -> None:
        """Do nothing: the journal is in memory and begins empty."""

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            for fact in entry.facts:
                self._note(fact)
        self.changed()

    def of(self, facts: tuple[AnyFact, ...]) -> list[EventLife]:
        """Return the events that these facts announced."""
        return [self.lives[fact.event.id] for fact in facts if isinstance(fact, EventCreated)]

    def _note(self, fact: AnyFact) -> None:
        match fact:
            case Announced(event=event) | StartedAtOnce(event=event):
                self.lives[event.id] = EventLife(lifecycle.begin(fact), started_at=event.started_at)
            case Fetched(fetches=fetches):
                for fetch in fetches:
                    if life := self.lives.get(fetch.event):
                        life.fetched.setdefault(fetch.vm, fetch.at)
            case _ if isinstance(fact, EventChanged):
                self._change(self.lives[fact.event], fact)
            case _ if isinstance(fact, (ClockStepped, NonEventFact)):
                pass
            case _:
                assert_never(fact)

    def _change(self, life: EventLife, fact: EventChanged) -> None:
        life.event = lifecycle.after(life.event, fact)
        if life.status in lifecycle.ENDS:
            life.ended_at = fact.at
        if isinstance(fact, Approved):
            life.approved.setdefault(fact.by.name, fact.at)
        elif isinstance(fact, Started):
            life.started_at = fact.at
