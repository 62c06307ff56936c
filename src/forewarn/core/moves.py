"""Moves of VMs to given hosts: one VM, or all VMs of a host, each to its planned target.

    vm move         the driver moves it after notice; only recorded if it was moved by hand or cannot be moved
    host cordon     it receives no VMs: none is moved, added or started there
    host drain      the same, and events move its running VMs away, one event per group and update domain
    host uncordon   it receives VMs again; drain events that are still Scheduled are canceled

A cordon is independent of the state of the host: up, degraded or failed.
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.commands import CordonHost, DrainHost, MoveVm, SetMaintenance
from forewarn.core.errors import PlanOutdated, Refused
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION, moves_vms
from forewarn.core.facts import AnyFact, HostCordonSet, HostStateSet, VmMoved
from forewarn.core.fleet import Fleet
from forewarn.core.hosts import check_host, end_state, refuse_cordoned, refuse_failed, unfinished
from forewarn.core.model import Event, EventStatus, HostState, Operation, Vm
from forewarn.core.notice import Rules
from forewarn.core.operations import event_for, find_vm, refuse_leaving
from forewarn.core.placement import in_waves, running_on


def cordon_host(fleet: Fleet, command: CordonHost, now: datetime) -> Iterator[AnyFact]:
    """Cordon or uncordon a host; repetition changes nothing."""
    check_host(fleet, command.host)
    if (command.host in fleet.cordoned) is command.is_cordoned:
        return
    if command.is_cordoned:
        refuse_receiving(fleet, command.host)
        yield cordon(fleet, command.host, now)
        return
    if fleet.state_of(command.host) is HostState.MAINTENANCE:
        raise Refused(
            f"host {command.host} is in maintenance; end that first: forewarn host exit-maintenance {command.host}"
        )
    for event in unfinished(fleet, command.host, Operation.HOST_DRAIN):
        if event.status is EventStatus.SCHEDULED:
            yield lifecycle.cancel(event, now, f"{command.host} was uncordoned")
    yield HostCordonSet(command.host, False, now)


def set_maintenance(fleet: Fleet, command: SetMaintenance, now: datetime) -> Iterator[AnyFact]:
    """Begin maintenance, with a cordon, or end it; what is so already changes nothing."""
    check_host(fleet, command.host)
    is_in_maintenance = fleet.state_of(command.host) is HostState.MAINTENANCE
    if is_in_maintenance is command.is_in_maintenance:
        return
    if is_in_maintenance:
        yield from end_state(fleet, command.host, now, f"maintenance of {command.host} has ended")
        return
    refuse_failed(fleet, command.host)
    if command.host not in fleet.cordoned:
        refuse_receiving(fleet, command.host)
        yield cordon(fleet, command.host, now)
    yield HostStateSet(command.host, HostState.MAINTENANCE, now)


def cordon(fleet: Fleet, host: str, now: datetime, left: dict[str, str] | None = None) -> HostCordonSet:
    """Cordon a host; name the events that may move VMs there all the same."""
    arriving = () if host in fleet.cordoned else tuple(event.id for event in arriving_at(fleet, host, now, now))
    return HostCordonSet(host, True, now, left or {}, arriving)


def arriving_at(fleet: Fleet, host: str, now: datetime, cordoned_at: datetime) -> Iterator[Event]:
    """Yield the Started events that may be moving VMs to a cordoned host: their driver chose before the cordon.

    One that seems to have started in the future started before the clock was set back.
    """
    for event in fleet.events.values():
        if event.status is not EventStatus.STARTED or not moves_vms(event) or event.targets:
            continue
        is_later = event.started_at is not None and cordoned_at < event.started_at <= now
        could_choose = not (is_later and host in fleet.cordoned)
        if could_choose and not any(fleet.vms[name].standing_on == host for name in event.vms):
            yield event


def may_be_uncordoned(fleet: Fleet, host: str) -> bool:
    """Return whether a host is cordoned, and not because of its maintenance."""
    return host in fleet.cordoned and fleet.state_of(host) is not HostState.MAINTENANCE


def drain_host(fleet: Fleet, command: DrainHost, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Cordon the host and announce the planned moves; refuse an outdated plan."""
    check_drainable(fleet, command.host)
    running = running_on(fleet, command.host)
    _check_plan(fleet, command, running)
    together: dict[tuple[str, int, bool], list[Vm]] = {}
    for vm in running:
        if vm.name in command.placements:
            is_live = command.live and vm.name not in command.cold
            together.setdefault((vm.group, vm.update_domain, is_live), []).append(vm)
    events = []
    for number, key in enumerate(sorted(together)):
        announcement = LIVE_MIGRATION if key[2] else ANNOUNCEMENTS[Operation.HOST_DRAIN]
        event = event_for(fleet, command, number, together[key], announcement, Operation.HOST_DRAIN, now, rules, "")
        events.append(replace(event, placements={vm.name: command.placements[vm.name] for vm in together[key]}))
    if command.host not in fleet.cordoned or command.left:
        yield cordon(fleet, command.host, now, command.left)
    for event in events:
        yield lifecycle.announce(event)


def check_drainable(fleet: Fleet, host: str) -> None:
    """Refuse to drain a host that has failed, is being drained, or is to receive VMs."""
    check_host(fleet, host)
    refuse_failed(fleet, host, "has failed, and its VMs are redeployed")
    if standing := unfinished(fleet, host, Operation.HOST_DRAIN):
        others = f" and {len(standing) - 1} more" if len(standing) > 1 else ""
        raise Refused(
            f"host {host} has an unfinished drain already: event {standing[0].id}{others}; "
            "wait until it ends, or cancel it"
        )
    refuse_receiving(fleet, host)


def refuse_receiving(fleet: Fleet, host: str) -> None:
    """Refuse to cordon a host that an unfinished event moves VMs to."""
    for event in fleet.events.values():
        if host in event.targets:
            remedy = "wait until it ends" + ("" if event.status is EventStatus.STARTED else ", or cancel it")
            raise Refused(f"event {event.id} ({event.operation}) moves VMs to {host}; {remedy}")


def _check_plan(fleet: Fleet, command: DrainHost, running: list[Vm]) -> None:
    planned = command.placements.keys() | command.left.keys()
    changed = sorted(planned ^ {vm.name for vm in running})
    unusable = {command.host, *in_waves(fleet)}
    for name, host in command.placements.items():
        is_usable = host in fleet.hosts and host not in unusable and host not in fleet.cordoned
        if not is_usable or fleet.state_of(host) is HostState.FAILED:
            changed.append(f"{name} to {host}")
    if changed:
        raise PlanOutdated(
            f"the fleet changed while the drain of {command.host} was planned ({', '.join(changed[:5])}); try again"
        )


def move_vm(fleet: Fleet, command: MoveVm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the move if the driver carries it out, else record it. A VM that is already there stays."""
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
    """Return whether the event depends on the VM's host: it has started, concerns a host, or moves the VM."""
    return event.status is EventStatus.STARTED or event.operation.is_of_host or moves_vms(event)
