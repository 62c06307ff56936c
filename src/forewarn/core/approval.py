"""Approval rules: which approvals let an event start before NotBefore.

``any``  one approval of any VM of the group is enough (Azure's rule)
``all``  every VM in Resources that exists and runs must approve for itself; approvals of other VMs are
         recorded but do not count
``quorum``  N VMs of the group must approve; all running VMs, if there are fewer

An operator's or owner's approval counts for all VMs under every rule. Events of a group without running VMs need no
approval, unless the group's policy says otherwise. A second or repeated approval succeeds and changes nothing.
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
from forewarn.core.rollouts import windows


def approve(fleet: Fleet, command: Approve, now: datetime) -> Iterator[Approved | Postponed]:
    """Yield the new approvals. One unknown, foreign or finished id, or a refused postponement, refuses all."""
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
        # An approval that did not count can be repeated after a change of the rule, and then counts.
        given = event.approvals if counts else (*event.approvals, *event.neighbours)
        if command.by.name not in given:
            yield Approved(event.id, now, command.by, counts, group=event.group)


def is_enough(fleet: Fleet, event: Event) -> bool:
    """Return whether the approvals so far satisfy the rule."""
    if event.approved_by:
        return True
    if not event.approvals:
        return False
    group = fleet.groups[event.group]
    match group.terms.approval:
        case ApprovalRule.ANY:
            return True
        case ApprovalRule.ALL:
            asked = _running(fleet, event.vms)
            return bool(asked) and all(name in event.approvals for name in asked)
        case ApprovalRule.QUORUM:
            needed = min(group.terms.policy.quorum, len(group.vms) - fleet.stopped.get(event.group, 0))
            return len(event.approvals) >= needed


def still_needed(fleet: Fleet, event: Event) -> tuple[int, tuple[str, ...]]:
    """Return how many more approvals the rule needs, and the running VMs that can still give one."""
    if is_enough(fleet, event):
        return 0, ()
    group = fleet.groups[event.group]
    names = event.vms if group.terms.approval is not ApprovalRule.QUORUM else group.vms
    given = set(event.approvals)
    waiting = tuple(name for name in _running(fleet, names) if name not in given)
    match group.terms.approval:
        case ApprovalRule.ANY:
            return 1, waiting
        case ApprovalRule.ALL:
            return len(waiting), waiting
        case ApprovalRule.QUORUM:
            needed = min(group.terms.policy.quorum, len(group.vms) - fleet.stopped.get(event.group, 0))
            return max(1, needed - len(event.approvals)), waiting


def is_unneeded(fleet: Fleet, group: str) -> bool:
    """Return whether no VM can approve: no VM of the group runs, and its policy then approves automatically."""
    found = fleet.groups[group]
    return found.terms.policy.approve_all_down and all(fleet.vms[name].deallocated for name in found.vms)


def describe_approvers(event: Event) -> str:
    return event.approved_by or ", ".join(event.approvals)


def _postpone(fleet: Fleet, command: Approve, now: datetime) -> Iterator[Postponed]:
    postponed: set[str] = set()
    for postponement in command.postponements:
        event = _visible_event(fleet, command, postponement.event)
        _refuse_postponement(fleet, event, postponement, is_twice=event.id in postponed or event.id in command.events)
        postponed.add(event.id)
        not_before = whole_second(max(event.not_before, now)) + timedelta(seconds=postponement.seconds)
        rollout = fleet.rollouts.get(event.rollout)
        opens = windows.held_until(rollout, not_before) if rollout else None
        if opens and opens != windows.NEVER:
            not_before = whole_second(opens)
        yield Postponed(
            event.id, now, command.by, postponement.seconds, not_before, postponement.reason, group=event.group
        )


def _refuse_postponement(fleet: Fleet, event: Event, postponement: Postponement, *, is_twice: bool) -> None:
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
    if postponement.seconds < 1 or postponement.seconds > left:
        raise Refused(f"event {event.id} can be postponed by 1 to {left} s more, not by {postponement.seconds} s")
    check_line("a reason", postponement.reason)


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
