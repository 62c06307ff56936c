"""One event's life. Every change of an event's status is made in this file.

    new --Announced--> Scheduled --Started--> Started --Completed--> Completed
     |                    |                      |
     |                    |                      +--Failed--> Failed
     |                    |                      +--Attempted--> Started
     |                    +--Canceled--> Canceled
     |                    +--Approved | Waiting | Postponed | BroughtForward--> Scheduled
     +--StartedAtOnce--> Started

The arrows are the facts in ``TRANSITIONS``; every other step raises. An event has one id for life. Scheduled and
Started events are in the fleet; with the other three statuses an event leaves it, and is read from the journal.
"""

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forewarn.core.errors import IllegalTransition, Refused
from forewarn.core.facts import (
    Announced,
    Approved,
    Attempted,
    BroughtForward,
    Canceled,
    ClockStepped,
    Completed,
    EventChanged,
    EventCreated,
    EventFact,
    Failed,
    Fetch,
    Postponed,
    Started,
    StartedAtOnce,
    Waiting,
)
from forewarn.core.model import CallerKind, Event, EventStatus

if TYPE_CHECKING:
    from datetime import datetime

_VM = CallerKind.VM
LONGEST_ABSENCE = timedelta(days=30)
"""A start of the service that is later than this after the last fact counts as a step of the clock."""

TRANSITIONS: dict[tuple[EventStatus | None, type[EventFact]], EventStatus] = {
    (None, Announced): EventStatus.SCHEDULED,
    (None, StartedAtOnce): EventStatus.STARTED,
    (EventStatus.SCHEDULED, Approved): EventStatus.SCHEDULED,
    (EventStatus.SCHEDULED, Waiting): EventStatus.SCHEDULED,
    (EventStatus.SCHEDULED, Postponed): EventStatus.SCHEDULED,
    (EventStatus.SCHEDULED, BroughtForward): EventStatus.SCHEDULED,
    (EventStatus.SCHEDULED, Started): EventStatus.STARTED,
    (EventStatus.SCHEDULED, Canceled): EventStatus.CANCELED,
    (EventStatus.STARTED, Attempted): EventStatus.STARTED,
    (EventStatus.STARTED, Completed): EventStatus.COMPLETED,
    (EventStatus.STARTED, Failed): EventStatus.FAILED,
}
"""The status that a fact leads to, by the status before it; None before the event exists."""

LEADS_TO = {fact: status for (before, fact), status in TRANSITIONS.items() if status is not before}
"""The facts that change the status, and the status that each leads to."""

ENDS = tuple(status for status in EventStatus if all(before is not status for before, _ in TRANSITIONS))
"""The statuses with which an event leaves the fleet."""

VISIBLE = frozenset((*LEADS_TO, Postponed, BroughtForward))
"""The facts that change what the newest api-version shows, and so raise the incarnation."""


def allows(status: EventStatus | None, fact: type[EventFact]) -> bool:
    """Return whether an event with this status allows the step."""
    return (status, fact) in TRANSITIONS


def status_after(status: EventStatus | None, fact: EventFact) -> EventStatus:
    """Return the status after a fact; raise if the table has no such transition."""
    try:
        return TRANSITIONS[status, type(fact)]
    except KeyError:
        id_ = fact.event.id if isinstance(fact, EventCreated) else fact.event
        raise IllegalTransition(
            f"event {id_} is {status or 'new'}; the fact {type(fact).__name__} cannot follow"
        ) from None


def begin(fact: EventCreated) -> Event:
    if fact.event.status is not status_after(None, fact):
        raise IllegalTransition(f"event {fact.event.id} cannot begin as {fact.event.status} by {type(fact).__name__}")
    return fact.event


def after(event: Event, fact: EventChanged) -> Event:
    """Return the event after ``fact``; its status is one of ``ENDS`` if it leaves the fleet."""
    status = status_after(event.status, fact)
    if type(fact) is Approved:
        return _after_approval(event, fact)
    match fact:
        case Started(at=at):
            return replace(event, status=status, started_at=at, waits_for="", waits_until=None)
        case Attempted(at=at, term=term, node=node):
            attempts = event.attempts + 1
            return replace(event, attempted_at=at, attempts=attempts, attempt_term=term, attempt_node=node)
        case Canceled() | Completed() | Failed():
            return replace(event, status=status)
        case Waiting(behind=behind, until=until):
            return replace(event, waits_for=behind, waits_until=until)
        case Postponed(at=at, seconds=seconds, not_before=not_before):
            return replace(
                event,
                not_before=not_before,
                postponed=event.postponed + seconds,
                waits_for="",
                waits_until=None,
                clock_shift=event.clock_shift
                if event.not_before > at
                else 0,  # it then counts from the present clock
            )
        case BroughtForward(not_before=not_before):
            return replace(event, not_before=not_before)


def _after_approval(event: Event, fact: Approved) -> Event:
    if fact.by.kind is not _VM:
        return replace(event, approved_by=fact.by.name)
    if fact.counts:
        return replace(event, approvals=(*event.approvals, fact.by.name))
    return replace(event, neighbours=(*event.neighbours, fact.by.name))


def follow(event: Event | None, fact: EventFact) -> Event | None:
    """Return the event after a recorded fact; None if its beginning is unknown.

    An event from a later fleet is beyond the fact, and stays unchanged.
    """
    if isinstance(fact, EventCreated):
        return begin(fact)
    return after(event, fact) if event and allows(event.status, type(fact)) else event


def fetched(event: Event, fetch: Fetch) -> Event:
    return replace(event, fetched_by=(*event.fetched_by, fetch.vm))


def after_step(event: Event, step: ClockStepped) -> Event:
    shift = event.clock_shift + ceil((step.at - step.expected).total_seconds())
    if step.at < step.expected and 0 < shift < LONGEST_ABSENCE.total_seconds():
        shift = 0  # the clock is right again; the rest is time in which no service ran
    return replace(event, clock_shift=shift)


def without(event: Event, vm: str) -> Event:
    return replace(event, gone=(*event.gone, vm))


def announce(event: Event) -> Announced:
    return Announced(event)


def start_at_once(event: Event, now: "datetime") -> StartedAtOnce:
    return StartedAtOnce(replace(event, status=LEADS_TO[StartedAtOnce], started_at=now))


def start(event: Event, now: "datetime", because: str) -> Started:
    return Started(event.id, now, because, group=event.group)


def wait(event: Event, now: "datetime", behind: Event) -> Waiting:
    """Make a ready event wait for its turn."""
    return Waiting(event.id, now, behind.id, group=event.group)


def bring_forward(event: Event, now: "datetime", not_before: "datetime") -> BroughtForward:
    """Move NotBefore of a Scheduled event earlier."""
    return BroughtForward(event.id, now, not_before, group=event.group)


def keep_quiet(event: Event, now: "datetime", until: "datetime") -> Waiting:
    """Make a ready event wait for the end of its group's quiet hours."""
    return Waiting(event.id, now, behind="", until=until, group=event.group)


def stop_waiting(event: Event, now: "datetime") -> Waiting:
    """Make an event that is no longer ready wait for NotBefore only."""
    return Waiting(event.id, now, behind="", group=event.group)


def attempt(event: Event, now: "datetime", term: int, node: str, driver: str = "") -> Attempted:
    """Record that the driver is about to be called, by this node in this term."""
    if not allows(event.status, Attempted):
        raise Refused(f"event {event.id} has not started")
    return Attempted(event.id, now, term, node, driver, group=event.group)


def complete(event: Event, now: "datetime", detail: str = "") -> Completed:
    return Completed(event.id, now, detail, group=event.group)


def fail(event: Event, now: "datetime", reason: str) -> Failed:
    return Failed(event.id, now, reason, group=event.group)


def cancel(event: Event, now: "datetime", because: str) -> Canceled:
    if not allows(event.status, Canceled):
        raise Refused(f"event {event.id} has started and can no longer be canceled; wait until it ends")
    return Canceled(event.id, now, because, group=event.group)
