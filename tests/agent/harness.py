"""A world for the agent's decision: an endpoint, handlers and a clock that do exactly what a test says."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from forewarn.agent.decision.actions import (
    AskHandler,
    CallHandler,
    DecisionSettings,
    HandlerTraits,
    Reaction,
    StopHandler,
)
from forewarn.agent.decision.approval_turn import Approver, ConsultCoordinator, SendApproval
from forewarn.agent.decision.decider import Decider
from forewarn.agent.decision.facts import (
    AgentFact,
    ApprovalFailed,
    ApprovalGiven,
    CallEnded,
    CallShared,
    CallWithdrawn,
    CoordinatorConsulted,
    HoldPlaced,
    HoldReleased,
)
from forewarn.agent.decision.memory import AgentMemory
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.reaction import react
from forewarn.agent.decision.rules import EventRule
from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome
from forewarn.wire.document import Document, ScheduledEvent

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
ME = "web-0"
DONE = HandlerDone()


def event(id: str = "e1", **fields: object) -> ScheduledEvent:
    """Return a reboot of this VM in a quarter of an hour, but for what is said otherwise."""
    usual: dict[str, object] = {
        "type": "Reboot",
        "status": "Scheduled",
        "resources": (ME,),
        "not_before": START + timedelta(minutes=15),
        "source": "Platform",
    }
    return msgspec.convert({"id": id, **usual, **fields}, ScheduledEvent)


def started(of: ScheduledEvent) -> ScheduledEvent:
    return msgspec.structs.replace(of, status="Started", not_before=None)


def decision_settings(
    *stages: str | tuple[str, ...],
    terms: Mapping[str, HandlerTerms] | None = None,
    traits: Mapping[str, HandlerTraits] | None = None,
    approver: Approver = Approver.LEADER,
    rule: EventRule | None = None,
) -> DecisionSettings:
    """Return what an agent with one rule for all its events is to do."""
    pipeline = tuple((stage,) if isinstance(stage, str) else stage for stage in stages)
    names = [name for stage in pipeline for name in stage]
    rule = msgspec.structs.replace(rule or EventRule(name="all"), stages=pipeline)
    return DecisionSettings(
        vm=ME,
        rules=(rule,),
        terms={name: HandlerTerms(on_failure=OnFailure.GO_ON) for name in names} | dict(terms or {}),
        traits={name: HandlerTraits(repeats=True, shared=False) for name in names} | dict(traits or {}),
        approver=approver,
    )


class DecisionHarness:
    """Carries out what the decision says, and tells it in words: ``do drain``, ``approve e1``."""

    def __init__(self, decision_settings: DecisionSettings, *, is_checked: bool = True) -> None:
        self.decision_settings = decision_settings
        self.decider = Decider()
        self._is_checked = is_checked
        """Whether each reaction is compared with that of a pass over all events."""
        self._last_acts: list[object] = []
        self.now = START
        self.memory = AgentMemory()
        self.document: Document | None = None
        self.running: dict[tuple[str, str], CallHandler] = {}
        self.asked: dict[tuple[str, str], CallHandler] = {}
        self.facts: list[AgentFact] = []
        self.stops: dict[tuple[str, str], datetime | None] = {}
        """By when calls under way were last told to have ended; None is at once."""
        self.wake_at: datetime | None = None
        self.boot = "first"
        self._said: list[str] = []
        self._approving: set[str] = set()

    def said(self) -> list[str]:
        """Return what was begun since this was last asked."""
        said, self._said = self._said, []
        return said

    def show(self, *events: ScheduledEvent) -> None:
        """Let the endpoint show these events."""
        incarnation = self.document.incarnation + 1 if self.document else 1
        self.document = Document(incarnation, events)
        self._approving &= {each.id for each in events}
        self.settle()

    def pass_time(self, **step: float) -> None:
        self.now += timedelta(**step)
        self.settle()

    def end(self, handler: str, outcome: HandlerOutcome = DONE, event: str = "e1") -> None:
        """Let a handler answer or return; a call waits for the answer to a question that was asked before it."""
        run = self.asked.pop((event, handler), None) or self.running.pop((event, handler))
        match outcome:
            case HandlerNotBegun():
                self.hear(CallWithdrawn(event, handler, run.direction))
            case HandlerDone() | HandlerFailed():
                self.hear(CallEnded(event, handler, run.direction, outcome, self.now))

    def fail(self, handler: str, reason: str = "no", event: str = "e1") -> None:
        self.end(handler, HandlerFailed(reason), event)

    def give_up(self, handler: str, event: str = "e1") -> None:
        """Let a call not return by its deadline."""
        run = self.running.pop((event, handler))
        self.hear(CallEnded(event, handler, run.direction, HandlerFailed("late"), self.now, is_given_up=True))

    def hold(self, holder: str, event: str = "e1", **within: float) -> None:
        self.hear(HoldPlaced(event, holder, self.now + timedelta(**within)))

    def release(self, holder: str, event: str = "e1") -> None:
        self.hear(HoldReleased(event, holder))

    def consulted(self, *, agreed: bool, event: str = "e1") -> None:
        self.hear(CoordinatorConsulted(event, agreed, self.now))

    def approved(self, event: str = "e1") -> None:
        """Let the endpoint take an approval."""
        self._approving.discard(event)
        self.hear(ApprovalGiven(event, self.now))

    def not_approved(self, event: str = "e1", reason: str = "no") -> None:
        """Let the endpoint refuse an approval."""
        self._approving.discard(event)
        tried = self.memory.events[event].not_approved
        self.hear(ApprovalFailed(event, tried.attempt + 1 if tried else 1, self.now, reason))

    def crash(self, *, reboot: bool = False, shown: Sequence[ScheduledEvent] | None = None) -> None:
        """End the agent, and begin another that knows what was kept, as it would after reading its file.

        The endpoint shows the same events as before, unless others are given.
        """
        self.memory = msgspec.json.decode(msgspec.json.encode(self.memory), type=AgentMemory)
        self.memory.mark_calls_interrupted()
        self.running.clear()
        self.asked.clear()
        self._approving.clear()
        if reboot:
            self.boot += "'"
        document, self.document = self.document, None
        self.settle()
        self.document = document
        if shown is None:
            self.settle()
        else:
            self.show(*shown)

    def lose(self) -> None:
        """Let time pass, decide, and fail to keep what was decided."""
        self.now += timedelta(seconds=20)
        self.decider.react(self.memory, self.document, self.now, self.decision_settings, self.boot)
        self.decider.reset()
        self.settle()

    def hear(self, fact: AgentFact) -> None:
        self.facts.append(fact)
        self.memory.evolve(fact)
        self.decider.note_facts([fact])
        self.settle()

    def settle(self) -> None:
        """Decide and act until nothing follows."""
        while True:
            reaction = self._react()
            for fact in reaction.facts:
                self.facts.append(fact)
                self.memory.evolve(fact)
            self.decider.note_facts(reaction.facts)
            for act in reaction.acts:
                self._said.extend(self._act(act))
            self.wake_at = reaction.wake_at
            if not reaction.facts:
                return

    def _react(self) -> Reaction:
        given = (self.memory, self.document, self.now, self.decision_settings, self.boot)
        reaction = self.decider.react(*given)
        if self._is_checked:
            full = react(*given)
            assert [_comparable(fact) for fact in reaction.facts] == [_comparable(fact) for fact in full.facts]
            # Acts under way are not returned again; what is left stands in the same order.
            missing = [act for act in full.acts if act not in reaction.acts]
            assert reaction.acts == [act for act in full.acts if act not in missing]
            assert all(
                isinstance(act, SendApproval | ConsultCoordinator) and act in self._last_acts for act in missing
            )
            self._last_acts = [*full.acts]
            if full.wake_at and not full.facts:
                assert reaction.wake_at
                assert reaction.wake_at <= full.wake_at
            if reaction.wake_at and not full.facts:
                assert reaction.wake_at > self.now
        return reaction

    def _act(self, act: object) -> Iterator[str]:
        match act:
            case CallHandler(event=event, handler=handler, direction=direction):
                self.running[event.id, handler] = act
                yield f"{direction} {handler}"
            case AskHandler(run) if (run.event.id, run.handler) not in self.asked:
                self.asked[run.event.id, run.handler] = run
                yield f"ask {run.handler}"
            case StopHandler(event, handler, at):
                self.stops[event, handler] = at
                if at is None:
                    yield f"stop {handler}"
            case SendApproval(event) if event not in self._approving:
                self._approving.add(event)
                yield f"approve {event}"
            case ConsultCoordinator(event):
                yield f"consult {event.id}"


def _comparable(fact: AgentFact) -> object:
    """Return a fact without the event that it shares a handler with: any that is in force serves."""
    match fact:
        case CallShared():
            return msgspec.structs.replace(fact, of="")
        case CallEnded(result=HandlerDone(detail=detail)) if detail.startswith("still needed for event"):
            return msgspec.structs.replace(fact, result=DONE)
    return fact
