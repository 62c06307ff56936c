"""Counters of events, handler calls and approvals. Part of the memory, so totals survive restarts and reboots."""

import msgspec

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.core.model import EventType
from forewarn.wire.azure_names import TYPES

OTHER = "other"
"""Label for all unknown event types, so that an endpoint cannot create metric series."""


class HandlerRunCounts(msgspec.Struct):
    """Ended calls of one handler in one direction."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0


class RunCounters(msgspec.Struct):
    """Totals since the memory was begun."""

    events: dict[str, int] = {}
    """By type, as Azure spells it."""
    runs: dict[str, dict[Direction, HandlerRunCounts]] = {}
    """By handler and direction."""
    approvals: dict[str, int] = {}
    """By result: sent, refused, failed."""

    def count_event(self, type_: EventType | str) -> None:
        word = TYPES[type_] if isinstance(type_, EventType) else OTHER
        self.events[word] = self.events.get(word, 0) + 1

    def count_run(
        self, handler: str, direction: Direction, result: HandlerDone | HandlerFailed, seconds: float
    ) -> None:
        runs = self.runs.setdefault(handler, {}).setdefault(direction, HandlerRunCounts())
        runs.done += isinstance(result, HandlerDone)
        runs.failed += isinstance(result, HandlerFailed)
        runs.seconds += max(seconds, 0.0)

    def count_approval(self, result: str) -> None:
        self.approvals[result] = self.approvals.get(result, 0) + 1
