"""What a decision of the agent depends on, and what it results in: settings, actions, reaction."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from forewarn.agent.decision import approval_turn
from forewarn.agent.decision.facts import AgentFact
from forewarn.agent.decision.plan import HandlerTerms
from forewarn.agent.decision.rules import EventRule, choose_rule
from forewarn.agent.handler import Direction
from forewarn.wire.document import ScheduledEvent

_MOST_CHOSEN = 20_000


class HandlerTraits(msgspec.Struct, frozen=True):
    """The attributes that a handler declares."""

    repeats: bool
    shared: bool


class DecisionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that decisions depend on."""

    vm: str
    rules: tuple[EventRule, ...]
    terms: Mapping[str, HandlerTerms]
    traits: Mapping[str, HandlerTraits]
    approver: approval_turn.Approver = approval_turn.Approver.LEADER
    takeover: timedelta = timedelta(minutes=5)
    chosen: dict[str, tuple[ScheduledEvent, EventRule | None]] = {}
    """Cache of ``rule_of``, by event."""

    def rule_of(self, event: ScheduledEvent) -> EventRule | None:
        found = self.chosen.get(event.id)
        if found is None or found[0] is not event:
            if len(self.chosen) > _MOST_CHOSEN:
                self.chosen.clear()
            found = self.chosen[event.id] = (event, choose_rule(self.rules, event, self.vm))
        return found[1]

    def named(self, vm: str) -> "DecisionSettings":
        """Return the same settings for a VM of that name."""
        return msgspec.structs.replace(self, vm=vm, chosen={})


class CallHandler(msgspec.Struct, frozen=True, kw_only=True):
    """Call a handler."""

    event: ScheduledEvent
    handler: str
    direction: Direction
    attempt: int
    deadline: datetime
    kept: dict[str, str] = {}


class AskHandler(msgspec.Struct, frozen=True):
    """Ask a handler for the outcome of an interrupted call."""

    run: CallHandler


class StopHandler(msgspec.Struct, frozen=True):
    """Stop a call that is under way."""

    event: str
    handler: str
    at: datetime | None = None
    """When, if it has not returned by then; at once if None."""


AgentAction = CallHandler | AskHandler | StopHandler | approval_turn.SendApproval | approval_turn.ConsultCoordinator


class Reaction(msgspec.Struct):
    """The facts to store, the actions to take after that, and when to decide again if nothing happens before."""

    facts: list[AgentFact] = []
    acts: list[AgentAction] = []
    wake_at: datetime | None = None

    def wake(self, at: datetime) -> None:
        self.wake_at = min(self.wake_at or at, at)
