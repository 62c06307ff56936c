"""What became of events between two documents. Pure."""

from enum import StrEnum

import msgspec

from forewarn.core.model import EventStatus
from forewarn.wire.document import Document, ScheduledEvent


class ChangeKind(StrEnum):
    """What happened to an event."""

    NEW = "new"
    """It was not there before; it may have started already."""
    CHANGED = "changed"
    STARTED = "started"
    """It may impact its VMs at any moment from now on."""
    GONE = "gone"
    """It impacts nobody any more."""


class Ending(StrEnum):
    """Why an event is gone. No service says so: it is told from what was seen."""

    COMPLETED = "completed"
    """It was seen started."""
    CANCELED = "canceled"
    """It cannot have started since it was last seen."""
    UNKNOWN = "unknown"
    """It may have started and ended while nobody looked."""


class Change(msgspec.Struct, frozen=True):
    """One event's step from one document to the next."""

    kind: ChangeKind
    event: ScheduledEvent
    """As it is now; as it was last seen when it is gone."""
    before: ScheduledEvent | None = None
    ending: Ending | None = None
    """Of what is gone."""


def changes(before: Document | None, after: Document) -> tuple[Change, ...]:
    """Return one change for each event that differs: first what is gone, then the others as the document has them."""
    known = {event.id: event for event in before.events} if before else {}
    there = {event.id: event for event in after.events}
    others = [_change(known.get(event.id), event) for event in there.values() if known.get(event.id) != event]
    gone = [event for event in known.values() if event.id not in there]
    rise = after.incarnation - before.incarnation if before else 0
    # Each of these differences raises the incarnation by one. An event that started unseen and then ended would have
    # raised it once more; so would one that came and went unseen, and then nothing is certain.
    # What cannot be read may have changed in any way.
    all_was_read = not after.unreadable and not (before and before.unreadable)
    nobody_started = all_was_read and 1 <= rise <= len(gone) + len(others)
    return (*(Change(ChangeKind.GONE, event, event, _ending(event, nobody_started)) for event in gone), *others)


def _change(before: ScheduledEvent | None, event: ScheduledEvent) -> Change:
    if before is None:
        return Change(ChangeKind.NEW, event)
    has_started = event.status == EventStatus.STARTED != before.status
    return Change(ChangeKind.STARTED if has_started else ChangeKind.CHANGED, event, before)


def _ending(event: ScheduledEvent, nobody_started: bool) -> Ending:  # noqa: FBT001 - of two words one is plain
    if event.status == EventStatus.STARTED:
        return Ending.COMPLETED
    return Ending.CANCELED if nobody_started else Ending.UNKNOWN
