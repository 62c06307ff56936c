"""Decides incrementally: like ``react``, but considers only events with a result that can have changed.

An event is considered again when

- a fact about it was stored, or one of its handlers is being called or asked (at most one event per handler);
- the undo of one of its shared handlers is to be repeated, which other events can prevent;
- its wake-up time has come;
- a handler it waits for is free: the first event that waits, then the next, until one of them takes the handler.

All events are considered when the document, the memory or the settings are replaced, or the clock was set back.
Considering an event without need has no effect.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from itertools import count
from operator import is_

from forewarn.agent.decision.actions import AskHandler, DecisionSettings, Reaction
from forewarn.agent.decision.facts import AgentFact, DocumentShown
from forewarn.agent.decision.handler_calls import CallIndex
from forewarn.agent.decision.memory import AgentMemory, KnownEvent
from forewarn.agent.decision.reaction import DecisionPass, is_news, react
from forewarn.wire.document import Document


class Decider:
    """Caches between two passes what each event waits for. All of it can be derived again from the memory."""

    def __init__(self) -> None:
        self.considered = 0
        """How many times an event was considered so far."""
        self._basis: tuple[object, ...] = ()
        """The inputs of the previous pass; empty before the first."""
        self._now = datetime.min.replace(tzinfo=UTC)
        self._rebuild(AgentMemory())

    def reset(self) -> None:
        """Consider all events in the next pass; needed when facts of a reaction could not be stored."""
        self._basis = ()

    def note_facts(self, facts: Iterable[AgentFact]) -> None:
        """Mark the events of facts that the memory has applied."""
        self._touched |= {fact.event: None for fact in facts if not isinstance(fact, DocumentShown)}

    def react(
        self,
        memory: AgentMemory,
        document: Document | None,
        now: datetime,
        decision_settings: DecisionSettings,
        boot: str = "",
    ) -> Reaction:
        """Return what ``react`` returns, without actions that were returned before and are under way."""
        basis = (memory, memory.document, document, decision_settings)
        if self._basis and all(map(is_, basis, self._basis)) and now >= self._now:
            self._update_index(memory)
        elif is_news(document, memory):
            return react(memory, document, now, decision_settings, boot)
        else:
            self._rebuild(memory)
        self._basis, self._now = basis, now
        return self._pass(
            memory, DecisionPass(self._index, now, decision_settings, has_document=document is not None)
        )

    def _rebuild(self, memory: AgentMemory) -> None:
        self._index = CallIndex()
        self._touched = dict.fromkeys(memory.events)
        """Events with new facts, in the order of their first fact."""
        self._numbers: dict[str, int] = {}
        """By event: its position in the memory."""
        self._counter = count()
        self._always: set[str] = set()
        """Events that wait for the result of a call, or that other events can prevent from being undone."""
        self._waiting: dict[str, list[tuple[int, str]]] = {}
        """By handler: heap of the events that wait for it, by number."""
        self._queues: dict[str, set[str]] = {}
        """By event: the handlers that have it in their heap."""
        self._wakes: dict[str, datetime] = {}
        self._wake_order: list[tuple[datetime, str]] = []
        """Heap of ``_wakes``; entries that differ from it are out of date."""
        self._update_index(memory)

    def _update_index(self, memory: AgentMemory) -> None:
        for event in self._touched:
            self._index.remove(event)
            if known := memory.events.get(event):
                self._index.add(known)
                if event not in self._numbers:
                    self._numbers[event] = next(self._counter)
            else:
                self._numbers.pop(event, None)
                self._queues.pop(event, None)
                self._wakes.pop(event, None)
                self._always.discard(event)

    def _pass(self, memory: AgentMemory, deciding: DecisionPass) -> Reaction:
        events = self._always.union(self._touched, self._due(), *self._index.running.values())
        self._touched = {}
        order = [(self._numbers[event], event) for event in events if event in self._numbers]
        heapify(order)
        offered: dict[str, list[str]] = {}
        """By event: the free handlers for which it is first in the queue."""

        def offer(handler: str) -> None:
            if handler not in deciding.calls.busy and (first := self._pop_waiting(handler)):
                offered.setdefault(first[1], []).append(handler)
                heappush(order, first)

        for handler in self._waiting:
            offer(handler)
        while order:
            first = heappop(order)
            while order and order[0] == first:
                heappop(order)
            event = first[1]
            self._consider(memory.events[event], deciding)
            for handler in offered.pop(event, ()):
                offer(handler)
        deciding.reaction.wake_at = self._next_wake()
        return deciding.reaction

    def _consider(self, known: KnownEvent, deciding: DecisionPass) -> None:
        self.considered += 1
        event, reaction = known.event.id, deciding.reaction
        acts = len(reaction.acts)
        deciding.forget_waits()
        deciding.consider(known)
        self._always.discard(event)
        if deciding.calls.depends_on_others or any(isinstance(act, AskHandler) for act in reaction.acts[acts:]):
            self._always.add(event)
        queues = self._queues.setdefault(event, set())
        for handler in deciding.calls.waits_for - queues:
            queues.add(handler)
            heappush(self._waiting.setdefault(handler, []), (self._numbers[event], event))
        if reaction.wake_at is None:
            self._wakes.pop(event, None)
        elif self._wakes.get(event) != reaction.wake_at:
            self._wakes[event] = reaction.wake_at
            heappush(self._wake_order, (reaction.wake_at, event))

    def _pop_waiting(self, handler: str) -> tuple[int, str] | None:
        """Remove and return the first event that waits for a handler."""
        heap = self._waiting[handler]
        while heap:
            number, event = heappop(heap)
            if self._numbers.get(event) == number:
                self._queues[event].discard(handler)
                return number, event
        return None

    def _due(self) -> Iterator[str]:
        """Yield the events with a wake-up time that has come."""
        while (at := self._next_wake()) is not None and at <= self._now:
            _, event = heappop(self._wake_order)
            del self._wakes[event]
            yield event

    def _next_wake(self) -> datetime | None:
        order = self._wake_order
        while order and self._wakes.get(order[0][1]) != order[0][0]:
            heappop(order)
        return order[0][0] if order else None
