"""Decides what the agent does next from memory, document and time. Pure; no other module decides it.

    shown ──▶ stage 1 ──▶ stage 2 ──▶ ... ──▶ ready ──▶ approved ──▶ started ──▶ gone
                │ handlers of a stage in parallel,                                │
                │ each: running ──▶ done | failed (retried as configured)         ▼
                └ skipped when it no longer fits before NotBefore       undo, last begun first ──▶ forgotten

- A handler that has succeeded is never called again for that event.
- A call with unknown effect, because it was interrupted or given up, is repeated if the handler repeats; else the
  handler is asked for its outcome. So is a first ``do`` that may not be the first, because the memory was damaged.
- A handler is called for one event at a time. The effect of a shared handler holds for all events: it is undone
  after the last of them.
- Each ``do`` that was called is undone once. If ``do`` of a shared handler was called for several events, because one
  call failed, each undo waits until no event needs the handler; the last begun is undone first, so that the state
  before the first call is restored.
- Facts come first: the agent stores them before it acts, and calls ``react`` again until there are none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeGuard

import msgspec

from forewarn.agent.decision import approval_turn, plan
from forewarn.agent.decision.facts import (
    AgentFact,
    CallBegun,
    CallEnded,
    CallShared,
    CallWithdrawn,
    DocumentShown,
    EventForgotten,
    HandlerSkipped,
    UndoDue,
)
from forewarn.agent.decision.memory import AgentMemory, HandlerCall, HandlerStep, KnownEvent
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, EventRule, choose_rule
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.config.durations import show_duration
from forewarn.core.model import EventStatus
from forewarn.wire.document import Document, ScheduledEvent

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


def react(
    memory: AgentMemory, document: Document | None, now: datetime, decision_settings: DecisionSettings, boot: str = ""
) -> Reaction:
    """Return what follows. ``document`` is None until the endpoint has answered since the agent started."""
    if is_news(document, memory):
        return Reaction([DocumentShown(document, now, boot)])
    index = CallIndex()
    for known in memory.events.values():
        index.add(known)
    deciding = DecisionPass(index, now, decision_settings, has_document=document is not None)
    for known in memory.events.values():
        deciding.consider(known)
    return deciding.reaction


def is_news(document: Document | None, memory: AgentMemory) -> TypeGuard[Document]:
    """Tell whether a document is to be stored; the first one after facts were lost is, and ends the doubt."""
    return document is not None and (memory.is_doubtful or document != memory.document)


def is_settled(step: HandlerStep | None, terms: HandlerTerms) -> bool:
    """Tell whether no further ``do`` of a handler is due for an event."""
    return step is not None and not step.is_being_undone and (bool(step.left_out) or _is_over(step.do, terms))


def is_in_the_way(step: HandlerStep | None, terms: HandlerTerms) -> bool:
    """Tell whether a settled handler prevents the approval."""
    is_done = step is not None and step.do is not None and step.do.is_done
    return not is_done and terms.on_failure is not OnFailure.GO_ON


def _is_over(call: HandlerCall | None, terms: HandlerTerms) -> bool:
    match call:
        case HandlerCall(result=HandlerDone()):
            return True
        case HandlerCall(result=HandlerFailed(final=final), attempt=attempt):
            return final or attempt > terms.retries
        case _:
            return False


def _is_running(step: HandlerStep | None) -> bool:
    return step is not None and any(call is not None and call.is_running for call in (step.do, step.undo))


class CallIndex:
    """The calls of all events, by handler."""

    def __init__(self) -> None:
        self.running: dict[str, set[str]] = {}
        """By handler: the events it is being called for."""
        self.in_force: dict[str, dict[str, KnownEvent]] = {}
        """By handler and event: ``do`` has succeeded and ``undo`` is not due."""
        self.not_undone: dict[str, dict[str, KnownEvent]] = {}
        """By handler and event: ``do`` or ``undo`` failed or was interrupted, or ``undo`` is due."""

    def add(self, known: KnownEvent) -> None:
        for name, step in known.steps.items():
            if _is_running(step):
                self.running.setdefault(name, set()).add(known.event.id)
            elif step.is_in_force:
                self.in_force.setdefault(name, {})[known.event.id] = known
            elif step.do and not (step.undo and step.undo.is_done):
                self.not_undone.setdefault(name, {})[known.event.id] = known

    def remove(self, event: str) -> None:
        for running in self.running.values():
            running.discard(event)
        for events in (*self.in_force.values(), *self.not_undone.values()):
            events.pop(event, None)


class DecisionPass:
    """One pass over events, in the order of the memory, and the reaction that results."""

    def __init__(
        self, index: CallIndex, now: datetime, decision_settings: DecisionSettings, *, has_document: bool
    ) -> None:
        self._now = now
        self._decision_settings = decision_settings
        self._has_document = has_document
        self.busy = {name for name, events in index.running.items() if events}
        """Handlers that are being called for an event, or are about to be."""
        self._in_force = index.in_force
        self._not_undone = index.not_undone
        self._demands: dict[int, tuple[timedelta, bool]] = {}
        self.waits_for: set[str] = set()
        """The busy handlers that the events considered so far wait for."""
        self.depends_on_others = False
        """Whether what follows for the events considered so far changes with facts about other events."""
        self.reaction = Reaction()

    def consider(self, known: KnownEvent) -> None:
        """Add to the reaction what follows for one event."""
        if known.is_gone:
            self._put_back(known)
        elif self._has_document and (rule := self._decision_settings.rule_of(known.event)):
            is_prepared = self._prepare(known, rule)
            if is_prepared or rule.approval is ApprovalMode.AT_ONCE:
                self._approve(known, rule)

    def forget_waits(self) -> None:
        """Reset what the events considered so far wait for."""
        self.waits_for = set()
        self.depends_on_others = False
        self.reaction.wake_at = None

    def _prepare(self, known: KnownEvent, rule: EventRule) -> bool:
        """Call the handlers of the first stage that is not settled; return True if all stages are settled."""
        terms, event, steps = self._decision_settings.terms, known.event, known.steps
        first = next(
            (stage for stage in rule.stages if not all(is_settled(steps.get(n), terms[n]) for n in stage)), ()
        )
        if not first:
            return True
        if self.busy.issuperset(first) and self._must_wait(known, first, rule):
            return False
        open_stages = [
            opened
            for stage in rule.stages
            if (opened := [name for name in stage if not is_settled(steps.get(name), terms[name])])
        ]
        waiting = [name for name in open_stages[0] if not _is_running(steps.get(name))]
        stages = [waiting, *open_stages[1:]]
        left = plan.time_left(event.not_before, self._now)
        chosen = plan.fitting(stages, terms, left)
        self._hurry(known, [name for name in open_stages[0] if name not in waiting], stages[1:])
        reason = self._reason_to_stop(known, rule)
        for name in waiting:
            step = known.steps.get(name)
            if step and step.is_being_undone and self._is_needed_by_others(known, name):
                # The event was shown again during undo, and the effect was restored for another event.
                if step.do and step.do.is_done:
                    self._in_force[name][event.id] = known
                self.reaction.facts.append(CallWithdrawn(event.id, name, Direction.UNDO))
            elif step and step.is_being_undone:
                # The event was shown again during undo: undo is completed first, then do is called again.
                if not self._is_later_undone_first(known, name):
                    self._begin(known, name, Direction.UNDO, self._now + terms[name].timeout)
            elif reason or name not in chosen:
                left_out = HandlerSkipped(event.id, name, reason or _no_time(terms[name], left), self._now)
                self.reaction.facts.append(left_out)
            else:
                deadline = plan.deadline(name, stages[1:], terms, chosen, event.not_before, self._now)
                self._begin(known, name, Direction.DO, deadline)
        if event.not_before is not None and event.not_before > self._now:
            self.reaction.wake(event.not_before)
            if waiting and left > timedelta(0):
                self.reaction.wake(self._now + plan.lasts(stages, terms, chosen, left))
        return False

    def _must_wait(self, known: KnownEvent, stage: Sequence[str], rule: EventRule) -> bool:
        """Tell whether the busy handlers of a stage are busy with other events only, and time is left."""
        not_before = known.event.not_before
        if known.event.status is not EventStatus.SCHEDULED or not_before is None:
            return False
        if any(name in known.steps for name in stage):
            return False
        needed, gives_up = self._demand(rule)
        if gives_up or needed >= plan.time_left(not_before, self._now):
            return False
        self.reaction.wake(not_before - plan.SPARE - needed)
        self.waits_for.update(stage)
        return True

    def _demand(self, rule: EventRule) -> tuple[timedelta, bool]:
        """Return the total time of all handlers of a rule, and whether one of them can give up the rest."""
        key = id(rule)
        if key not in self._demands:
            terms = [self._decision_settings.terms[name] for name in rule.handlers]
            needed = sum((each.takes for each in terms), timedelta(0))
            self._demands[key] = needed, any(each.on_failure is OnFailure.GIVE_UP for each in terms)
        return self._demands[key]

    def _hurry(self, known: KnownEvent, running: Iterable[str], later: Sequence[Sequence[str]]) -> None:
        """Shorten calls under way to the event's NotBefore, which may have moved since they began."""
        terms, not_before = self._decision_settings.terms, known.event.not_before
        if not_before is None:
            return
        chosen = plan.fitting(later, terms, plan.time_left(not_before, self._now) - plan.HANDOVER)
        for name in running:
            began = next(call.began_at for call in self._calls(known, name) if call.is_running)
            at = plan.deadline(name, later, terms, chosen, not_before, began)
            self.reaction.acts.append(StopHandler(known.event.id, name, at))

    @staticmethod
    def _calls(known: KnownEvent, name: str) -> Iterator[HandlerCall]:
        step = known.steps.get(name, HandlerStep())
        return (call for call in (step.do, step.undo) if call is not None)

    def _approve(self, known: KnownEvent, rule: EventRule) -> None:
        """Approve an event when nothing prevents it and it is this VM's turn."""
        if (
            known.approved_at
            or known.event.status is not EventStatus.SCHEDULED
            or rule.approval is ApprovalMode.NEVER
        ):
            return
        if approval_turn.is_due(known.event, self._now):
            return
        if rule.approval is ApprovalMode.WHEN_READY:
            for name in rule.handlers:
                if is_in_the_way(known.steps.get(name), self._decision_settings.terms[name]):
                    return
        held_until = max(known.holds.values(), default=self._now)
        if held_until > self._now:
            self.reaction.wake(held_until)
            return
        match approval_turn.decide_turn(
            known,
            self._decision_settings.vm,
            self._decision_settings.approver,
            self._decision_settings.takeover,
            self._now,
        ):
            case datetime() as later:
                self.reaction.wake(later)
            case approval_turn.SendApproval() | approval_turn.ConsultCoordinator() as act:
                self.reaction.acts.append(act)

    def _put_back(self, known: KnownEvent) -> None:
        """Undo the handlers of an event that is gone, one after another, the last begun first."""
        event = known.event.id
        if running := [name for name, step in known.steps.items() if step.do and step.do.is_running]:
            self.reaction.acts += [StopHandler(event, name) for name in running]
            return
        has_to_wait = False
        for name, step in reversed(known.steps.items()):
            terms = self._decision_settings.terms.get(name)
            if step.do is None or _is_over(step.undo, terms or HandlerTerms()):
                continue
            if terms is None:
                missing = f"{name} is no longer in the configuration; undo its changes by hand"
                failed = CallEnded(event, name, Direction.UNDO, HandlerFailed(missing, final=True), self._now)
                self.reaction.facts.append(failed)
            elif self._is_needed_by_others(known, name) or self._is_later_undone_first(known, name):
                self._let_undo_wait(known, name)
                has_to_wait = True
                continue
            else:
                if not _is_running(step):
                    self._begin(known, name, Direction.UNDO, self._now + terms.timeout)
                if not self._waits_for_earlier_call(step.undo, terms):
                    return
                has_to_wait = True
                continue
            return
        if has_to_wait:
            return
        undone = {name: step.undo.is_done for name, step in known.steps.items() if step.undo}
        done, not_done = (tuple(name for name, each in undone.items() if each is wanted) for wanted in (True, False))
        self.reaction.facts.append(EventForgotten(event, done, not_done))

    def _waits_for_earlier_call(self, undo: HandlerCall | None, terms: HandlerTerms) -> bool:
        """Tell whether an undo, or the question about it, has not begun because an earlier call has not returned.

        It waits without limit, and the other handlers do not wait for it. A call that has begun is given up in time.
        """
        if undo is None or not (undo.is_running or undo.is_given_up):
            return False
        due = undo.ended_at + terms.retry_after if undo.ended_at else undo.began_at
        latest = due + terms.timeout + plan.HANDOVER
        if latest > self._now:
            self.reaction.wake(latest)
        return latest <= self._now

    def _reason_to_stop(self, known: KnownEvent, rule: EventRule) -> str:
        """Return why no further handler is called for an event; empty if there is no reason."""
        if known.event.status is not EventStatus.SCHEDULED and not rule.late:
            return "the event has started"
        for name in rule.handlers:
            step, terms = known.steps.get(name), self._decision_settings.terms[name]
            gives_up = terms.on_failure is OnFailure.GIVE_UP
            if gives_up and is_settled(step, terms) and is_in_the_way(step, terms):
                return f"handler {name} failed"
        return ""

    def _begin(self, known: KnownEvent, name: str, direction: Direction, deadline: datetime) -> None:
        """Call a handler, or ask it, or share another event's call, or wait until it can be called."""
        if name in self.busy:
            self.waits_for.add(name)
            return  # the end of its call triggers the next decision
        step = known.steps.get(name, HandlerStep())
        call = step.do if direction is Direction.DO else step.undo
        terms, traits = self._decision_settings.terms[name], self._decision_settings.traits[name]
        run = CallHandler(
            event=known.event,
            handler=name,
            direction=direction,
            attempt=_attempt(call),
            deadline=deadline,
            kept=step.do.result.kept if step.do and isinstance(step.do.result, HandlerDone) else {},
        )
        if call is None and traits.shared and (other := self._sharer(known, name, direction)):
            self._share(run, known, other)
        elif call and call.ended_at and plan.is_within(terms.retry_after, call.ended_at, self._now):
            self.reaction.wake(call.ended_at + terms.retry_after)
        elif not traits.repeats and (call.is_unclear if call else known.is_doubtful and name not in known.steps):
            self.busy.add(name)
            asked = msgspec.structs.replace(run, attempt=call.attempt if call else 1)
            self.reaction.acts.append(AskHandler(asked))
        else:
            self.busy.add(name)
            self._in_force.get(name, {}).pop(known.event.id, None)
            self.reaction.facts.append(CallBegun(known.event.id, name, direction, run.attempt, self._now))
            self.reaction.acts.append(run)

    def _is_needed_by_others(self, known: KnownEvent, name: str) -> bool:
        """Tell whether an undo must wait because another event relies on another call of the handler."""
        if not self._can_undo_wait(known, name):
            return False
        return self._sharer(known, name, Direction.UNDO) is None and any(self._others_in_force(known, name))

    def _is_later_undone_first(self, known: KnownEvent, name: str) -> bool:
        """Tell whether an undo must wait because ``do`` was called later for another event that is gone too."""
        if not self._can_undo_wait(known, name) or self._sharer(known, name, Direction.UNDO):
            return False
        order, terms = _undo_order(known, name), self._decision_settings.terms[name]
        return any(
            other.is_gone and _undo_order(other, name) > order and not _is_over(other.steps[name].undo, terms)
            for other in self._not_undone.get(name, {}).values()
        )

    def _can_undo_wait(self, known: KnownEvent, name: str) -> bool:
        undo, traits = known.steps[name].undo, self._decision_settings.traits[name]
        if not traits.shared or (undo and (undo.is_running or (undo.is_unclear and not traits.repeats))):
            return False
        self.depends_on_others = True
        return True

    def _let_undo_wait(self, known: KnownEvent, name: str) -> None:
        """Record that nothing may rely on ``do`` if the undo waits only for that of other events that are gone."""
        if known.steps[name].is_in_force and all(other.is_gone for other in self._others_in_force(known, name)):
            self.reaction.facts.append(UndoDue(known.event.id, name))
            self._in_force[name].pop(known.event.id, None)
            self._not_undone.setdefault(name, {})[known.event.id] = known

    def _sharer(self, known: KnownEvent, name: str, direction: Direction) -> KnownEvent | None:
        """Return an event that this event can share ``do`` with, or that shares it and can be left the undo."""
        others = self._others_in_force(known, name)
        if direction is Direction.DO:
            return next(others, None)
        if not known.steps[name].is_in_force:
            return None
        # CallShared copies the call, so events that share it have equal ones.
        call = known.steps[name].do
        return next((other for other in others if name in other.steps and other.steps[name].do == call), None)

    def _others_in_force(self, known: KnownEvent, name: str) -> Iterator[KnownEvent]:
        """Yield the other events for which the handler's effect holds."""
        return (other for other in self._in_force.get(name, {}).values() if other is not known)

    def _share(self, run: CallHandler, known: KnownEvent, other: KnownEvent) -> None:
        """Share the effect of another event's call, or leave the undo to the other event."""
        # The memory shows this only after the facts are stored; until then no other event may rely on the old state.
        holding = self._in_force[run.handler]
        if run.direction is Direction.DO:
            holding[known.event.id] = known
            self.reaction.facts.append(CallShared(run.event.id, run.handler, other.event.id, self._now))
        else:
            holding.pop(known.event.id, None)
            still = HandlerDone(detail=f"still needed for event {other.event.id}")
            self.reaction.facts.append(CallEnded(run.event.id, run.handler, run.direction, still, self._now))


def _undo_order(known: KnownEvent, name: str) -> tuple[datetime, str]:
    """Return the sort key of the undo of a handler: the highest is first."""
    call = known.steps[name].do
    return call.began_at if call else known.first_seen_at, known.event.id


def _no_time(terms: HandlerTerms, left: timedelta) -> str:
    if left <= timedelta(0):
        return "no time is left before NotBefore"
    return f"it takes {show_duration(terms.takes)}, longer than the time left before NotBefore"


def _attempt(call: HandlerCall | None) -> int:
    match call:
        case None:
            return 1
        case HandlerCall(is_cut_off=True, attempt=attempt):
            return attempt
        case HandlerCall(attempt=attempt):
            return attempt + 1
