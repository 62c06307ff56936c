"""The consequences of an impact's end: VMs that are removed, deallocated or moved."""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core import lifecycle
from forewarn.core.commands import ImpactResult, ReportImpact
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.facts import AnyFact, Canceled, VmDeallocated, VmMoved, VmRemoved
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, EventType, EvictionPolicy, HostState


def report_impact(fleet: Fleet, command: ReportImpact, now: datetime) -> Iterator[AnyFact]:
    """Yield the end of the event and its consequences. Late reports are ignored."""
    event = fleet.events.get(command.event)
    if event is None or event.status is not EventStatus.STARTED:
        return
    unknown_hosts = sorted({host for host in command.hosts.values() if host not in fleet.hosts})
    arrivals = {host for name, host in command.hosts.items() if _has_left(fleet, event, name, host)}
    failed = sorted(host for host in arrivals if fleet.state_of(host) is HostState.FAILED)
    unplaced = f"moved to {', '.join(unknown_hosts)}, which the fleet does not know" if unknown_hosts else ""
    lost = f"moved to {', '.join(failed)}, which has failed meanwhile" if failed else ""
    if command.result is ImpactResult.FAILED or lost:
        reason = command.detail or ("" if lost else "the driver gave no reason")
        yield lifecycle.fail(event, now, "; ".join(filter(None, (reason, unplaced, lost))))
    else:
        yield lifecycle.complete(event, now, "; ".join(filter(None, (command.detail, unplaced))))
        for name in event.vms:
            yield from _aftermath(fleet, event, name, now)
    moves = {
        name: host
        for name, host in command.hosts.items()
        if _has_left(fleet, event, name, host) and host in fleet.hosts and host not in failed
    }
    for name, host in moves.items():
        yield VmMoved(name, host)
    yield from cancel_events_of_hosts(fleet, event.group, moves, now)


def cancel_events_of_vm(fleet: Fleet, vm: str, now: datetime, because: str) -> Iterator[Canceled]:
    """Cancel Scheduled events of this VM alone; events shared with existing VMs stay."""
    for event in fleet.events_on(vm):
        is_alone = all(fleet.vms[name].deallocated for name in event.vms if name != vm)
        if event.status is EventStatus.SCHEDULED and is_alone:
            yield lifecycle.cancel(event, now, because)


def removes_vms(fleet: Fleet, event: Event) -> bool:
    """Return whether the event's VMs are removed from the fleet when it completes."""
    if event.type is EventType.PREEMPT:
        return fleet.groups[event.group].terms.eviction is EvictionPolicy.DELETE
    return event.type is EventType.TERMINATE


def _aftermath(fleet: Fleet, event: Event, name: str, now: datetime) -> Iterator[AnyFact]:
    match event.type:
        case EventType.TERMINATE:
            yield from cancel_events_of_vm(fleet, name, now, f"{name} was deleted")
            yield VmRemoved(name, "deleted", group=event.group)
        case EventType.PREEMPT if removes_vms(fleet, event):
            yield from cancel_events_of_vm(fleet, name, now, f"{name} was evicted")
            yield VmRemoved(name, "evicted", now, event.group)
        case EventType.PREEMPT:
            for canceled in cancel_events_of_vm(fleet, name, now, f"{name} was evicted"):
                # A deallocated VM can still be deleted.
                if fleet.events[canceled.event].type is not EventType.TERMINATE:
                    yield canceled
            yield VmDeallocated(name, "evicted", now)


def _has_left(fleet: Fleet, event: Event, name: str, host: str) -> bool:
    """Return whether an existing VM is now on this host instead of its recorded one."""
    is_there = name in event.vms and not EVENT_TYPES[event.type].ends_vm
    return is_there and host != fleet.vms[name].standing_on


def cancel_events_of_hosts(fleet: Fleet, group: str, moves: dict[str, str], now: datetime) -> Iterator[Canceled]:
    """Cancel Scheduled host events without VMs on the host any more."""
    for event in fleet.events_of(group):
        is_of_host = event.operation.is_of_host and event.status is EventStatus.SCHEDULED
        if not is_of_host or moves.keys().isdisjoint(event.vms):
            continue
        vms = (fleet.vms[name] for name in event.vms)
        if all(vm.deallocated or moves.get(vm.name, vm.standing_on) != event.host for vm in vms):
            yield lifecycle.cancel(event, now, f"none of its VMs stands on {event.host} any more")
