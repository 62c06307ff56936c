"""Enrolment: when a group is switched on and off, and records of its requests.

A group is on from the first request of one of its VMs until 24 hours without a request. While it is off,
user-initiated operations start at once; platform operations are announced nevertheless.
"""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core.commands import Enrol, RecordAsked, RecordFetched, SwitchOff
from forewarn.core.facts import Asked, Enrolled, Fetched, SwitchedOff
from forewarn.core.fleet import Fleet
from forewarn.core.notice import Rules


def enrol(fleet: Fleet, command: Enrol, now: datetime) -> Iterator[Enrolled]:
    """Switch the group on, if it is off."""
    group = fleet.groups.get(command.group)
    if group and group.enrolled_at is None:
        yield Enrolled(group.name, now, command.vm)


def record_asked(fleet: Fleet, command: RecordAsked, now: datetime, rules: Rules) -> Iterator[Asked]:
    """Update marks that are outdated."""
    marks = tuple(
        mark
        for mark in command.marks
        if (group := fleet.groups.get(mark.group))
        and group.enrolled_at
        and (
            group.asked_at is None
            or group.asked_at > now  # recorded by a clock that was ahead
            or (now - group.asked_at >= rules.mark_after and mark.at > group.asked_at)
        )
    )
    if marks:
        yield Asked(marks)


def switch_off(fleet: Fleet, command: SwitchOff, now: datetime, rules: Rules) -> Iterator[SwitchedOff]:
    """Switch off the groups whose last request, by mark and by record, is too long ago."""
    for name, at in {mark.group: mark.at for mark in command.marks}.items():
        group = fleet.groups.get(name)
        # A mark in the future was recorded by a clock that was ahead, and is ignored.
        if group and group.enrolled_at:
            asked_at = max(at, group.asked_at) if group.asked_at and group.asked_at <= now else at
            if now - asked_at >= rules.idle_after:
                yield SwitchedOff(name, now)


def record_fetched(fleet: Fleet, command: RecordFetched) -> Iterator[Fetched]:
    """Record which VMs fetched an event for the first time.

    The event may have ended since; its timeline shows the fetch nevertheless.
    """
    seen: set[tuple[str, str]] = set()
    fetches = []
    for fetch in command.fetches:
        event = fleet.events.get(fetch.event)
        is_known = event is not None and fetch.vm in event.fetched_by
        if not is_known and (fetch.event, fetch.vm) not in seen:
            seen.add((fetch.event, fetch.vm))
            fetches.append(fetch)
    if fetches:
        yield Fetched(tuple(fetches))
