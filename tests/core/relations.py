"""What the invariants go by: how events stand to each other, in the words of the rules."""

from datetime import datetime, timedelta

from forewarn.core.model import Event, EventStatus, EventType
from tests.core.invariant_checker import FleetSnapshot, Memory, Step


def takes_turns(event: Event) -> bool:
    is_maintenance = event.type in {EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY}
    return event.source == "platform" and is_maintenance and not is_failure(event)


def exclude_each_other(one: Event, other: Event, memory: Memory) -> bool:
    """Return whether the two must not be Started together."""
    if set(one.vms) & set(other.vms):
        return True
    if one.group != other.group or not (takes_turns(one) and takes_turns(other)):
        return False
    return _differ(one, other, memory)


def is_failure(event: Event) -> bool:
    return event.operation in {"host fail", "vm fail"}


def must_wait_for_failure(one: Event, other: Event, memory: Memory) -> bool:
    """Return whether maintenance waits while the other is Started: a failure in other domains of its group."""
    is_beside = one.group == other.group and takes_turns(one) and is_failure(other)
    return is_beside and _differ(one, other, memory)


def _differ(one: Event, other: Event, memory: Memory) -> bool:
    mine, theirs = memory.domains[one.id], memory.domains[other.id]
    return mine != theirs or len(mine[0]) > 1 or len(mine[1]) > 1


def rank(event: Event, memory: Memory) -> tuple[object, ...]:
    """Tell who starts first: Preempt, Terminate, user operations, maintenance; then NotBefore, then announcement."""
    kinds = (event.type is EventType.PREEMPT, event.type is EventType.TERMINATE, not takes_turns(event), True)
    return kinds.index(True), event.not_before, list(memory.births).index(event.id)


def is_quiet(hours: tuple[str, ...], now: datetime) -> bool:
    """Tell it for the periods that the machine uses, by hand."""
    minute = now.hour * 60 + now.minute
    berlin = (minute + 60) % 1440  # the machine's days are in winter
    is_early_week = (now + timedelta(hours=1)).weekday() in {0, 1}
    return any(
        (period == "11:00-12:10" and 660 <= minute < 730)
        or (period == "12:10-12:20" and 730 <= minute < 740)
        or (period.endswith("Berlin") and 740 <= berlin < 750 and is_early_week)
        for period in hours
    )


def is_ready(event: Event, step: Step) -> bool:
    return event.not_before <= step.now or step.memory.is_approved(event, step.after)


def user_operations(sight: FleetSnapshot) -> int:
    return sum(event.source == "user" and event.status is EventStatus.SCHEDULED for event in sight.events.values())
