"""Changes of events between two documents. Pure."""

from enum import StrEnum

import msgspec

from forewarn.core.model import EventStatus
from forewarn.wire.document import Document, ScheduledEvent


class ChangeKind(StrEnum):
    """A change of an event."""

    NEW = "new"
    """The event is new; it may have started already."""
    CHANGED = "changed"
    STARTED = "started"
    """The event has started: its impact may come at any moment."""
    GONE = "gone"
    """The event is gone: it has no impact any more."""


class Ending(StrEnum):
    """Why an event is gone. The document does not say so: it is inferred from the documents before."""

    COMPLETED = "completed"
    """The event had been seen as Started."""
    CANCELED = "canceled"
    """The event cannot have started since the last document."""
    UNKNOWN = "unknown"
    """The event may have started and ended between two requests."""


class Change(msgspec.Struct, frozen=True):
    """The change of one event from one document to the next."""

    kind: ChangeKind
    event: ScheduledEvent
    """The current event; the last one seen if it is gone."""
    before: ScheduledEvent | None = None
    ending: Ending | None = None
    """Set for events that are gone."""


def changes(before: Document | None, after: Document) -> tuple[Change, ...]:
    """Return one change per event that differs: events that are gone first, then in document order."""
    known = {event.id: event for event in before.events} if before else {}
    there = {event.id: event for event in after.events}
    others = [_change(known.get(event.id), event) for event in there.values() if known.get(event.id) != event]
    gone = [event for event in known.values() if event.id not in there]
    rise = after.incarnation - before.incarnation if before else 0
    # Each of these differences raises the incarnation by one. An event that started and ended between the documents
    # would have raised it once more; so would an event that came and went, and then nothing is certain.
    # Events that cannot be read may have changed in any way.
    all_was_read = not after.unreadable and not (before and before.unreadable)
    none_started = all_was_read and 1 <= rise <= len(gone) + len(others)
    return (*(Change(ChangeKind.GONE, event, event, _ending(event, none_started)) for event in gone), *others)


def _change(before: ScheduledEvent | None, event: ScheduledEvent) -> Change:
    if before is None:
        return Change(ChangeKind.NEW, event)
    has_started = event.status == EventStatus.STARTED != before.status
    return Change(ChangeKind.STARTED if has_started else ChangeKind.CHANGED, event, before)


def _ending(event: ScheduledEvent, none_started: bool) -> Ending:  # noqa: FBT001 - of two words one is plain
    if event.status == EventStatus.STARTED:
        return Ending.COMPLETED
    return Ending.CANCELED if none_started else Ending.UNKNOWN
