"""Matches events to the rules of the configuration, and limits how many events are followed. Pure.

The first rule that matches counts. An event without a rule is only sent to listeners.
"""

from collections.abc import Container, Sequence
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from forewarn.client.names import find_name
from forewarn.core.model import EventSource, EventType
from forewarn.wire.document import Document, ScheduledEvent


class Concern(StrEnum):
    """Which VMs an event must affect for a rule to match."""

    ME = "me"
    OTHERS = "others"
    ANY = "any"


class ApprovalMode(StrEnum):
    """When the agent approves an event."""

    WHEN_READY = "when-ready"
    AT_ONCE = "at-once"
    NEVER = "never"


class EventRule(msgspec.Struct, frozen=True, kw_only=True):
    """A table [[rules]]: the events it matches and what to do about them. A missing condition matches all events."""

    name: str
    types: tuple[EventType, ...] = ()
    source: EventSource | None = None
    duration_at_most: timedelta | None = None
    """An event of unknown duration matches no limit."""
    duration_at_least: timedelta | None = None
    description: str = "*"
    resources: tuple[str, ...] = ("*",)
    concerns: Concern = Concern.ME
    approval: ApprovalMode = ApprovalMode.WHEN_READY
    late: bool = False
    """Whether handlers are also called for an event that has already started."""
    stages: tuple[tuple[str, ...], ...] = ()
    """The handlers by name: stage after stage, those of one stage in parallel."""

    @property
    def handlers(self) -> tuple[str, ...]:
        return tuple(name for stage in self.stages for name in stage)


def concerns(event: ScheduledEvent, vm: str) -> bool:
    """Return whether the event affects this VM, which may be known by its host name."""
    return bool(find_name(vm, event.resources))


def choose_rule(rules: Sequence[EventRule], event: ScheduledEvent, vm: str) -> EventRule | None:
    """Return the first rule that matches the event on VM ``vm``."""
    return next((rule for rule in rules if _fits(rule, event, vm)), None)


def _fits(rule: EventRule, event: ScheduledEvent, vm: str) -> bool:
    return (
        (not rule.types or event.type in rule.types)
        and (rule.source is None or event.source == rule.source)
        and _fits_duration(rule, event.duration)
        and _fits_glob(event.description, rule.description)
        and any(_fits_glob(name, pattern) for name in event.resources for pattern in rule.resources)
        and (rule.concerns is Concern.ANY or (rule.concerns is Concern.ME) == concerns(event, vm))
    )


def _fits_duration(rule: EventRule, seconds: int) -> bool:
    if rule.duration_at_most is None and rule.duration_at_least is None:
        return True
    # Compare numbers: a service may send any number, and not every number fits a timedelta.
    return (
        seconds >= 0
        and (rule.duration_at_most is None or seconds <= rule.duration_at_most.total_seconds())
        and (rule.duration_at_least is None or seconds >= rule.duration_at_least.total_seconds())
    )


def _fits_glob(text: str, pattern: str) -> bool:
    return fnmatchcase(text.lower(), pattern.lower())


MOST_EVENTS = 2_000
"""Events of one document that the agent follows; Azure shows a handful. The rest is ignored."""


def limit_events(document: Document, vm: str, known: Container[str], most: int = MOST_EVENTS) -> Document:
    """Return the document with at most ``most`` events: those of this VM first, then those already known."""
    if len(document.events) <= most:
        return document

    def rank(event: ScheduledEvent) -> tuple[bool, bool]:
        return not concerns(event, vm), event.id not in known

    ranked = sorted(range(len(document.events)), key=lambda number: rank(document.events[number]))
    kept = sorted(ranked[:most])
    return msgspec.structs.replace(document, events=tuple(document.events[number] for number in kept))
