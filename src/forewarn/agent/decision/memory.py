"""The agent's memory: the fold of its facts. Only ``evolve`` changes it."""

from datetime import UTC, datetime

import msgspec

from forewarn.agent.decision.facts import (
    AgentFact,
    ApprovalFailed,
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallShared,
    CallWithdrawn,
    CoordinatorConsulted,
    DocumentShown,
    EventForgotten,
    HandlerSkipped,
    HoldPlaced,
    HoldReleased,
    UndoDue,
)
from forewarn.agent.decision.run_counters import RunCounters
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.client.changes import Change, ChangeKind, Ending, changes
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.document import Document, ScheduledEvent


class HandlerCall(msgspec.Struct):
    """The latest call of a handler in one direction."""

    attempt: int
    began_at: datetime
    ended_at: datetime | None = None
    result: HandlerDone | HandlerFailed | None = None
    is_cut_off: bool = False
    """Whether the agent ended before the call did, so that its result is unknown."""
    is_given_up: bool = False
    """Whether it counts as failed because it did not return by its deadline, so that its effect is unknown."""

    @property
    def is_running(self) -> bool:
        return self.result is None and not self.is_cut_off

    @property
    def is_unclear(self) -> bool:
        """Whether the call may have had an effect that the agent does not know."""
        return self.is_cut_off or self.is_given_up

    @property
    def is_done(self) -> bool:
        return isinstance(self.result, HandlerDone)


class HandlerStep(msgspec.Struct):
    """The calls of one handler for one event."""

    do: HandlerCall | None = None
    undo: HandlerCall | None = None
    left_out: str = ""
    """Why it is not called, or not called again."""
    is_undo_due: bool = False
    """Whether ``undo`` waits only for that of another event."""

    @property
    def is_in_force(self) -> bool:
        """Whether ``do`` has succeeded and ``undo`` is not due."""
        return self.do is not None and self.do.is_done and not self.is_being_undone

    @property
    def is_being_undone(self) -> bool:
        """Whether ``undo`` has begun or is due."""
        return self.undo is not None or self.is_undo_due


class KnownEvent(msgspec.Struct):
    """One event, and all that the agent has done about it."""

    event: ScheduledEvent
    first_seen_at: datetime
    boot: str = ""
    steps: dict[str, HandlerStep] = {}
    """By handler, in the order of their first call."""
    holds: dict[str, datetime] = {}
    consulted: CoordinatorConsulted | None = None
    approved_at: datetime | None = None
    not_approved: ApprovalFailed | None = None
    """The latest failed approval of the event as it is now."""
    gone_at: datetime | None = None
    ending: Ending | None = None
    is_doubtful: bool = False
    """Whether facts about it may have been lost: a handler without a step may have been called."""

    @property
    def is_gone(self) -> bool:
        return self.gone_at is not None


class AgentMemory(msgspec.Struct, rename={"counters": "tally"}):
    """Everything the agent knows."""

    document: Document | None = None
    """The latest document; None before the first."""
    events: dict[str, KnownEvent] = {}
    counters: RunCounters = msgspec.field(default_factory=RunCounters)
    is_doubtful: bool = False
    """Whether facts were lost, so that facts may refer to unknown events; until the next document."""

    def evolve(self, fact: AgentFact) -> None:
        """Apply a fact; a fact about an unknown event changes nothing."""
        match fact:
            case DocumentShown():
                for change in changes(self.document, fact.document):
                    if change.kind is ChangeKind.NEW:
                        self.counters.count_event(change.event.type)
                    self._evolve_event(change, fact)
                self.document = fact.document
                self._mark_missing_as_gone(fact)
            case EventForgotten(event):
                self.events.pop(event, None)
            case _ if self.is_doubtful and fact.event not in self.events:
                self.events[fact.event] = _lost(fact.event)
                _evolve_known(self.events[fact.event], fact, self)
            case _ if known := self.events.get(fact.event):
                _evolve_known(known, fact, self)

    def mark_calls_interrupted(self) -> None:
        """Mark the calls under way as interrupted: the process that began them has ended."""
        for known in self.events.values():
            for step in known.steps.values():
                for call in (step.do, step.undo):
                    if call and call.is_running:
                        call.is_cut_off = True

    def mark_doubtful(self, reason: str) -> None:
        """Record that facts were lost here: the results of calls under way are unknown, and ``do`` is not repeated.

        ``undo`` is: undoing twice has no further effect.
        """
        self.is_doubtful = True
        for known in self.events.values():
            known.is_doubtful = True
            known.steps = {name: step for name, step in known.steps.items() if step != HandlerStep()}
            for step in known.steps.values():
                if step.do and step.do.is_running:
                    step.do.result = HandlerFailed(f"the result of the call is unknown: {reason}", final=True)
                    step.do.ended_at = step.do.began_at

    def _mark_missing_as_gone(self, shown: DocumentShown) -> None:
        """Mark events as gone that are missing in the document, after facts were lost."""
        if not self.is_doubtful:
            return
        there = {event.id for event in shown.document.events}
        for event, known in self.events.items():
            if not known.is_gone and event not in there:
                known.gone_at, known.ending = shown.at, Ending.UNKNOWN
        self.is_doubtful = False

    def _evolve_event(self, change: Change, shown: DocumentShown) -> None:
        event = change.event
        known = self.events.get(event.id)
        if change.kind is ChangeKind.GONE:
            if known:
                known.gone_at = shown.at
                known.ending = _ending(change, known, shown.boot)
        elif known:
            if known.is_gone:
                _revive(known)
            elif _has_more_time(known.event, event):
                _reconsider(known)
            known.event = event
            known.not_approved = None
        else:
            self.events[event.id] = KnownEvent(event, shown.at, shown.boot, is_doubtful=self.is_doubtful)


def _lost(id: str) -> KnownEvent:
    """Return a placeholder for an event of which only the id is known."""
    event = ScheduledEvent(id=id, type="unknown", status=EventStatus.SCHEDULED, resources=())
    return KnownEvent(event, datetime.fromtimestamp(0, UTC), is_doubtful=True)


def _ending(change: Change, known: KnownEvent, boot: str) -> Ending | None:
    """Return how an event ended that was not seen to start: the VM knows more about itself than the document says."""
    # Without a boot id nothing follows. In a container it is the boot id of the machine below, which no container
    # outlives.
    is_other_boot = bool(known.boot and boot) and known.boot != boot
    type_ = known.event.type
    has_booted = is_other_boot and isinstance(type_, EventType) and EVENT_TYPES[type_].boots_vm
    if change.ending is Ending.UNKNOWN and (has_booted or known.approved_at):
        return Ending.COMPLETED
    return change.ending


def _revive(known: KnownEvent) -> None:
    """Resume an event that was gone and is shown again; handlers that were undone meanwhile are called again."""
    known.gone_at = None
    known.ending = None
    # The VM must prepare again before it approves again.
    known.approved_at = None
    known.consulted = None
    known.steps = {
        handler: step for handler, step in known.steps.items() if step.undo is None or step.undo.result is None
    }
    _reconsider(known)


def _has_more_time(before: ScheduledEvent, after: ScheduledEvent) -> bool:
    """Return whether an event was postponed, or is scheduled again after it was shown as started."""
    return after.not_before is not None and (before.not_before is None or after.not_before > before.not_before)


def _reconsider(known: KnownEvent) -> None:
    """Reconsider all handlers that were skipped for lack of time."""
    known.steps = {handler: step for handler, step in known.steps.items() if step.do or step.undo}
    for step in known.steps.values():
        step.left_out = ""


def _evolve_known(known: KnownEvent, fact: AgentFact, memory: AgentMemory) -> None:
    match fact:
        case CallBegun(handler=handler, direction=direction):
            _set(known, handler, direction, HandlerCall(fact.attempt, fact.at))
        case CallEnded(handler=handler, direction=direction):
            call = _call(known, handler, direction)
            # Without a call, nothing was called, or its record was lost; one that was given up is counted already.
            if call is not None and not call.is_given_up:
                memory.counters.count_run(handler, direction, fact.result, (fact.at - call.began_at).total_seconds())
            call = call or HandlerCall(1, fact.at)
            call.result, call.ended_at, call.is_cut_off = fact.result, fact.at, False
            call.is_given_up = fact.is_given_up
            _set(known, handler, direction, call)
            if direction is Direction.UNDO and not known.is_gone:
                del known.steps[handler]  # the event was shown again during undo
        case CallWithdrawn(handler=handler, direction=direction) if (
            call := _call(known, handler, direction)
        ) and call.is_given_up:
            call.is_given_up = False  # it had no effect; as a failed attempt it still counts
        case CallWithdrawn(handler=handler, direction=direction):
            _set(known, handler, direction, None)
            known.steps[handler].is_undo_due = False
        case UndoDue(handler=handler):
            known.steps.setdefault(handler, HandlerStep()).is_undo_due = True
        case HandlerSkipped(handler=handler, reason=reason):
            known.steps.setdefault(handler, HandlerStep()).left_out = reason
        case CallShared(handler=handler, of=of):
            other = memory.events.get(of)
            done = other.steps[handler].do if other and handler in other.steps else None
            known.steps[handler] = HandlerStep(do=msgspec.structs.replace(done) if done else None)
        case HoldPlaced(holder=holder, until=until):
            known.holds[holder] = until
        case HoldReleased(holder=holder):
            known.holds.pop(holder, None)
        case CoordinatorConsulted():
            known.consulted = fact
        case ApprovalGiven(at=at):
            known.approved_at, known.not_approved = at, None
            memory.counters.count_approval("sent")
        case ApprovalFailed(refused=refused):
            memory.counters.count_approval("refused" if refused else "failed")
            known.not_approved = fact


def _call(known: KnownEvent, handler: str, direction: Direction) -> HandlerCall | None:
    step = known.steps.get(handler, HandlerStep())
    return step.do if direction is Direction.DO else step.undo


def _set(known: KnownEvent, handler: str, direction: Direction, call: HandlerCall | None) -> None:
    step = known.steps.setdefault(handler, HandlerStep())
    if direction is Direction.DO:
        step.do = call
    else:
        step.undo = call
