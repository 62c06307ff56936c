"""What follows when a driver sees something happen to a machine that nobody asked it for.

    unknown VM, or one of our own impacts explains it    nothing
    crashed, of a VM that is deallocated                 nothing: drivers find the dead again at each start
    crashed, found so at a start, recorded already,
    ... and its group has no restart_after_crash         nothing
    moved, to where the fleet has it                     nothing: drivers tell at each start where machines are
    rebooted, stopped, started, gone                     it is recorded
    moved                                                recorded, and the fleet follows, unless that host has failed
    crashed                                              recorded, what had Started for it fails
    ... and its group has restart_after_crash            its VM has encountered a failure

A machine that crashed is brought back by an event of its own, born Started, as after the failure of a whole host.
What had Started for it fails; what is Scheduled stays, and waits its turn.
"""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core import lifecycle
from forewarn.core.commands import HostOperation, OperateHost, RecordObservation
from forewarn.core.event_types import ANNOUNCEMENTS, EVENT_TYPES
from forewarn.core.facts import AnyFact, ObservationRecorded, VmMoved
from forewarn.core.fleet import Fleet
from forewarn.core.impact_results import cancel_events_of_hosts
from forewarn.core.model import EventStatus, HostState, Observation, ObservationKind, Operation, StartCause, Vm
from forewarn.core.notice import Rules
from forewarn.core.operations import event_for


def record_observation(fleet: Fleet, command: RecordObservation, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Record a sighting that nothing of ours explains, and let follow what must."""
    observation = command.observation
    vm = fleet.vms.get(observation.vm)
    if vm is None or _is_explained(fleet, vm, observation):
        return
    yield ObservationRecorded(observation)
    if observation.what is ObservationKind.CRASHED:
        yield from _fail(fleet, command, vm, now, rules)
    if observation.what is ObservationKind.MOVED:
        yield from _follow(fleet, vm, observation.host, now)


def _follow(fleet: Fleet, vm: Vm, host: str, now: datetime) -> Iterator[AnyFact]:
    if host in fleet.hosts and fleet.state_of(host) is not HostState.FAILED:
        yield VmMoved(vm.name, host)
        yield from cancel_events_of_hosts(fleet, vm.group, {vm.name: host}, now)


def _is_explained(fleet: Fleet, vm: Vm, observation: Observation) -> bool:
    """Tell whether an impact of ours is under way that may look so, or it is as it should be."""
    started = [event for event in fleet.events_on(vm.name) if event.status is EventStatus.STARTED]
    if observation.what is ObservationKind.MOVED and observation.host == vm.standing_on:
        return True
    if observation.what is ObservationKind.CRASHED:
        is_known = observation.is_found and vm.name in fleet.crashed
        if vm.deallocated or (is_known and not fleet.groups[vm.group].terms.policy.restart_after_crash):
            return True
        return any(EVENT_TYPES[event.type].takes_machine for event in started)
    request = fleet.power_requests.get(vm.name)
    return bool(started) or (request is not None and not request.failure)


def _fail(fleet: Fleet, command: RecordObservation, vm: Vm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    for event in fleet.events_on(vm.name):
        if event.status is EventStatus.STARTED:
            yield lifecycle.fail(event, now, f"{vm.name} crashed")
    if not fleet.groups[vm.group].terms.policy.restart_after_crash:
        return  # another manager starts it; two would start it twice
    as_of_host = OperateHost(id=command.id, by=command.by, operation=HostOperation.FAIL, host=vm.standing_on)
    event = event_for(
        fleet,
        as_of_host,
        0,
        [vm],
        ANNOUNCEMENTS[Operation.VM_FAIL],
        Operation.VM_FAIL,
        now,
        rules,
        StartCause.HARDWARE_FAILED,
    )
    yield lifecycle.start_at_once(event, now)
