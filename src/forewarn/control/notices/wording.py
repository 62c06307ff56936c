"""A notice in words for people: one sentence, and the particulars below it."""

from collections.abc import Iterator
from datetime import datetime

from forewarn.control.notices.messages import Notice, NoticeType
from forewarn.core.model import Event, EventStatus
from forewarn.wire.words import SOURCES, STATUSES, TYPES, show_id

_NAMED = 10
"""How many VMs are named before the rest is counted."""
_SENTENCES = {
    NoticeType.SCHEDULED: "is scheduled: not before {when}",
    NoticeType.APPROVED: "was approved by {by}",
    NoticeType.POSTPONED: "was postponed: now not before {when}",
    NoticeType.ADVANCED: "comes earlier: now not before {when}",
    NoticeType.STARTED: "has started",
    NoticeType.COMPLETED: "is over",
    NoticeType.FAILED: "failed",
    NoticeType.CANCELED: "was canceled",
}


def headline(notice: Notice) -> str:
    """Say in one line what happened."""
    event = notice.event
    if event is None:
        return "Test of a subscription" if notice.type is NoticeType.TEST else "Notices are missing"
    said = _SENTENCES[notice.type].format(when=_shown(event.not_before), by=notice.by)
    return f"{TYPES[event.type]} of {_vms(event)} {said}"


def particulars(notice: Notice) -> Iterator[tuple[str, str]]:
    """Yield what else is to be known, each with its name."""
    event = notice.event
    if event is None:
        yield "Detail", notice.reason
        return
    yield "Group", event.group
    yield "VMs", _vms(event)
    yield "Status", STATUSES[event.status]
    if event.status is EventStatus.SCHEDULED:
        yield "Not before", _shown(event.not_before)
    yield "Source", f"{SOURCES[event.source]} ({event.operation})"
    if event.description:
        yield "Description", event.description
    if notice.reason:
        yield "Reason", notice.reason
    yield "By", notice.by
    yield "Event", show_id(event.id)


def _vms(event: Event) -> str:
    named = ", ".join(event.resources[:_NAMED])
    others = len(event.resources) - _NAMED
    return f"{named} and {others} more" if others > 0 else named


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"
