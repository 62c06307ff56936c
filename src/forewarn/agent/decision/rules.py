"""Which rule of the configuration an event falls under. Pure.

The first that fits counts. An event that no rule fits is told to listeners, and nothing else is done about it.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from forewarn.client.names import find_name
from forewarn.core.model import EventSource, EventType
from forewarn.wire.document import ScheduledEvent


class Concern(StrEnum):
    """Whom an event must concern for a rule to fit."""

    ME = "me"
    OTHERS = "others"
    ANY = "any"


class ApprovalMode(StrEnum):
    """When the agent lets an event begin before its time."""

    WHEN_READY = "when-ready"
    AT_ONCE = "at-once"
    NEVER = "never"


class EventRule(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about events of some kind: a table [[rules]]. What is left out fits everything."""

    name: str
    types: tuple[EventType, ...] = ()
    source: EventSource | None = None
    duration_at_most: timedelta | None = None
    """An event whose duration is not known fits no limit."""
    duration_at_least: timedelta | None = None
    description: str = "*"
    resources: tuple[str, ...] = ("*",)
    concerns: Concern = Concern.ME
    approval: ApprovalMode = ApprovalMode.WHEN_READY
    late: bool = False
    """Whether handlers are run also for an event that has started already."""
    stages: tuple[tuple[str, ...], ...] = ()
    """The handlers by name: stage after stage, those of one stage in parallel."""

    @property
    def handlers(self) -> tuple[str, ...]:
        return tuple(name for stage in self.stages for name in stage)


def concerns(event: ScheduledEvent, vm: str) -> bool:
    """Tell whether the event happens to this VM, which may be known by its host name."""
    return bool(find_name(vm, event.resources))


def choose_rule(rules: Sequence[EventRule], event: ScheduledEvent, vm: str) -> EventRule | None:
    """Return the first rule that fits the event as ``vm`` sees it."""
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
    # Numbers are compared: a service may say any, and not each is a duration.
    return (
        seconds >= 0
        and (rule.duration_at_most is None or seconds <= rule.duration_at_most.total_seconds())
        and (rule.duration_at_least is None or seconds >= rule.duration_at_least.total_seconds())
    )


def _fits_glob(text: str, pattern: str) -> bool:
    return fnmatchcase(text.lower(), pattern.lower())
