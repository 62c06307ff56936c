"""Consequences of observations: changes of machines that Forewarn did not cause.

    unknown VM, or explained by an impact in progress    nothing
    crashed, of a VM that is deallocated                 nothing: drivers report it again at each start
    crashed, found so at a start, recorded already,
    ... and its group has no restart_after_crash         nothing
    moved, to the recorded host                          nothing: drivers report hosts at each start
    rebooted, stopped, started, gone                     it is recorded
    moved                                                recorded; the fleet is updated, unless that host has failed
    crashed                                              recorded, its Started events fail
    ... and its group has restart_after_crash            a failure event restarts it

A crashed machine is restarted by an event of its own, created Started, as after a host failure. Its Started events
fail; Scheduled ones stay, and wait their turn.
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
    """Record an unexplained observation, and yield its consequences."""
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
    """Return whether an impact in progress explains the observation, or it matches the recorded state."""
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
