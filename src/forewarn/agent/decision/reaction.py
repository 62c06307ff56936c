"""Decides what the agent does next from memory, document and time. Pure; no other module decides it.

    shown ──▶ stage 1 ──▶ stage 2 ──▶ ... ──▶ ready ──▶ approved ──▶ started ──▶ gone
                │ handlers of a stage in parallel,                                │
                │ each: running ──▶ done | failed (retried as configured)         ▼
                └ skipped when it no longer fits before NotBefore       undo, last begun first ──▶ forgotten

- A handler that has succeeded is never called again for that event.
- Facts come first: the agent stores them before it acts, and calls ``react`` again until there are none.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeGuard

from forewarn.agent.decision import approval_turn, plan
from forewarn.agent.decision.actions import DecisionSettings, Reaction, StopHandler
from forewarn.agent.decision.facts import (
    CallEnded,
    DocumentShown,
    EventForgotten,
    HandlerSkipped,
)
from forewarn.agent.decision.handler_calls import CallIndex, HandlerCalls, is_over, is_running
from forewarn.agent.decision.memory import AgentMemory, HandlerCall, HandlerStep, KnownEvent
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, EventRule
from forewarn.agent.handler import Direction, HandlerFailed
from forewarn.config.durations import show_duration
from forewarn.core.model import EventStatus
from forewarn.wire.document import Document


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
    """Return whether a document is to be stored; the first one after facts were lost is, and ends the doubt."""
    return document is not None and (memory.is_doubtful or document != memory.document)


def is_settled(step: HandlerStep | None, terms: HandlerTerms) -> bool:
    """Return whether no further ``do`` of a handler is due for an event."""
    return step is not None and not step.is_being_undone and (bool(step.left_out) or is_over(step.do, terms))


def is_in_the_way(step: HandlerStep | None, terms: HandlerTerms) -> bool:
    """Return whether a settled handler prevents the approval."""
    is_done = step is not None and step.do is not None and step.do.is_done
    return not is_done and terms.on_failure is not OnFailure.GO_ON


class DecisionPass:
    """One pass over events, in the order of the memory, and the reaction that results."""

    def __init__(
        self, index: CallIndex, now: datetime, decision_settings: DecisionSettings, *, has_document: bool
    ) -> None:
        self._now = now
        self._decision_settings = decision_settings
        self._has_document = has_document
        self._demands: dict[int, tuple[timedelta, bool]] = {}
        self.reaction = Reaction()
        self.calls = HandlerCalls(index, now, decision_settings, self.reaction)

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
        self.calls.forget_waits()
        self.reaction.wake_at = None

    def _prepare(self, known: KnownEvent, rule: EventRule) -> bool:
        """Call the handlers of the first stage that is not settled; return True if all stages are settled."""
        terms, event, steps = self._decision_settings.terms, known.event, known.steps
        first = next(
            (stage for stage in rule.stages if not all(is_settled(steps.get(n), terms[n]) for n in stage)), ()
        )
        if not first:
            return True
        if self.calls.busy.issuperset(first) and self._must_wait(known, first, rule):
            return False
        open_stages = [
            opened
            for stage in rule.stages
            if (opened := [name for name in stage if not is_settled(steps.get(name), terms[name])])
        ]
        waiting = [name for name in open_stages[0] if not is_running(steps.get(name))]
        stages = [waiting, *open_stages[1:]]
        left = plan.time_left(event.not_before, self._now)
        chosen = plan.fitting(stages, terms, left)
        self._hurry(known, [name for name in open_stages[0] if name not in waiting], stages[1:])
        reason = self._reason_to_stop(known, rule)
        for name in waiting:
            step = known.steps.get(name)
            if step and step.is_being_undone and self.calls.is_needed_by_others(known, name):
                # The event was shown again during undo, and the effect was restored for another event.
                self.calls.withdraw_undo(known, name)
            elif step and step.is_being_undone:
                # The event was shown again during undo: undo is completed first, then do is called again.
                if not self.calls.is_later_undone_first(known, name):
                    self.calls.begin(known, name, Direction.UNDO, self._now + terms[name].timeout)
            elif reason or name not in chosen:
                left_out = HandlerSkipped(event.id, name, reason or _no_time(terms[name], left), self._now)
                self.reaction.facts.append(left_out)
            else:
                deadline = plan.deadline(name, stages[1:], terms, chosen, event.not_before, self._now)
                self.calls.begin(known, name, Direction.DO, deadline)
        if event.not_before is not None and event.not_before > self._now:
            self.reaction.wake(event.not_before)
            if waiting and left > timedelta(0):
                self.reaction.wake(self._now + plan.lasts(stages, terms, chosen, left))
        return False

    def _must_wait(self, known: KnownEvent, stage: Sequence[str], rule: EventRule) -> bool:
        """Return whether the busy handlers of a stage are busy with other events only, and time is left."""
        not_before = known.event.not_before
        if known.event.status is not EventStatus.SCHEDULED or not_before is None:
            return False
        if any(name in known.steps for name in stage):
            return False
        needed, gives_up = self._demand(rule)
        if gives_up or needed >= plan.time_left(not_before, self._now):
            return False
        self.reaction.wake(not_before - plan.SPARE - needed)
        self.calls.waits_for.update(stage)
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
            if step.do is None or is_over(step.undo, terms or HandlerTerms()):
                continue
            if terms is None:
                missing = f"{name} is no longer in the configuration; undo its changes by hand"
                failed = CallEnded(event, name, Direction.UNDO, HandlerFailed(missing, final=True), self._now)
                self.reaction.facts.append(failed)
            elif self.calls.is_needed_by_others(known, name) or self.calls.is_later_undone_first(known, name):
                self.calls.let_undo_wait(known, name)
                has_to_wait = True
                continue
            else:
                if not is_running(step):
                    self.calls.begin(known, name, Direction.UNDO, self._now + terms.timeout)
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
        """Return whether an undo, or the question about it, has not begun because an earlier call has not returned.

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


def _no_time(terms: HandlerTerms, left: timedelta) -> str:
    if left <= timedelta(0):
        return "no time is left before NotBefore"
    return f"it takes {show_duration(terms.takes)}, longer than the time left before NotBefore"
