"""The timeline of an event, from its journal entries.

Steps are ordered by time. Fetches are journalled in batches, so a crash may lose those of the last seconds; a
timeline without fetches says so.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import asdict

from forewarn.config.durations import show_duration
from forewarn.core import facts, lifecycle
from forewarn.core.facts import Entry, EventFact
from forewarn.core.model import Event, EventStatus
from forewarn.core.subjects import event_of
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, show_id

_FETCHED = "fetched"


class EventView(msgspec.Struct, frozen=True):
    """An event as its VMs see it."""

    id: str
    type: str
    status: str
    not_before: datetime | None
    """In whole seconds, as its VMs see it; None if the event is no longer Scheduled."""
    resources: tuple[str, ...]


class TimelineStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a timeline."""

    at: datetime
    what: str
    """The new status, or the name of the step."""
    by: str = ""
    detail: str = ""


class Timeline(EventView, frozen=True, kw_only=True):
    """The timeline of an event from its announcement to now, or to its end."""

    source: str
    group: str
    operation: str
    description: str
    duration: int
    host: str
    update_domain: int
    announced_at: datetime
    steps: tuple[TimelineStep, ...]
    seconds: dict[str, float]
    """Durations: until the first fetch, the first approval and the start; of the impact; in total."""
    target: str = ""
    """The target host, if one was given."""
    earliest_start: datetime | None = None
    """The earliest start, if the quiet hours of its group prevent a start at ``not_before``."""
    progress: str = ""
    """The progress of the impact, as the driver describes it."""


def read_event(id: str, entries: Iterable[Entry], known: Event | None = None) -> Event | None:
    """Return the status of an event; None if its announcement was deleted and the event is unknown."""
    event = known
    for entry in entries:
        for fact in entry.facts:
            if isinstance(fact, EventFact) and event_of(fact) == id:
                event = lifecycle.follow(event, fact)
    return event


def build_timeline(id: str, entries: Iterable[Entry]) -> Timeline | None:
    """Build the timeline of an event; None if its announcement was deleted."""
    entries = list(entries)
    event = read_event(id, entries)
    if event is None:
        return None
    steps = _ordered(_steps(id, entries))
    return Timeline(
        **asdict(view_event(event)),
        source=SOURCES[event.source],
        group=event.group,
        operation=event.operation,
        description=event.description,
        duration=event.duration,
        host=event.host,
        target=event.target,
        update_domain=event.update_domain,
        announced_at=event.announced_at,
        steps=steps,
        seconds=_seconds(steps),
    )


def _ordered(steps: Iterable[TimelineStep]) -> tuple[TimelineStep, ...]:
    """Keep the order of the journal; only fetches, which are recorded later, are sorted by time."""
    ordered: list[TimelineStep] = []
    for step in steps:
        place = len(ordered)
        while step.what == _FETCHED and place > 1 and ordered[place - 1].at > step.at:
            place -= 1
        ordered.insert(place, step)
    return tuple(ordered)


def _steps(id: str, entries: Iterable[Entry]) -> Iterator[TimelineStep]:
    attempts, rollout = 0, ""
    for entry in entries:
        for fact in entry.facts:
            if isinstance(fact, facts.Fetched):
                for fetch in fact.fetches:
                    if fetch.event == id:
                        yield TimelineStep(at=fetch.at, what=_FETCHED, by=fetch.vm)
            elif isinstance(fact, facts.EventCreated):
                if fact.event.id == id:
                    rollout = fact.event.rollout
                    yield from _announcement_steps(entry, fact)
            elif isinstance(fact, facts.EventChanged) and fact.event == id:
                attempts += isinstance(fact, facts.Attempted)
                yield _step(fact, attempts, rollout)


def _announcement_steps(entry: Entry, fact: facts.EventCreated) -> Iterator[TimelineStep]:
    event = fact.event
    if event.without_notice:
        detail = f"{event.operation}; no notice is owed: {event.without_notice}"
    else:
        notice = show_duration(timedelta(seconds=int((event.not_before - event.announced_at).total_seconds())))
        detail = f"{event.operation}, not before {_shown(event.not_before)} ({notice} of notice)"
    detail += f"; {event.reason}" if event.reason else ""
    yield TimelineStep(at=event.announced_at, what=STATUSES[EventStatus.SCHEDULED], by=str(entry.by), detail=detail)
    if isinstance(fact, facts.StartedAtOnce):
        yield TimelineStep(
            at=event.started_at or entry.at,
            what=STATUSES[event.status],
            detail=f"at once: {event.without_notice}",
        )


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def _step(fact: facts.EventChanged, attempts: int, rollout: str) -> TimelineStep:
    match fact:
        case facts.Approved(at=at, by=by, counts=counts):
            detail = "" if counts else "recorded, but it does not count: each VM of the event must approve for itself"
            return TimelineStep(at=at, what="approved", by=str(by), detail=detail)
        case facts.Waiting(at=at, until=datetime() as until):
            window = f", and a window of rollout {rollout} is open" if rollout else ""
            detail = f"until {_shown(until)}, when the group's quiet hours are over{window}"
            return TimelineStep(at=at, what="waiting", detail=detail)
        case facts.Waiting(at=at, behind=behind):
            detail = f"until event {show_id(behind)} has ended" if behind else "for its time: no longer approved"
            return TimelineStep(at=at, what="waiting", detail=detail)
        case facts.Postponed(at=at, by=by, not_before=not_before, reason=reason):
            why = f": {reason}" if reason else ""
            return TimelineStep(
                at=at, what="postponed", by=str(by), detail=f"now not before {_shown(not_before)}{why}"
            )
        case facts.BroughtForward(at=at, not_before=not_before):
            return TimelineStep(at=at, what="advanced", detail=f"now not before {_shown(not_before)}")
        case facts.Attempted(at=at, term=term, node=node):
            leader = f" by node {node} in term {term}" if term else ""
            again = f", attempt {attempts}" if attempts > 1 else ""
            return TimelineStep(at=at, what="attempted", detail=f"the driver was called{leader}{again}")
        case (
            facts.Started(at=at, because=detail)
            | facts.Completed(at=at, detail=detail)
            | facts.Failed(at=at, reason=detail)
            | facts.Canceled(at=at, because=detail)
        ):
            return TimelineStep(at=at, what=STATUSES[lifecycle.LEADS_TO[type(fact)]], detail=detail)


def _seconds(steps: tuple[TimelineStep, ...]) -> dict[str, float]:
    first: dict[str, datetime] = {}
    for step in steps:
        first.setdefault(step.what, step.at)
    ended = next((first[STATUSES[end]] for end in lifecycle.ENDS if STATUSES[end] in first), None)
    announced, started = first[STATUSES[EventStatus.SCHEDULED]], first.get(STATUSES[EventStatus.STARTED])
    spans = {
        "until_fetched": (announced, first.get("fetched")),
        "until_approved": (announced, first.get("approved")),
        "until_started": (announced, started),
        "impact": (started, ended),
        "whole": (announced, ended),
    }
    return {
        name: max(0.0, round((end - begin).total_seconds(), 3))
        for name, (begin, end) in spans.items()
        if begin and end
    }


def view_event(event: Event) -> EventView:
    not_before = event.not_before.replace(microsecond=0) if event.status is EventStatus.SCHEDULED else None
    return EventView(show_id(event.id), TYPES[event.type], STATUSES[event.status], not_before, event.resources)
