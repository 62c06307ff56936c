"""An event as clients and notifications hand it on: the keys and words of the newest document."""

import msgspec

from forewarn.core.model import Event, EventSource, EventStatus, EventType
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, show_id
from forewarn.wire.dates import show_time
from forewarn.wire.document import ScheduledEvent


class EventJson(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """One event as JSON has it, its keys in the order of the document."""

    event_id: str
    event_status: str
    event_type: str
    resource_type: str = "VirtualMachine"
    resources: tuple[str, ...]
    not_before: str
    description: str
    event_source: str
    duration_in_seconds: int


def make_event_json(event: ScheduledEvent) -> EventJson:
    """Decode an event; unknown values are passed on unchanged."""
    return EventJson(
        event_id=event.shown_id,
        event_status=show_status(event.status),
        event_type=show_type(event.type),
        resources=event.resources,
        # Azure: the key stays once the event has started, and its value is empty.
        not_before=show_time(event.not_before) if event.not_before else "",
        description=event.description,
        event_source=show_source(event.source),
        duration_in_seconds=event.duration,
    )


class NotificationEventJson(EventJson, frozen=True, kw_only=True, rename="pascal"):
    """One event as JSON has it; the first keys are those of the document."""

    group: str
    operation: str
    by: str
    reason: str


def make_notification_event(event: Event, by: str, reason: str) -> NotificationEventJson:
    """Serialize an event, finished or not, with the cause and the reason of its last change."""
    return NotificationEventJson(
        event_id=show_id(event.id),
        event_status=STATUSES[event.status],
        event_type=TYPES[event.type],
        resources=event.resources,
        # Azure: the key stays once the event has started, and its value is empty.
        not_before=show_time(event.not_before) if event.status is EventStatus.SCHEDULED else "",
        description=event.description,
        event_source=SOURCES[event.source],
        duration_in_seconds=event.duration,
        group=event.group,
        operation=event.operation,
        by=by,
        reason=reason,
    )


def show_type(type_: EventType | str) -> str:
    return TYPES[type_] if isinstance(type_, EventType) else type_


def show_status(status: EventStatus | str) -> str:
    return STATUSES[status] if isinstance(status, EventStatus) else status


def show_source(source: EventSource | str | None) -> str:
    return SOURCES[source] if isinstance(source, EventSource) else source or ""
