"""What the agent does next: memory, document and time in, reactions out. Pure, and the only place that decides it.

    shown ──▶ stage 1 ──▶ stage 2 ──▶ ... ──▶ ready ──▶ approved ──▶ started ──▶ gone
                │ handlers of a stage in parallel,                                │
                │ each: running ──▶ done | failed (again, as it says)             ▼
                └ left out when it no longer fits before NotBefore      undo, last begun first ──▶ forgotten

- A handler that said it is done is never run again for that event.
- A call that was cut off is made again if the handler repeats; else the handler is asked what came of it.
- A handler is called for one event at a time. What a shared handler did for one event holds for the others: it is
  undone after the last of them.
- Facts come first: the agent keeps them before it acts, and asks again until there are none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from forewarn.agent import approving, plan
from forewarn.agent.facts import Begun, Ended, Fact, Forgotten, Joined, LeftOut, Shown
from forewarn.agent.handler import Direction, Done, Failed
from forewarn.agent.memory import Call, Known, Memory, Step
from forewarn.agent.plan import OnFailure, Terms
from forewarn.agent.rules import Approval, Rule, choose
from forewarn.config.durations import show_duration
from forewarn.core.model import EventStatus
from forewarn.wire.document import Document, ScheduledEvent


class Traits(msgspec.Struct, frozen=True):
    """What a handler declares about itself."""

    repeats: bool
    shared: bool


class Agenda(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says, as the decision needs it."""

    vm: str
    rules: tuple[Rule, ...]
    terms: Mapping[str, Terms]
    traits: Mapping[str, Traits]
    approver: approving.Approver = approving.Approver.LEADER
    takeover: timedelta = timedelta(minutes=5)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Call a handler."""

    event: ScheduledEvent
    handler: str
    direction: Direction
    attempt: int
    deadline: datetime
    kept: dict[str, str] = {}


class Ask(msgspec.Struct, frozen=True):
    """Ask a handler what came of a call that was cut off."""

    run: Run


class Stop(msgspec.Struct, frozen=True):
    """Let a call that is under way know that it is no longer wanted."""

    event: str
    handler: str
    at: datetime | None = None
    """When, if it has not returned by then; at once where it is not said."""


Act = Run | Ask | Stop | approving.Approve | approving.Consult


class Reaction(msgspec.Struct):
    """What is to be kept, what is to be done after that, and when to ask again if nothing happens before."""

    facts: list[Fact] = []
    acts: list[Act] = []
    wake_at: datetime | None = None

    def wake(self, at: datetime) -> None:
        self.wake_at = min(self.wake_at or at, at)


def react(memory: Memory, document: Document | None, now: datetime, agenda: Agenda, boot: str = "") -> Reaction:
    """Say what follows from all this. ``document`` is None until the endpoint was heard since the agent began."""
    if document is not None and document != memory.document:
        return Reaction([Shown(document, now, boot)])
    deciding = _Deciding(memory, now, agenda)
    for known in memory.events.values():
        if known.is_gone:
            deciding.put_back(known)
        elif document is not None and (rule := choose(agenda.rules, known.event, agenda.vm)):
            deciding.prepare(known, rule)
            deciding.approve(known, rule)
    return deciding.reaction


def is_settled(step: Step | None, terms: Terms) -> bool:
    """Tell whether a handler will not be called any more to get ready for an event."""
    return step is not None and step.undo is None and (bool(step.left_out) or _is_over(step.do, terms))


def is_in_the_way(step: Step | None, terms: Terms) -> bool:
    """Tell whether a handler that is settled forbids the approval."""
    is_done = step is not None and step.do is not None and step.do.is_done
    return not is_done and terms.on_failure is not OnFailure.GO_ON


def _is_over(call: Call | None, terms: Terms) -> bool:
    match call:
        case Call(result=Done()):
            return True
        case Call(result=Failed(final=final), attempt=attempt):
            return final or attempt > terms.retries
        case _:
            return False


def _is_running(step: Step | None) -> bool:
    return step is not None and any(call is not None and call.is_running for call in (step.do, step.undo))


class _Deciding:
    """One look at everything, and the reaction that comes of it."""

    def __init__(self, memory: Memory, now: datetime, agenda: Agenda) -> None:
        self._memory = memory
        self._now = now
        self._agenda = agenda
        self._called: set[str] = set()
        self.reaction = Reaction()

    def prepare(self, known: Known, rule: Rule) -> None:
        """Begin what is to be begun of the first stage that is not settled."""
        terms, event = self._agenda.terms, known.event
        open_stages = [
            opened
            for stage in rule.stages
            if (opened := [name for name in stage if not is_settled(known.steps.get(name), terms[name])])
        ]
        if not open_stages:
            return
        waiting = [name for name in open_stages[0] if not _is_running(known.steps.get(name))]
        stages = [waiting, *open_stages[1:]]
        left = plan.time_left(event.not_before, self._now)
        chosen = plan.fitting(stages, terms, left)
        self._hurry(known, [name for name in open_stages[0] if name not in waiting], stages[1:])
        reason = self._reason_to_stop(known, rule)
        for name in waiting:
            if (step := known.steps.get(name)) and step.undo:
                # The event came back while this was put back: that is ended first, and then it is done anew.
                self._begin(known, name, Direction.UNDO, self._now + terms[name].timeout)
            elif reason or name not in chosen:
                left_out = LeftOut(event.id, name, reason or _no_time(terms[name], left), self._now)
                self.reaction.facts.append(left_out)
            else:
                deadline = plan.deadline(name, stages[1:], terms, chosen, event.not_before, self._now)
                self._begin(known, name, Direction.DO, deadline)
        if event.not_before is not None and event.not_before > self._now:
            self.reaction.wake(event.not_before)

    def _hurry(self, known: Known, running: Iterable[str], later: Sequence[Sequence[str]]) -> None:
        """Fit calls under way to the event's NotBefore, which may have been moved since they were begun."""
        terms, not_before = self._agenda.terms, known.event.not_before
        if not_before is not None:
            chosen = plan.fitting(later, terms, plan.time_left(not_before, self._now))
            at = plan.latest_end(later, terms, chosen, not_before)
            self.reaction.acts += [Stop(known.event.id, name, at) for name in running]

    def approve(self, known: Known, rule: Rule) -> None:
        """Approve the event once it may begin, as far as this VM is concerned."""
        if known.event.status is not EventStatus.SCHEDULED or known.approved_at or rule.approval is Approval.NEVER:
            return
        if approving.is_due(known.event, self._now):
            return
        if rule.approval is Approval.WHEN_READY:
            for name in rule.handlers:
                step, terms = known.steps.get(name), self._agenda.terms[name]
                if not is_settled(step, terms) or is_in_the_way(step, terms):
                    return
        held_until = max(known.holds.values(), default=self._now)
        if held_until > self._now:
            self.reaction.wake(held_until)
            return
        match approving.turn(known, self._agenda.vm, self._agenda.approver, self._agenda.takeover, self._now):
            case datetime() as later:
                self.reaction.wake(later)
            case approving.Approve() | approving.Consult() as act:
                self.reaction.acts.append(act)

    def put_back(self, known: Known) -> None:
        """Undo what was begun for an event that is gone, one handler after another, the last begun first."""
        event = known.event.id
        if running := [name for name, step in known.steps.items() if step.do and step.do.is_running]:
            self.reaction.acts += [Stop(event, name) for name in running]
            return
        for name, step in reversed(known.steps.items()):
            terms = self._agenda.terms.get(name)
            if step.do is None or _is_over(step.undo, terms or Terms()):
                continue
            if terms is None:
                missing = f"{name} is no longer in the configuration; put back by hand what it did"
                failed = Ended(event, name, Direction.UNDO, Failed(missing, final=True), self._now)
                self.reaction.facts.append(failed)
            elif not _is_running(step):
                self._begin(known, name, Direction.UNDO, self._now + terms.timeout)
            return
        undone = {name: step.undo.is_done for name, step in known.steps.items() if step.undo}
        done, not_done = (tuple(name for name, each in undone.items() if each is wanted) for wanted in (True, False))
        self.reaction.facts.append(Forgotten(event, done, not_done))

    def _reason_to_stop(self, known: Known, rule: Rule) -> str:
        """Say why no handler is begun any more for an event; empty when there is no reason."""
        if known.event.status is not EventStatus.SCHEDULED and not rule.late:
            return "the event has started"
        for name in rule.handlers:
            step, terms = known.steps.get(name), self._agenda.terms[name]
            gives_up = terms.on_failure is OnFailure.GIVE_UP
            if gives_up and is_settled(step, terms) and is_in_the_way(step, terms):
                return f"{name} failed"
        return ""

    def _begin(self, known: Known, name: str, direction: Direction, deadline: datetime) -> None:
        """Call a handler, again or for the first time, or ask it, or wait until it can be called."""
        others = [other for other in self._memory.events.values() if other is not known and name in other.steps]
        if name in self._called or any(_is_running(other.steps[name]) for other in others):
            return  # its end will be heard of
        step = known.steps.get(name, Step())
        call = step.do if direction is Direction.DO else step.undo
        terms, traits = self._agenda.terms[name], self._agenda.traits[name]
        run = Run(
            event=known.event,
            handler=name,
            direction=direction,
            attempt=_attempt(call),
            deadline=deadline,
            kept=step.do.result.kept if step.do and isinstance(step.do.result, Done) else {},
        )
        if call is None and traits.shared and (other := next(_in_force(name, others), None)):
            self._share(run, other)
        elif call is not None and call.is_cut_off and not traits.repeats:
            self._called.add(name)
            self.reaction.acts.append(Ask(run))
        elif call and call.ended_at and plan.is_within(terms.retry_after, call.ended_at, self._now):
            self.reaction.wake(call.ended_at + terms.retry_after)
        else:
            self._called.add(name)
            self.reaction.facts.append(Begun(known.event.id, name, direction, run.attempt, self._now))
            self.reaction.acts.append(run)

    def _share(self, run: Run, other: Known) -> None:
        """Let what holds for one event hold for another, or leave putting it back to the other."""
        # Until this is kept, the memory does not show it, and another event would build on what no longer holds.
        self._called.add(run.handler)
        if run.direction is Direction.DO:
            self.reaction.facts.append(Joined(run.event.id, run.handler, other.event.id, self._now))
        else:
            still = Done(detail=f"still needed for event {other.event.id}")
            self.reaction.facts.append(Ended(run.event.id, run.handler, run.direction, still, self._now))


def _no_time(terms: Terms, left: timedelta) -> str:
    if left <= timedelta(0):
        return "no time is left"
    return f"it takes {show_duration(terms.takes)}, more than the event leaves it"


def _attempt(call: Call | None) -> int:
    match call:
        case None:
            return 1
        case Call(is_cut_off=True, attempt=attempt):
            return attempt
        case Call(attempt=attempt):
            return attempt + 1


def _in_force(name: str, others: Iterable[Known]) -> Iterator[Known]:
    """Yield those events for which a handler has done its part, and has not begun to put it back."""
    return (other for other in others if other.steps[name].is_in_force)
