"""The promises about the order of events, by their records; judged at the end, as long as the clock was right.

user operations, Preempt, Terminate   wait for a Started event of one of their VMs, and for nothing else
platform maintenance                  waits for other maintenance and failures of its group too, in its turn
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import combinations
from math import inf

from forewarn.simulator.promises.event_memory import EventMemory, RecordedTimeline
from forewarn.simulator.promises.memory import CheckerMemory, wall_second
from forewarn.simulator.promises.terms import RECORDED_NOT_BEFORE, TermPromises

PROMPT = 1.0
"""Seconds in which an event starts that may start, while nothing fails."""
_ONCE = ("vm restart", "vm redeploy", "vm evict", "vm delete")
_UNFINISHED = ("Scheduled", "Started")


class _Span:
    """When an event was announced, became ready, started and ended, by its record."""

    def __init__(self, event: EventMemory, timeline: RecordedTimeline) -> None:
        self.event = event
        self.steps = timeline.steps
        self.operation = timeline.operation
        self.announced = wall_second(timeline.steps[0].at)
        started = event.recorded_start
        self.started = inf if started is None else wall_second(started)
        # Not the last step: until its end is durable and published, a VM may still be shown the event.
        ends = [step for step in timeline.steps if step.what != "fetched"]
        self.ended = inf if timeline.status in _UNFINISHED else wall_second(ends[-1].at)
        moves = [
            (wall_second(step.at), found)
            for step in timeline.steps
            if step.what in ("Scheduled", "postponed", "advanced")
            and (found := RECORDED_NOT_BEFORE.search(step.detail))
        ]
        unmoved = self.announced if event.without_notice else inf
        self.not_before = _second(moves[-1][1][1]) if moves else unmoved
        self.moved_at = moves[-1][0] if moves else self.announced
        self.is_maintenance = event.takes_turns
        self.is_quiet = any("quiet hours" in step.detail for step in timeline.steps)

    def is_over_until(self, at: float) -> bool:
        """Return whether it is known to have ended before a second."""
        return at == inf or self.event.is_over_since(at)

    @property
    def due_at(self) -> float:
        """When it was ready at the latest: its NotBefore had come."""
        return max(self.not_before, self.moved_at)

    @property
    def first_ready_at(self) -> float:
        """When it can have been ready at the earliest."""
        approved = (wall_second(step.at) for step in self.steps if step.what == "approved")
        return min(*approved, self.due_at, self.started) if self.is_maintenance else self.started


class TurnPromises:
    """Compares the records of events with each other."""

    def __init__(self, memory: CheckerMemory, terms: TermPromises) -> None:
        self._memory = memory
        self._terms = terms
        self._report = memory.report

    def settle(self, now: float) -> None:
        """Check all recorded events of each group against each other."""
        right_until = self._memory.clock.right_until
        everything = [
            _Span(event, event.timeline)
            for event in self._memory.events.values()
            if event.timeline and event.timeline.steps and event.group
        ]
        if right_until > now:
            self._keeps_the_limit([span for span in everything if span.event.fields.get("source") == "User"], now)
        by_group: dict[str, list[_Span]] = {}
        for span in everything:
            by_group.setdefault(span.event.group, []).append(span)
        for spans in by_group.values():
            spans.sort(key=lambda span: (span.started, span.ended, span.event.id))
            for one, other in combinations(spans, 2):
                if one.is_over_until(right_until) and other.is_over_until(right_until):
                    self._takes_turns(one, other, now)
                    self._is_asked_for_once(one, other, now)
            for span in (each for each in spans if each.is_over_until(right_until)):
                self._waits_for_nothing_else(span, [each for each in spans if each is not span], now)

    def _keeps_the_limit(self, spans: list[_Span], now: float) -> None:
        """Check that no more operations of users are Scheduled than may be, and none is refused while fewer are."""
        limit = self._memory.plan.user_limit
        scheduled = [(span.announced, min(span.started, span.ended)) for span in spans]
        for span in spans if limit else ():
            count = sum(begin <= span.announced < end for begin, end in scheduled)
            if count > limit:
                self._report(now, f"{span.event} was announced as one of {count} of users, and the limit is {limit}")
        for sent, ended in self._memory.limited:
            count = sum(begin <= ended + PROMPT and end >= sent - PROMPT for begin, end in scheduled)
            if count < limit or not limit:
                self._report(ended, f"an operation was refused with {count} Scheduled, and the limit is {limit}")

    def _is_asked_for_once(self, one: _Span, other: _Span, now: float) -> None:
        """Check that no operation of an owner, and no end of a VM, is announced twice for one VM."""
        is_same = one.operation == other.operation and one.operation in _ONCE
        both = set(one.event.resources).intersection(other.event.resources)
        if is_same and both and one.announced < other.ended and other.announced < one.ended:
            self._report(now, f"{one.event} and {other.event} of {', '.join(sorted(both))} were unfinished together")

    def _takes_turns(self, one: _Span, other: _Span, now: float) -> None:
        """Check maintenance that started as the later one of two."""
        if not other.is_maintenance or other.started == inf:
            return
        domains = self._memory.members.domains_of((*one.event.resources, *other.event.resources))
        if domains is None or len(domains) == 1:
            return
        if other.started < one.ended and (one.is_maintenance or one.event.is_failure):
            early = one.ended - other.started
            self._report(now, f"{other.event} started {early:.3f} s before {one.event} had ended, in another domain")
        # Maintenance that waits is not overtaken by later maintenance.
        was_first = other.not_before < one.not_before and other.due_at + PROMPT < one.started < other.started
        if one.is_maintenance and was_first and not (one.is_quiet or other.is_quiet):
            self._report(now, f"{one.event} overtook {other.event}, which was due at {other.due_at:.0f} s")

    def _waits_for_nothing_else(self, span: _Span, others: list[_Span], now: float) -> None:
        if span.started == inf or span.is_quiet:
            return
        ready = free = min(span.due_at, self._terms.sufficient_at(span.event, span.started))
        blockers = list(_blockers(span, others))
        while blocking := [end for begin, end in blockers if begin <= free + PROMPT < end]:
            free = max(free, *blocking)
        waited = span.started - free
        is_undisturbed = self._memory.service.is_unchanged(
            free - PROMPT, span.started
        ) and not self._memory.disk.may_fail(free, span.started)
        if waited > PROMPT and is_undisturbed:
            self._report(
                now, f"{span.event} could start at {ready:.1f} s and waited for {waited:.1f} s without a cause"
            )


def _blockers(span: _Span, others: list[_Span]) -> Iterator[tuple[float, float]]:
    """Yield from when to when this event may have to wait for each of the others."""
    for other in others:
        if span.is_maintenance and (other.is_maintenance or other.event.is_failure):
            yield other.first_ready_at, other.ended
        elif set(other.event.resources).intersection(span.event.resources):
            yield other.started, other.ended


def _second(text: str) -> float:
    return wall_second(datetime.fromisoformat(text).replace(tzinfo=UTC))
