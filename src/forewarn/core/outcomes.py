"""What follows when an impact has ended: who is gone, deallocated or somewhere else."""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core import lifecycle
from forewarn.core.commands import Report, Result
from forewarn.core.facts import AnyFact, Canceled, VmDeallocated, VmMoved, VmRemoved
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, EventType, EvictionPolicy


def report(fleet: Fleet, command: Report, now: datetime) -> Iterator[AnyFact]:
    """Yield the end of the event and what it leaves behind. A word that comes after the end changes nothing."""
    event = fleet.events.get(command.event)
    if event is None or event.status is not EventStatus.STARTED:
        return
    if command.result is Result.FAILED:
        yield lifecycle.fail(event, now, command.detail or "the driver gave no reason")
        return
    strangers = sorted({host for host in command.hosts.values() if host not in fleet.hosts})
    unplaced = f"moved to {', '.join(strangers)}, which the fleet does not know" if strangers else ""
    yield lifecycle.complete(event, now, "; ".join(filter(None, (command.detail, unplaced))))
    for name in event.resources:
        if name in fleet.vms:
            yield from _aftermath(fleet, event, name, command.hosts.get(name, ""), now)


def leave(fleet: Fleet, vm: str, now: datetime, because: str) -> Iterator[Canceled]:
    """Cancel what is Scheduled for this VM alone; what it shares with VMs that are still there stays."""
    for event in fleet.events_on(vm):
        others = (fleet.vms.get(name) for name in event.resources if name != vm)
        is_alone = all(other is None or other.deallocated for other in others)
        if event.status is EventStatus.SCHEDULED and is_alone:
            yield lifecycle.cancel(event, now, because)


def _aftermath(fleet: Fleet, event: Event, name: str, host: str, now: datetime) -> Iterator[AnyFact]:
    vm = fleet.vms[name]
    eviction = fleet.groups[event.group].terms.eviction
    match event.type:
        case EventType.TERMINATE:
            yield from leave(fleet, name, now, f"{name} was deleted")
            yield VmRemoved(name, "deleted")
        case EventType.PREEMPT if eviction is EvictionPolicy.DELETE:
            yield from leave(fleet, name, now, f"{name} was evicted")
            yield VmRemoved(name, "evicted")
        case EventType.PREEMPT:
            yield from leave(fleet, name, now, f"{name} was evicted")
            yield VmDeallocated(name, "evicted")
        case _ if host in fleet.hosts and host != vm.standing_on:
            yield VmMoved(name, host)
            yield from _leave_host(fleet, name, vm.standing_on, now)


def _leave_host(fleet: Fleet, name: str, host: str, now: datetime) -> Iterator[Canceled]:
    """Cancel the maintenance of a host that was Scheduled for a VM which no longer stands there."""
    for event in leave(fleet, name, now, f"{name} left {host}"):
        if fleet.events[event.event].operation.startswith("host ") and fleet.events[event.event].host == host:
            yield event
