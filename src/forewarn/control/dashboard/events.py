"""Rows of events, as several pages show them."""

from datetime import datetime

import msgspec

from forewarn.core.approval import still_needed
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, EventType

STATUS_COLOURS = {
    "Scheduled": "announced",
    "Started": "in-progress",
    "Completed": "idle",
    "Canceled": "deallocated",
    "Failed": "failed",
}
"""The colour of each status, as VMs have it."""


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event in a list."""

    id: str
    type: EventType
    status: EventStatus
    group: str
    host: str
    vms: tuple[str, ...]
    announced_at: datetime
    not_before: datetime
    started_at: datetime | None
    ended_at: datetime | None = None
    fetched: int
    """How many of its VMs have fetched it."""
    unfetched: tuple[str, ...]
    """The VMs that have not."""
    approved: tuple[str, ...]
    needed: int
    """How many more approvals its rule needs."""
    unapproved: tuple[str, ...]
    """The VMs that can still give one."""
    waits_for: str
    """The id of the event that it waits for."""
    waits_until: datetime | None
    is_late: bool
    is_owed_notice: bool
    """Whether its VMs had to be told before it started."""
    operation: str
    rollout: str
    reason: str = ""
    """Why it failed or was canceled."""

    @property
    def is_scheduled(self) -> bool:
        return self.status is EventStatus.SCHEDULED


def event_row(
    fleet: Fleet, event: Event, now: datetime, ended_at: datetime | None = None, reason: str = ""
) -> EventRow:
    vms = event.vms or event.resources
    unfetched = tuple(name for name in vms if name not in event.fetched_by)
    is_scheduled = event.status is EventStatus.SCHEDULED
    needed, unapproved = still_needed(fleet, event) if is_scheduled else (0, ())
    return EventRow(
        id=event.id,
        type=event.type,
        status=event.status,
        group=event.group,
        host=event.host,
        vms=event.resources,
        announced_at=event.announced_at,
        not_before=event.not_before,
        started_at=event.started_at,
        ended_at=ended_at,
        fetched=len(vms) - len(unfetched),
        unfetched=unfetched,
        approved=(*event.approvals, *((event.approved_by,) if event.approved_by else ())),
        needed=needed,
        unapproved=unapproved,
        waits_for=event.waits_for,
        waits_until=event.waits_until,
        is_late=is_scheduled and event.not_before < now,
        is_owed_notice=not event.without_notice,
        operation=str(event.operation),
        rollout=event.rollout,
        reason=reason,
    )
