"""One event's life. Every change of an event's status is made in this file.

      (announced)                        (no notice owed)
           |                                    |
           v                                    v
       Scheduled --approved | due, its turn--> Started --done--> Completed
           |                                    |
           +--canceled--> Canceled              +--failed--> Failed

All arrows are one-way, and an event has one id for life. Scheduled and Started events live in the fleet;
the other three are where an event leaves it, and can be read in the journal.
"""

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from forewarn.core.errors import Refused
from forewarn.core.facts import (
    Announced,
    Approved,
    Attempted,
    BroughtForward,
    Canceled,
    ClockStepped,
    Completed,
    EventChanged,
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

LONGEST_ABSENCE = timedelta(days=30)
"""A start later than this after the last fact is taken for a step of the clock."""

VISIBLE = (Announced, StartedAtOnce, Postponed, BroughtForward, Started, Completed, Failed, Canceled)
"""The facts that change what the newest api-version shows, and so raise the incarnation."""


def after(event: Event, fact: EventChanged) -> Event | None:
    """Return what ``fact`` made of the event; None when it left the fleet."""
    match fact:
        case Approved(by=by) if by.kind is not CallerKind.VM:
            return replace(event, approved_by=by.name)
        case Approved(by=by, counts=True):
            return replace(event, approvals=(*event.approvals, by.name))
        case Approved(by=by):
            return replace(event, neighbours=(*event.neighbours, by.name))
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
                else 0,  # it counts from the present clock then
            )
        case BroughtForward(not_before=not_before):
            return replace(event, not_before=not_before)
        case Started(at=at):
            return replace(event, status=EventStatus.STARTED, started_at=at, waits_for="", waits_until=None)
        case Attempted(at=at):
            return replace(event, attempted_at=at, attempts=event.attempts + 1)
        case Completed() | Failed() | Canceled():
            return None


def event_of(fact: EventChanged) -> str:
    """Return the id of the event that a fact changed; only such facts have one."""
    return fact.event


def fetched(event: Event, fetch: Fetch) -> Event:
    """Return the event with the note that a VM was shown it."""
    return replace(event, fetched_by=(*event.fetched_by, fetch.vm))


def after_step(event: Event, step: ClockStepped) -> Event:
    """Return the event after the wall clock was set."""
    shift = event.clock_shift + ceil((step.at - step.expected).total_seconds())
    if step.at < step.expected and 0 < shift < LONGEST_ABSENCE.total_seconds():
        shift = 0  # the clock is right again; what is left is time in which no service ran
    return replace(event, clock_shift=shift)


def without(event: Event, vm: str) -> Event:
    """Return the event after one of its VMs is gone for good."""
    return replace(event, gone=(*event.gone, vm))


def announce(event: Event) -> Announced:
    """Let the event be Scheduled."""
    return Announced(event)


def start_at_once(event: Event, now: "datetime") -> StartedAtOnce:
    """Let the event be born Started."""
    return StartedAtOnce(replace(event, status=EventStatus.STARTED, started_at=now))


def start(event: Event, now: "datetime", because: str) -> Started:
    """Start a Scheduled event."""
    return Started(event.id, now, because)


def wait(event: Event, now: "datetime", behind: Event) -> Waiting:
    """Let an event that may start wait for its turn."""
    return Waiting(event.id, now, behind.id)


def bring_forward(event: Event, now: "datetime", not_before: "datetime") -> BroughtForward:
    """Let a Scheduled event come earlier than announced."""
    return BroughtForward(event.id, now, not_before)


def keep_quiet(event: Event, now: "datetime", until: "datetime") -> Waiting:
    """Let an event that may start wait for the end of its group's quiet hours."""
    return Waiting(event.id, now, behind="", until=until)


def stop_waiting(event: Event, now: "datetime") -> Waiting:
    """Let an event that may no longer start wait for nothing but its time."""
    return Waiting(event.id, now, behind="")


def attempt(event: Event, now: "datetime") -> Attempted:
    """Note that the driver is about to be called."""
    if event.status is not EventStatus.STARTED:
        raise Refused(f"event {event.id} has not started")
    return Attempted(event.id, now)


def complete(event: Event, now: "datetime", detail: str = "") -> Completed:
    """End a Started event well."""
    return Completed(event.id, now, detail)


def fail(event: Event, now: "datetime", reason: str) -> Failed:
    """End a Started event badly."""
    return Failed(event.id, now, reason)


def cancel(event: Event, now: "datetime", because: str) -> Canceled:
    """Take a Scheduled event back."""
    if event.status is not EventStatus.SCHEDULED:
        raise Refused(f"event {event.id} has started and can no longer be canceled; wait until it ends")
    return Canceled(event.id, now, because)
