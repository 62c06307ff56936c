"""Host operations: maintenance of all VMs of a host, and the state of hosts.

    up --degrade--> degraded --fail--> failed          a host that is up may fail without warning
    degraded | failed --repaired--> up

Nothing is moved to a failed host, and no VM can be added there. The same holds for a cordoned host in any state.
"""

from collections.abc import Collection, Iterator
from datetime import datetime

from forewarn.core import lifecycle
from forewarn.core.commands import HostOperation, OperateHost, RepairHost
from forewarn.core.errors import Refused, unknown
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.facts import AnyFact, HostStateSet
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, HostState, Operation, OperationScope, StartCause, Vm
from forewarn.core.notice import Rules
from forewarn.core.operations import earliest, event_for

_HOST_FAILED = "host failed"
_STATES = {HostOperation.DEGRADE: HostState.DEGRADED, HostOperation.FAIL: HostState.FAILED}


def operate_host(fleet: Fleet, command: OperateHost, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the operation to all running VMs of the host, one event per group and update domain."""
    check_host(fleet, command.host)
    if command.operation is HostOperation.DEGRADE:
        refuse_failed(fleet, command.host, "has failed already")
        if fleet.state_of(command.host) is HostState.MAINTENANCE:
            remedy = f"end that first: forewarn host exit-maintenance {command.host}"
            raise Refused(f"host {command.host} is in maintenance; {remedy}")
    operation = Operation.of(OperationScope.HOST, command.operation)
    announcement = ANNOUNCEMENTS[operation]
    if command.operation is HostOperation.REDEPLOY and command.live:
        announcement = LIVE_MIGRATION
    reason = StartCause.HARDWARE_FAILED if operation.is_failure else ""
    standing = unfinished(fleet, command.host, operation)
    if standing and command.operation not in _STATES:
        others = f" and {len(standing) - 1} more" if len(standing) > 1 else ""
        raise Refused(
            f"host {command.host} has an unfinished {command.operation} already: event {standing[0].id}{others}; "
            "wait until it ends, or cancel it"
        )
    spared = {*command.spared, *(name for event in standing for name in event.vms)}
    events = [
        event_for(fleet, command, number, vms, announcement, operation, now, rules, reason)
        for number, vms in enumerate(_impacted_together(fleet, command.host, spared))
    ]
    if operation.is_failure:
        yield from _end_all_on(fleet, command.host, {event.id for event in standing}, now)
    state = _STATES.get(command.operation)
    if state and fleet.state_of(command.host) is not state:
        yield HostStateSet(command.host, state, now)
    if command.operation is HostOperation.DEGRADE:
        for event in standing:
            expected = earliest(command, now + rules.minimum(event.type))
            if event.status is EventStatus.SCHEDULED and expected < event.not_before:
                yield lifecycle.bring_forward(event, now, expected)
    for event in events:
        yield lifecycle.start_at_once(event, now) if reason else lifecycle.announce(event)


def repair_host(fleet: Fleet, command: RepairHost, now: datetime) -> Iterator[AnyFact]:
    """End a host's failure or predicted failure: events Scheduled because of it are canceled."""
    check_host(fleet, command.host)
    if fleet.state_of(command.host) is HostState.UP:
        return
    yield from end_state(fleet, command.host, now, f"{command.host} was repaired")


def end_state(fleet: Fleet, host: str, now: datetime, because: str) -> Iterator[AnyFact]:
    """Set a host to up again; cancel what is Scheduled because it was expected to fail."""
    for event in unfinished(fleet, host, Operation.HOST_DEGRADE):
        if event.status is EventStatus.SCHEDULED:
            yield lifecycle.cancel(event, now, because)
    yield HostStateSet(host, HostState.UP, now)


def check_host(fleet: Fleet, host: str) -> None:
    """Refuse the name of an unknown host."""
    if host not in fleet.hosts:
        raise unknown("host", host, fleet.hosts)


def refuse_failed(fleet: Fleet, host: str, what: str = "has failed") -> None:
    if fleet.state_of(host) is HostState.FAILED:
        raise Refused(f"host {host} {what}; when it works again, record that first: forewarn host repaired {host}")


def refuse_cordoned(fleet: Fleet, host: str) -> None:
    if host in fleet.cordoned:
        raise Refused(
            f"host {host} is cordoned and receives no VMs; choose another host, "
            f"or end that: forewarn host uncordon {host}"
        )


def unfinished(fleet: Fleet, host: str, operation: Operation) -> list[Event]:
    groups = dict.fromkeys(fleet.vms[name].group for name in sorted(fleet.vms_on(host)))
    events = (event for group in groups for event in fleet.events_of(group))
    return [event for event in events if event.operation is operation and event.host == host]


def _impacted_together(fleet: Fleet, host: str, spared: Collection[str]) -> list[list[Vm]]:
    together: dict[tuple[str, int], list[Vm]] = {}
    for name in sorted(fleet.vms_on(host)):
        vm = fleet.vms[name]
        if not vm.deallocated and name not in spared:
            together.setdefault((vm.group, vm.update_domain), []).append(vm)
    return [together[key] for key in sorted(together)]


def _end_all_on(fleet: Fleet, host: str, spared: Collection[str], now: datetime) -> Iterator[AnyFact]:
    """End the events of the VMs on the host: none of them can be carried out."""
    ended = set(spared)
    for name in sorted(fleet.vms_on(host)):
        for event in fleet.events_on(name):
            if event.id in ended:
                continue
            ended.add(event.id)
            if event.status is EventStatus.STARTED:
                yield lifecycle.fail(event, now, _HOST_FAILED)
            elif event.host == host or _stands_wholly_on(fleet, event, host):
                yield lifecycle.cancel(event, now, _HOST_FAILED)
    for event in fleet.events.values():
        if host in event.targets and event.status is EventStatus.SCHEDULED and event.id not in ended:
            yield lifecycle.cancel(event, now, f"host {host} failed, to which it was to move its VMs")


def _stands_wholly_on(fleet: Fleet, event: Event, host: str) -> bool:
    """Return whether all VMs of the event are on the host now, also if they moved since the announcement."""
    return all(fleet.vms[name].standing_on == host for name in event.vms)
