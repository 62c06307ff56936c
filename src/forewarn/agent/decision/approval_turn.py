"""Decides which VM approves an event that several VMs share, and when. Pure.

leader        the first name in Resources; if it does not approve, the next one after ``takeover``, and so on
each          every VM for itself, for groups that need the approval of all
coordinator   an external command decides; it is asked again while it refuses

A failed approval is sent again with a growing backoff. After NotBefore no approval is sent: the event starts
without it, and a VM that had no time left, or has a wrong clock, must not report that it is ready.
"""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from forewarn.agent.decision.facts import ApprovalFailed
from forewarn.agent.decision.memory import KnownEvent
from forewarn.agent.decision.plan import is_within
from forewarn.client.names import find_name
from forewarn.wire.document import ScheduledEvent

ASK_AGAIN = timedelta(seconds=10)
_SEND_AGAIN, _SEND_AGAIN_AT_MOST = timedelta(seconds=2), timedelta(minutes=1)


class Approver(StrEnum):
    """Who approves a shared event."""

    LEADER = "leader"
    EACH = "each"
    COORDINATOR = "coordinator"


class SendApproval(msgspec.Struct, frozen=True):
    """Approve an event."""

    event: str


class ConsultCoordinator(msgspec.Struct, frozen=True):
    """Ask the coordinator whether an event may begin."""

    event: ScheduledEvent


def is_due(event: ScheduledEvent, now: datetime) -> bool:
    """Return whether NotBefore has passed, so that the event starts without an approval."""
    return event.not_before is not None and event.not_before <= now


def decide_turn(
    known: KnownEvent, vm: str, approver: Approver, takeover: timedelta, now: datetime
) -> SendApproval | ConsultCoordinator | datetime | None:
    """Return what this VM does about an event that it is ready for: approve, consult, wait until then, or nothing."""
    due = _turn(known, vm, approver, takeover, now)
    return (
        _again(known.event, known.not_approved, now) if known.not_approved and isinstance(due, SendApproval) else due
    )


def _turn(
    known: KnownEvent, vm: str, approver: Approver, takeover: timedelta, now: datetime
) -> SendApproval | ConsultCoordinator | datetime | None:
    event = known.event
    rank = next((number for number, name in enumerate(event.resources) if find_name(vm, (name,))), None)
    match approver:
        case Approver.COORDINATOR:
            return _consult(known, now)
        case _ if rank is None:
            return None  # only the VMs in Resources know whether they are ready
        case Approver.EACH:
            return SendApproval(event.id)
        case Approver.LEADER:
            at = known.first_seen_at + rank * takeover
            return SendApproval(event.id) if at <= now else at


def _again(event: ScheduledEvent, tried: ApprovalFailed, now: datetime) -> SendApproval | datetime:
    pause = min(_SEND_AGAIN * 2 ** min(tried.attempt - 1, 10), _SEND_AGAIN_AT_MOST)
    return tried.at + pause if is_within(pause, tried.at, now) else SendApproval(event.id)


def _consult(known: KnownEvent, now: datetime) -> SendApproval | ConsultCoordinator | datetime:
    consulted = known.consulted
    if consulted is None:
        return ConsultCoordinator(known.event)
    if consulted.agreed:
        return SendApproval(known.event.id)
    return consulted.at + ASK_AGAIN if is_within(ASK_AGAIN, consulted.at, now) else ConsultCoordinator(known.event)
