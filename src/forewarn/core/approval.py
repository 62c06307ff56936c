"""Whose word lets an event start before its time.

``any``  one approval of any VM of the group is enough (Azure's rule)
``all``  every VM in Resources that is still there and runs must approve for itself; a neighbour's word is
         recorded but does not count

An operator's approval stands for all VMs under either rule. An approval is given once: whoever comes second, or
repeats itself, is told that all is well and nothing changes.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from forewarn.core.commands import Approve
from forewarn.core.errors import Unknown
from forewarn.core.facts import Approved
from forewarn.core.fleet import Fleet
from forewarn.core.model import ApprovalRule, CallerKind, Event, EventStatus, Vm


def approve(fleet: Fleet, command: Approve, now: datetime) -> Iterator[Approved]:
    """Yield the approvals that are new. One unknown, foreign or finished id, and nothing is approved."""
    events = [_visible_event(fleet, command, id_) for id_ in dict.fromkeys(command.events)]
    for event in events:
        rule = fleet.groups[event.group].terms.approval
        if event.status is EventStatus.STARTED or is_enough(event, rule, fleet.vms):
            continue  # Azure: answers 200 here too
        if command.by.kind is not CallerKind.VM:
            yield Approved(event.id, now, command.by)
            continue
        counts = rule is ApprovalRule.ANY or command.by.name in event.vms
        # A word that did not count may be given again once the rule has changed so that it does.
        given = event.approvals if counts else (*event.approvals, *event.neighbours)
        if command.by.name not in given:
            yield Approved(event.id, now, command.by, counts)


def is_enough(event: Event, rule: ApprovalRule, vms: Mapping[str, Vm]) -> bool:
    """Tell whether the approvals given so far let the event start."""
    if event.approved_by:
        return True
    if rule is ApprovalRule.ANY:
        return bool(event.approvals)
    asked = [name for name in event.vms if not vms[name].deallocated]
    return bool(asked) and all(name in event.approvals for name in asked)


def whose(event: Event) -> str:
    """Say who approved."""
    return event.approved_by or ", ".join(event.approvals)


def _visible_event(fleet: Fleet, command: Approve, id_: str) -> Event:
    event = fleet.events.get(id_)
    if event is None or (command.by.kind is CallerKind.VM and not _is_neighbour(fleet, command.by.name, event)):
        raise Unknown(f"there is no unfinished event {id_!r}")
    return event


def _is_neighbour(fleet: Fleet, name: str, event: Event) -> bool:
    vm = fleet.vms.get(name)
    return vm is not None and vm.group == event.group
