"""Texts of notifications for people: a headline and details."""

from collections.abc import Iterator
from datetime import datetime

from forewarn.control.notifications.notification import Notification, NotificationType
from forewarn.core.model import Event, EventStatus
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, show_id

_NAMED = 10
"""Number of VMs that are named before the rest is counted."""
_SENTENCES = {
    NotificationType.SCHEDULED: "is scheduled: not before {when}",
    NotificationType.APPROVED: "was approved by {by}",
    NotificationType.POSTPONED: "was postponed: now not before {when}",
    NotificationType.ADVANCED: "comes earlier: now not before {when}",
    NotificationType.STARTED: "has started",
    NotificationType.COMPLETED: "is over",
    NotificationType.FAILED: "failed",
    NotificationType.CANCELED: "was canceled",
}


def headline(message: Notification) -> str:
    """Return the headline: one line that says what happened."""
    event = message.event
    if message.group:
        return f"{_names(message.vms)} of {message.group} left the fleet"
    if event is None:
        return "Test of a subscription" if message.type is NotificationType.TEST else "Messages are missing"
    said = _SENTENCES[message.type].format(when=_shown(event.not_before), by=message.by)
    return f"{TYPES[event.type]} of {_vms(event)} {said}"


def particulars(message: Notification) -> Iterator[tuple[str, str]]:
    """Yield the details as name and text."""
    event = message.event
    if message.group:
        yield "Group", message.group
        yield "VMs", _names(message.vms)
        yield "By", message.by
    if event is None:
        yield "Detail", message.reason
        return
    yield "Group", event.group
    yield "VMs", _vms(event)
    yield "Status", STATUSES[event.status]
    if event.status is EventStatus.SCHEDULED:
        yield "Not before", _shown(event.not_before)
    yield "Source", f"{SOURCES[event.source]} ({event.operation})"
    if event.description:
        yield "Description", event.description
    if message.reason:
        yield "Reason", message.reason
    yield "By", message.by
    yield "Event", show_id(event.id)


def _vms(event: Event) -> str:
    return _names(event.resources)


def _names(vms: tuple[str, ...]) -> str:
    named = ", ".join(vms[:_NAMED])
    others = len(vms) - _NAMED
    return f"{named} and {others} more" if others > 0 else named


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"
