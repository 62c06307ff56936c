"""What the agent counts. It is part of the memory, so that totals survive a restart of the agent and of the VM."""

import msgspec

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.core.model import EventType
from forewarn.wire.azure_names import TYPES

OTHER = "other"
"""Stands for every type that Azure had not named when this was written, so that no endpoint can make up series."""


class HandlerRunCounts(msgspec.Struct):
    """The calls of one handler in one direction that ended."""

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

    def saw(self, type_: EventType | str) -> None:
        """Count an event that is new."""
        word = TYPES[type_] if isinstance(type_, EventType) else OTHER
        self.events[word] = self.events.get(word, 0) + 1

    def ran(self, handler: str, direction: Direction, result: HandlerDone | HandlerFailed, seconds: float) -> None:
        """Count a call of a handler that ended."""
        runs = self.runs.setdefault(handler, {}).setdefault(direction, HandlerRunCounts())
        runs.done += isinstance(result, HandlerDone)
        runs.failed += isinstance(result, HandlerFailed)
        runs.seconds += max(seconds, 0.0)

    def approved(self, result: str) -> None:
        """Count an approval, by what came of it."""
        self.approvals[result] = self.approvals.get(result, 0) + 1
