"""Begins calls of handlers, and shares their effects among events. Pure.

- A handler is called for one event at a time.
- A call with unknown effect, because it was interrupted or given up, is repeated if the handler repeats; else the
  handler is asked for its outcome. So is a first ``do`` that may not be the first, because the memory was damaged.
- The effect of a shared handler holds for all events: it is undone after the last of them.
- Each ``do`` that was called is undone once. If ``do`` of a shared handler was called for several events, because one
  call failed, each undo waits until no event needs the handler; the last begun is undone first, so that the state
  before the first call is restored.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from forewarn.agent.decision import plan
from forewarn.agent.decision.actions import AskHandler, CallHandler, DecisionSettings, Reaction
from forewarn.agent.decision.facts import CallBegun, CallEnded, CallShared, CallWithdrawn, UndoDue
from forewarn.agent.decision.memory import HandlerCall, HandlerStep, KnownEvent
from forewarn.agent.decision.plan import HandlerTerms
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed


def is_over(call: HandlerCall | None, terms: HandlerTerms) -> bool:
    match call:
        case HandlerCall(result=HandlerDone()):
            return True
        case HandlerCall(result=HandlerFailed(final=final), attempt=attempt):
            return final or attempt > terms.retries
        case _:
            return False


def is_running(step: HandlerStep | None) -> bool:
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
            if is_running(step):
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


class HandlerCalls:
    """The calls of one decision pass: those under way, and those that begin."""

    def __init__(
        self, index: CallIndex, now: datetime, decision_settings: DecisionSettings, reaction: Reaction
    ) -> None:
        self.busy = {name for name, events in index.running.items() if events}
        """Handlers that are being called for an event, or are about to be."""
        self.waits_for: set[str] = set()
        """The busy handlers that the events considered so far wait for."""
        self.depends_on_others = False
        """Whether what follows for the events considered so far changes with facts about other events."""
        self._in_force = index.in_force
        self._not_undone = index.not_undone
        self._now = now
        self._decision_settings = decision_settings
        self._reaction = reaction

    def forget_waits(self) -> None:
        """Reset what the events considered so far wait for."""
        self.waits_for = set()
        self.depends_on_others = False

    def begin(self, known: KnownEvent, name: str, direction: Direction, deadline: datetime) -> None:
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
            self._reaction.wake(call.ended_at + terms.retry_after)
        elif not traits.repeats and (call.is_unclear if call else known.is_doubtful and name not in known.steps):
            self.busy.add(name)
            asked = msgspec.structs.replace(run, attempt=call.attempt if call else 1)
            self._reaction.acts.append(AskHandler(asked))
        else:
            self.busy.add(name)
            self._in_force.get(name, {}).pop(known.event.id, None)
            self._reaction.facts.append(CallBegun(known.event.id, name, direction, run.attempt, self._now))
            self._reaction.acts.append(run)

    def withdraw_undo(self, known: KnownEvent, name: str) -> None:
        """Withdraw an undo that has not begun, because the effect is needed again."""
        do = known.steps[name].do
        if do and do.is_done:
            self._in_force[name][known.event.id] = known
        self._reaction.facts.append(CallWithdrawn(known.event.id, name, Direction.UNDO))

    def is_needed_by_others(self, known: KnownEvent, name: str) -> bool:
        """Return whether an undo must wait because another event relies on another call of the handler."""
        if not self._can_undo_wait(known, name):
            return False
        return self._sharer(known, name, Direction.UNDO) is None and any(self._others_in_force(known, name))

    def is_later_undone_first(self, known: KnownEvent, name: str) -> bool:
        """Return whether an undo must wait because ``do`` was called later for another event that is gone too."""
        if not self._can_undo_wait(known, name) or self._sharer(known, name, Direction.UNDO):
            return False
        order, terms = _undo_order(known, name), self._decision_settings.terms[name]
        return any(
            other.is_gone and _undo_order(other, name) > order and not is_over(other.steps[name].undo, terms)
            for other in self._not_undone.get(name, {}).values()
        )

    def _can_undo_wait(self, known: KnownEvent, name: str) -> bool:
        undo, traits = known.steps[name].undo, self._decision_settings.traits[name]
        if not traits.shared or (undo and (undo.is_running or (undo.is_unclear and not traits.repeats))):
            return False
        self.depends_on_others = True
        return True

    def let_undo_wait(self, known: KnownEvent, name: str) -> None:
        """Record that nothing may rely on ``do`` if the undo waits only for that of other events that are gone."""
        if known.steps[name].is_in_force and all(other.is_gone for other in self._others_in_force(known, name)):
            self._reaction.facts.append(UndoDue(known.event.id, name))
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
            self._reaction.facts.append(CallShared(run.event.id, run.handler, other.event.id, self._now))
        else:
            holding.pop(known.event.id, None)
            still = HandlerDone(detail=f"still needed for event {other.event.id}")
            self._reaction.facts.append(CallEnded(run.event.id, run.handler, run.direction, still, self._now))


def _undo_order(known: KnownEvent, name: str) -> tuple[datetime, str]:
    """Return the sort key of the undo of a handler: the highest is first."""
    call = known.steps[name].do
    return call.began_at if call else known.first_seen_at, known.event.id


def _attempt(call: HandlerCall | None) -> int:
    match call:
        case None:
            return 1
        case HandlerCall(is_cut_off=True, attempt=attempt):
            return attempt
        case HandlerCall(attempt=attempt):
            return attempt + 1
