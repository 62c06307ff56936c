"""Moving one VM to a host that is named: by the driver after notice, or recorded where it was moved by hand."""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.commands import MoveVm
from forewarn.core.errors import Refused
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.facts import AnyFact, VmMoved
from forewarn.core.fleet import Fleet
from forewarn.core.hosts import check_host, refuse_cordoned, refuse_failed
from forewarn.core.model import Event, EventStatus, EventType, Operation, Vm
from forewarn.core.notice import Rules
from forewarn.core.operations import event_for, find_vm, refuse_leaving


def move_vm(fleet: Fleet, command: MoveVm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the move where the driver carries it out; else record it. A VM that stands there already stays."""
    vm = find_vm(fleet, command.vm)
    refuse_leaving(fleet, vm)
    check_host(fleet, command.host)
    refuse_failed(fleet, command.host)
    if not command.record:
        refuse_cordoned(fleet, command.host)
    if command.record or vm.deallocated or not command.can_move:
        yield from _record(fleet, command, vm)
    else:
        yield from _announce(fleet, command, vm, now, rules)


def _record(fleet: Fleet, command: MoveVm, vm: Vm) -> Iterator[AnyFact]:
    if command.not_before or command.duration is not None or command.description is not None:
        reason = "you asked for that" if command.record else "the driver cannot move it to a host that is named"
        reason = "it is deallocated" if vm.deallocated else reason
        raise Refused(
            f"the move of {vm.name} is only recorded, because {reason}; give no time, duration or description for it"
        )
    if vm.standing_on == command.host:
        return
    for event in fleet.events_on(vm.name):
        if _depends_on_place(event):
            remedy = "wait until it ends" + ("" if event.status is EventStatus.STARTED else ", or cancel it")
            raise Refused(f"{vm.name} is under event {event.id} ({event.operation}); {remedy}")
    yield VmMoved(vm.name, command.host)


def _announce(fleet: Fleet, command: MoveVm, vm: Vm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    if vm.standing_on == command.host:
        raise Refused(f"{vm.name} stands on {command.host} already")
    for event in fleet.events_on(vm.name):
        if event.operation is Operation.VM_MOVE:
            raise Refused(f"{vm.name} has an unfinished move to {event.target} already: event {event.id}")
    announcement = LIVE_MIGRATION if command.live else ANNOUNCEMENTS[Operation.VM_MOVE]
    event = event_for(fleet, command, 0, [vm], announcement, Operation.VM_MOVE, now, rules, "")
    yield lifecycle.announce(replace(event, target=command.host))


def _depends_on_place(event: Event) -> bool:
    """Tell whether the event would go wrong if its VM stood elsewhere: it has started, is of a host, or moves it."""
    is_of_host = event.operation.is_of_host
    moves_it = event.operation is Operation.VM_MOVE or event.type is EventType.REDEPLOY
    return event.status is EventStatus.STARTED or is_of_host or moves_it
