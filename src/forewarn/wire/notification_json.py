"""An event as somebody outside is told of it: the keys and words of the document, and what no document shows."""

from datetime import datetime

from forewarn.core.model import Event, EventStatus
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, show_id
from forewarn.wire.dates import show_time
from forewarn.wire.event_json import EventJson


class NotificationEventJson(EventJson, frozen=True, kw_only=True, rename="pascal"):
    """One event as JSON has it; the first keys are those of the document."""

    group: str
    operation: str
    by: str
    reason: str


def make_notification_event(event: Event, by: str, reason: str) -> NotificationEventJson:
    """Say what an event is, finished ones included, who caused what is told now, and why."""
    return NotificationEventJson(
        event_id=show_id(event.id),
        event_status=STATUSES[event.status],
        event_type=TYPES[event.type],
        resources=event.resources,
        not_before=_not_before(event.status, event.not_before),
        description=event.description,
        event_source=SOURCES[event.source],
        duration_in_seconds=event.duration,
        group=event.group,
        operation=event.operation,
        by=by,
        reason=reason,
    )


def _not_before(status: EventStatus, when: datetime) -> str:
    # Azure: the key stays once the event has started, and its value is empty.
    return show_time(when) if status is EventStatus.SCHEDULED else ""
