"""What follows when a driver sees something happen to a machine that nobody asked it for.

    unknown VM, or one of our own impacts explains it    nothing
    crashed, of a VM that is deallocated                 nothing: drivers find the dead again at each start
    rebooted, stopped, started, gone                     it is recorded
    crashed                                              recorded, and its VM has encountered a failure

A machine that crashed is brought back by an event of its own, born Started, as after the failure of a whole host.
What had Started for it fails; what is Scheduled stays, and waits its turn.
"""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core import lifecycle
from forewarn.core.commands import HostOperation, Observe, OperateHost
from forewarn.core.facts import AnyFact, Observed
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventStatus, EventType, Seen, Vm
from forewarn.core.notice import HOST_ANNOUNCEMENTS, MACHINE_FAILURE, Rules
from forewarn.core.operations import HARDWARE_FAILED, event_for

_TAKES_THE_MACHINE_AWAY = {EventType.REDEPLOY, EventType.PREEMPT, EventType.TERMINATE}


def observe(fleet: Fleet, command: Observe, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Record a sighting that nothing of ours explains, and let follow what must."""
    sighting = command.sighting
    vm = fleet.vms.get(sighting.vm)
    if vm is None or _is_explained(fleet, vm, sighting.what):
        return
    yield Observed(sighting)
    if sighting.what is Seen.CRASHED:
        yield from _fail(fleet, command, vm, now, rules)


def _is_explained(fleet: Fleet, vm: Vm, what: Seen) -> bool:
    """Tell whether an impact of ours is under way that may look so, or it is as it should be."""
    started = [event for event in fleet.events_on(vm.name) if event.status is EventStatus.STARTED]
    if what is Seen.CRASHED:
        return vm.deallocated or any(event.type in _TAKES_THE_MACHINE_AWAY for event in started)
    return bool(started)


def _fail(fleet: Fleet, command: Observe, vm: Vm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    for event in fleet.events_on(vm.name):
        if event.status is EventStatus.STARTED:
            yield lifecycle.fail(event, now, f"{vm.name} crashed")
    as_of_host = OperateHost(id=command.id, by=command.by, operation=HostOperation.FAIL, host=vm.standing_on)
    announcement = HOST_ANNOUNCEMENTS[HostOperation.FAIL]
    event = event_for(fleet, as_of_host, 0, [vm], announcement, MACHINE_FAILURE, now, rules, HARDWARE_FAILED)
    yield lifecycle.start_at_once(event, now)
