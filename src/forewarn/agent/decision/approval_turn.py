"""Whose turn it is to approve an event that several VMs share. Pure.

leader        the first name in Resources; if it stays silent, the next, ``takeover`` later, and so on
each          every VM for itself, for groups that want the approval of all
coordinator   a command of yours decides, and is asked again while it says no

An approval that is not taken is sent again after pauses that grow. After NotBefore none is sent: the event comes
without it, and a VM that was left no time, or whose clock is wrong, must not say that it is ready.
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
    """Say that an event may begin."""

    event: str


class ConsultCoordinator(msgspec.Struct, frozen=True):
    """Ask the coordinator whether an event may begin."""

    event: ScheduledEvent


def is_due(event: ScheduledEvent, now: datetime) -> bool:
    """Tell whether the event comes without an approval, as its time has come."""
    return event.not_before is not None and event.not_before <= now


def decide_turn(
    known: KnownEvent, vm: str, approver: Approver, takeover: timedelta, now: datetime
) -> SendApproval | ConsultCoordinator | datetime | None:
    """Say what this VM does about an event that it is ready for: approve, consult, wait until then, or nothing."""
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
            return None  # only those it happens to know whether they are ready
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
