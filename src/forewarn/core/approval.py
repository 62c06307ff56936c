"""Whose word lets an event start before its time.

``any``  one approval of any VM of the group is enough (Azure's rule)
``all``  every VM in Resources that is still there and runs must approve for itself; a neighbour's word is
         recorded but does not count
``quorum``  so many VMs of the group must approve, whichever they are; all that run, if they are fewer

An operator's or owner's approval stands for all VMs under every rule. What concerns a group none of whose VMs runs
needs no approval, unless the group's policy says otherwise. An approval is given once: whoever comes second, or
repeats itself, is told that all is well and nothing changes.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from forewarn.core.commands import Approve, Postponement
from forewarn.core.errors import Refused, Unknown
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.facts import Approved, Postponed
from forewarn.core.fleet import Fleet
from forewarn.core.model import ApprovalRule, CallerKind, Event, EventStatus
from forewarn.core.notice import check_line, whole_second


def approve(fleet: Fleet, command: Approve, now: datetime) -> Iterator[Approved | Postponed]:
    """Yield what is new. One unknown, foreign or finished id, or a wish not granted, and nothing happens."""
    events = [_visible_event(fleet, command, id_) for id_ in dict.fromkeys(command.events)]
    postponed = list(_postpone(fleet, command, now))
    yield from _approve(fleet, command, events, now)
    yield from postponed


def _approve(fleet: Fleet, command: Approve, events: Iterable[Event], now: datetime) -> Iterator[Approved]:
    for event in events:
        rule = fleet.groups[event.group].terms.approval
        if event.status is EventStatus.STARTED or is_enough(fleet, event):
            continue  # Azure: answers 200 here too
        if command.by.kind is not CallerKind.VM:
            yield Approved(event.id, now, command.by, group=event.group)
            continue
        counts = rule is not ApprovalRule.ALL or command.by.name in event.vms
        # A word that did not count may be given again once the rule has changed so that it does.
        given = event.approvals if counts else (*event.approvals, *event.neighbours)
        if command.by.name not in given:
            yield Approved(event.id, now, command.by, counts, group=event.group)


def is_enough(fleet: Fleet, event: Event) -> bool:
    """Tell whether the approvals given so far let the event start."""
    if event.approved_by:
        return True
    group = fleet.groups[event.group]
    match group.terms.approval:
        case ApprovalRule.ANY:
            return bool(event.approvals)
        case ApprovalRule.ALL:
            asked = _running(fleet, event.vms)
            return bool(asked) and all(name in event.approvals for name in asked)
        case ApprovalRule.QUORUM:
            needed = min(group.terms.policy.quorum, len(_running(fleet, group.vms)))
            return bool(event.approvals) and len(event.approvals) >= needed


def is_unneeded(fleet: Fleet, event: Event) -> bool:
    """Tell whether nobody is left who could approve: none of the group's VMs runs, and its policy goes by that."""
    group = fleet.groups[event.group]
    return group.terms.policy.approve_all_down and not _running(fleet, event.vms) and not _running(fleet, group.vms)


def describe_approvers(event: Event) -> str:
    return event.approved_by or ", ".join(event.approvals)


def _postpone(fleet: Fleet, command: Approve, now: datetime) -> Iterator[Postponed]:
    wished: set[str] = set()
    for wish in command.postponements:
        event = _visible_event(fleet, command, wish.event)
        _refuse_postponement(fleet, event, wish, is_twice=event.id in wished or event.id in command.events)
        wished.add(event.id)
        not_before = whole_second(max(event.not_before, now)) + timedelta(seconds=wish.seconds)
        yield Postponed(event.id, now, command.by, wish.seconds, not_before, wish.reason, group=event.group)


def _refuse_postponement(fleet: Fleet, event: Event, wish: Postponement, *, is_twice: bool) -> None:
    limit = fleet.groups[event.group].terms.policy.postpone_limit
    left = limit - event.postponed
    if is_twice:
        raise Refused(f"event {event.id} is named more than once")
    if event.status is EventStatus.STARTED or is_enough(fleet, event):
        raise Refused(f"event {event.id} has started or was approved, and can no longer be postponed")
    if event.without_notice:
        raise Refused(f"event {event.id} cannot be postponed, because no notice is owed: {event.without_notice}")
    if not limit:
        raise Refused(f"group {event.group} allows no postponement; its policy is postpone_limit = 0")
    if EVENT_TYPES[event.type].ends_vm:
        raise Refused("an eviction or a deletion cannot be postponed")
    if wish.seconds < 1 or wish.seconds > left:
        raise Refused(f"event {event.id} can be postponed by 1 to {left} s more, not by {wish.seconds} s")
    check_line("a reason", wish.reason)


def _running(fleet: Fleet, names: Iterable[str]) -> list[str]:
    return [name for name in names if not fleet.vms[name].deallocated]


def _visible_event(fleet: Fleet, command: Approve, id_: str) -> Event:
    event = fleet.events.get(id_)
    if event is None or (command.by.kind is CallerKind.VM and not _is_neighbour(fleet, command.by.name, event)):
        raise Unknown(f"there is no unfinished event {id_!r}")
    return event


def _is_neighbour(fleet: Fleet, name: str, event: Event) -> bool:
    vm = fleet.vms.get(name)
    return vm is not None and vm.group == event.group
