"""An event as a client hands it on: the keys and words of the newest document, whatever version it came in."""

import msgspec

from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES
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
    """Say what an event is; a word that nobody knows is handed on as it came."""
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


def show_type(type_: EventType | str) -> str:
    return TYPES[type_] if isinstance(type_, EventType) else type_


def show_status(status: EventStatus | str) -> str:
    return STATUSES[status] if isinstance(status, EventStatus) else status


def show_source(source: EventSource | str | None) -> str:
    return SOURCES[source] if isinstance(source, EventSource) else source or ""
