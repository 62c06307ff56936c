"""Whose turn it is to approve an event that several VMs share. Pure.

leader        the first name in Resources; if it stays silent, the next, ``takeover`` later, and so on
each          every VM for itself, for groups that want the approval of all
coordinator   a command of yours decides, and is asked again while it says no
"""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from forewarn.agent.memory import Known
from forewarn.client.names import find_name
from forewarn.wire.document import ScheduledEvent

ASK_AGAIN = timedelta(seconds=10)


class Approver(StrEnum):
    """Who approves a shared event."""

    LEADER = "leader"
    EACH = "each"
    COORDINATOR = "coordinator"


class Approve(msgspec.Struct, frozen=True):
    """Say that an event may begin."""

    event: str


class Consult(msgspec.Struct, frozen=True):
    """Ask the coordinator whether an event may begin."""

    event: ScheduledEvent


def turn(
    known: Known, vm: str, approver: Approver, takeover: timedelta, now: datetime
) -> Approve | Consult | datetime | None:
    """Say what this VM does about an event that it is ready for: approve, consult, wait until then, or nothing."""
    event = known.event
    rank = next((number for number, name in enumerate(event.resources) if find_name(vm, (name,))), None)
    match approver:
        case Approver.COORDINATOR:
            return _consult(known, now)
        case _ if rank is None:
            return None  # only those it happens to know whether they are ready
        case Approver.EACH:
            return Approve(event.id)
        case Approver.LEADER:
            at = known.first_seen_at + rank * takeover
            return Approve(event.id) if at <= now else at


def _consult(known: Known, now: datetime) -> Approve | Consult | datetime:
    consulted = known.consulted
    if consulted is None:
        return Consult(known.event)
    if consulted.agreed:
        return Approve(known.event.id)
    # An answer that seems to come from the future is old: the clock was set.
    is_recent = timedelta(0) <= now - consulted.at < ASK_AGAIN
    return consulted.at + ASK_AGAIN if is_recent else Consult(known.event)
