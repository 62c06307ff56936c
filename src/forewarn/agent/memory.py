"""What the agent knows: the fold of its facts, and nothing else. ``evolve`` is the only thing that changes it."""

from datetime import UTC, datetime

import msgspec

from forewarn.agent.facts import (
    Approved,
    Begun,
    Consulted,
    Ended,
    Fact,
    Forgotten,
    Held,
    Joined,
    LeftOut,
    NotApproved,
    Released,
    Shown,
    Withdrawn,
)
from forewarn.agent.handler import Direction, Done, Failed
from forewarn.agent.tally import Tally
from forewarn.client.changes import Change, ChangeKind, Ending, changes
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.document import Document, ScheduledEvent


class Call(msgspec.Struct):
    """The latest call of a handler in one direction."""

    attempt: int
    began_at: datetime
    ended_at: datetime | None = None
    result: Done | Failed | None = None
    is_cut_off: bool = False
    """Whether the agent ended before the call did, so that nobody knows what came of it."""

    @property
    def is_running(self) -> bool:
        return self.result is None and not self.is_cut_off

    @property
    def is_done(self) -> bool:
        return isinstance(self.result, Done)


class Step(msgspec.Struct):
    """What became of one handler for one event."""

    do: Call | None = None
    undo: Call | None = None
    left_out: str = ""
    """Why it is not run, or not once more."""

    @property
    def is_in_force(self) -> bool:
        """Tell whether the handler has done its part and has not begun to put it back."""
        return self.do is not None and self.do.is_done and self.undo is None


class Known(msgspec.Struct):
    """One event, and all that was done about it."""

    event: ScheduledEvent
    first_seen_at: datetime
    boot: str = ""
    steps: dict[str, Step] = {}
    """By handler, in the order in which they were first heard of."""
    holds: dict[str, datetime] = {}
    consulted: Consulted | None = None
    approved_at: datetime | None = None
    not_approved: NotApproved | None = None
    """The latest approval that was not taken, of the event as it is now."""
    gone_at: datetime | None = None
    ending: Ending | None = None

    @property
    def is_gone(self) -> bool:
        return self.gone_at is not None


class Memory(msgspec.Struct):
    """Everything the agent knows."""

    document: Document | None = None
    """What the endpoint showed last; none before it was ever heard."""
    events: dict[str, Known] = {}
    tally: Tally = msgspec.field(default_factory=Tally)
    is_doubtful: bool = False
    """Whether facts were lost, so that an event may be unknown of which others tell; until the next document."""

    def evolve(self, fact: Fact) -> None:
        """Take in what has happened; a fact about an event that is not known changes nothing."""
        match fact:
            case Shown():
                for change in changes(self.document, fact.document):
                    if change.kind is ChangeKind.NEW:
                        self.tally.saw(change.event.type)
                    self._evolve_event(change, fact)
                self.document = fact.document
                self._miss(fact)
            case Forgotten(event):
                self.events.pop(event, None)
            case _ if self.is_doubtful and fact.event not in self.events:
                self.events[fact.event] = _lost(fact.event)
                _evolve_known(self.events[fact.event], fact, self)
            case _ if known := self.events.get(fact.event):
                _evolve_known(known, fact, self)

    def cut_off(self) -> None:
        """Note that the process that began the calls under way is no more."""
        for known in self.events.values():
            for step in known.steps.values():
                for call in (step.do, step.undo):
                    if call and call.is_running:
                        call.is_cut_off = True

    def doubt(self, reason: str) -> None:
        """Hear that facts were lost here: what came of the calls under way is not known, and none is repeated.

        ``undo`` may be: undoing what is undone already changes nothing.
        """
        self.is_doubtful = True
        for known in self.events.values():
            for step in known.steps.values():
                if step.do and step.do.is_running:
                    step.do.result = Failed(f"nobody knows what came of it: {reason}", final=True)
                    step.do.ended_at = step.do.began_at

    def _miss(self, shown: Shown) -> None:
        """Note that events are gone whose last sight was lost."""
        if not self.is_doubtful:
            return
        there = {event.id for event in shown.document.events}
        for event, known in self.events.items():
            if not known.is_gone and event not in there:
                known.gone_at, known.ending = shown.at, Ending.UNKNOWN
        self.is_doubtful = False

    def _evolve_event(self, change: Change, shown: Shown) -> None:
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
            self.events[event.id] = Known(event, shown.at, shown.boot)


def _lost(id: str) -> Known:
    """Return an event of which only the id is known."""
    event = ScheduledEvent(id=id, type="unknown", status=EventStatus.SCHEDULED, resources=())
    return Known(event, datetime.fromtimestamp(0, UTC))


def _ending(change: Change, known: Known, boot: str) -> Ending | None:
    """Tell how an event ended that nobody saw start: the VM knows more of itself than the document says."""
    # Where the system does not tell, nothing follows. In a container it is the boot of the machine below, which no
    # container outlives.
    is_other_boot = bool(known.boot and boot) and known.boot != boot
    has_booted = is_other_boot and known.event.type in (EventType.REBOOT, EventType.REDEPLOY)
    if change.ending is Ending.UNKNOWN and (has_booted or known.approved_at):
        return Ending.COMPLETED
    return change.ending


def _revive(known: Known) -> None:
    """Go on with an event that was gone and is shown again; what was put back meanwhile is to be done anew."""
    known.gone_at = None
    known.ending = None
    # Who readied the VM once must do so again before it may say so.
    known.approved_at = None
    known.consulted = None
    known.steps = {
        handler: step for handler, step in known.steps.items() if step.undo is None or step.undo.result is None
    }
    _reconsider(known)


def _has_more_time(before: ScheduledEvent, after: ScheduledEvent) -> bool:
    """Tell whether an event was postponed, or is to come again after it was said to have started."""
    return after.not_before is not None and (before.not_before is None or after.not_before > before.not_before)


def _reconsider(known: Known) -> None:
    """Leave nothing out any more that was left out for want of time."""
    known.steps = {handler: step for handler, step in known.steps.items() if step.do or step.undo}
    for step in known.steps.values():
        step.left_out = ""


def _evolve_known(known: Known, fact: Fact, memory: Memory) -> None:
    match fact:
        case Begun(handler=handler, direction=direction):
            _set(known, handler, direction, Call(fact.attempt, fact.at))
        case Ended(handler=handler, direction=direction):
            call = _call(known, handler, direction)
            if call is not None:  # else nothing was called: another event still needs what the handler did
                memory.tally.ran(handler, direction, fact.result, (fact.at - call.began_at).total_seconds())
            call = call or Call(1, fact.at)
            call.result, call.ended_at, call.is_cut_off = fact.result, fact.at, False
            _set(known, handler, direction, call)
            if direction is Direction.UNDO and not known.is_gone:
                del known.steps[handler]  # the event came back while this was put back
        case Withdrawn(handler=handler, direction=direction):
            _set(known, handler, direction, None)
        case LeftOut(handler=handler, reason=reason):
            known.steps.setdefault(handler, Step()).left_out = reason
        case Joined(handler=handler, of=of):
            other = memory.events.get(of)
            done = other.steps[handler].do if other and handler in other.steps else None
            known.steps[handler] = Step(do=msgspec.structs.replace(done) if done else None)
        case Held(holder=holder, until=until):
            known.holds[holder] = until
        case Released(holder=holder):
            known.holds.pop(holder, None)
        case Consulted():
            known.consulted = fact
        case Approved(at=at):
            known.approved_at, known.not_approved = at, None
            memory.tally.approved("sent")
        case NotApproved(refused=refused):
            memory.tally.approved("refused" if refused else "failed")
            known.not_approved = fact


def _call(known: Known, handler: str, direction: Direction) -> Call | None:
    step = known.steps.get(handler, Step())
    return step.do if direction is Direction.DO else step.undo


def _set(known: Known, handler: str, direction: Direction, call: Call | None) -> None:
    step = known.steps.setdefault(handler, Step())
    if direction is Direction.DO:
        step.do = call
    else:
        step.undo = call
