"""What a command makes happen: ``decide`` says it, ``enact`` lets the fleet take it in.

    command --decide--> facts --evolve--> fleet --settle--> the facts that follow --evolve--> fleet

Both ``decide`` and ``settle`` only look at the fleet. A command is refused before anything changed, or it
happens whole.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from forewarn.core import approval, declaration, enrolment, keys, lifecycle, operations, outcomes, sightings, turns
from forewarn.core.commands import (
    Approve,
    Attempt,
    CancelEvent,
    ChangeFleet,
    Command,
    CreateToken,
    DeallocateVm,
    Enrol,
    Observe,
    OperateHost,
    OperateVm,
    ReclaimSpot,
    RecordAsked,
    RecordDelivered,
    RecordFetched,
    RemoveSubscription,
    Report,
    RevokeToken,
    ScaleIn,
    SetGroup,
    SetSubscription,
    StartVm,
    SwitchOff,
    Wake,
)
from forewarn.core.errors import unknown
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Canceled,
    Completed,
    Failed,
    FleetChanged,
    GroupSet,
    VmDeallocated,
    VmRemoved,
    VmStarted,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event
from forewarn.core.notice import Rules


def enact(fleet: Fleet, command: Command, now: datetime, rules: Rules) -> tuple[AnyFact, ...]:
    """Decide the command, evolve the fleet by its facts, and let start what then is ready and has its turn."""
    facts = list(decide(fleet, command, now, rules))
    stirred = dict.fromkeys(_stirred_groups(fleet, facts))
    for fact in facts:
        fleet.evolve(fact)
    for group in stirred:
        for fact in turns.settle(fleet, group, now):
            fleet.evolve(fact)
            facts.append(fact)
    return tuple(facts)


def decide(fleet: Fleet, command: Command, now: datetime, rules: Rules) -> Iterable[AnyFact]:
    """Return what the command makes happen; raise ``Refused`` where the rules do not allow it."""
    match command:
        case Approve():
            return approval.approve(fleet, command, now)
        case Wake():
            return _wake(fleet, command, now)
        case Attempt():
            return (lifecycle.attempt(_event(fleet, command.event), now),)
        case Report():
            return outcomes.report(fleet, command, now)
        case Observe():
            return sightings.observe(fleet, command, now, rules)
        case OperateVm():
            return operations.operate_vm(fleet, command, now, rules)
        case OperateHost():
            return operations.operate_host(fleet, command, now, rules)
        case ReclaimSpot():
            return operations.reclaim_spot(fleet, command, now, rules)
        case ScaleIn():
            return operations.scale_in(fleet, command, now, rules)
        case CancelEvent():
            return (lifecycle.cancel(_event(fleet, command.event), now, f"canceled by {command.by}"),)
        case StartVm():
            return operations.start_vm(fleet, command)
        case DeallocateVm():
            return operations.deallocate_vm(fleet, command, now)
        case ChangeFleet():
            return declaration.change_fleet(fleet, command, now)
        case SetGroup():
            return declaration.set_group(fleet, command)
        case CreateToken():
            return keys.create_token(fleet, command)
        case RevokeToken():
            return keys.revoke_token(fleet, command)
        case SetSubscription():
            return keys.set_subscription(fleet, command)
        case RemoveSubscription():
            return keys.remove_subscription(fleet, command)
        case RecordDelivered():
            return keys.record_delivered(fleet, command)
        case Enrol():
            return enrolment.enrol(fleet, command, now)
        case RecordAsked():
            return enrolment.record_asked(fleet, command, now, rules)
        case SwitchOff():
            return enrolment.switch_off(fleet, command, now, rules)
        case RecordFetched():
            return enrolment.record_fetched(fleet, command)
        case _:
            raise TypeError(f"no rule decides {type(command).__name__}")


def _wake(fleet: Fleet, command: Wake, now: datetime) -> Iterator[AnyFact]:
    groups = {event.group: None for id_ in command.events if (event := fleet.events.get(id_))}
    for group in groups:
        yield from turns.settle(fleet, group, now)


def _stirred_groups(fleet: Fleet, facts: Iterable[AnyFact]) -> Iterator[str]:
    """Yield the groups in which these facts may let another event start, or no longer."""
    for fact in facts:
        match fact:
            case Approved() | Completed() | Failed() | Canceled():
                yield fleet.events[fact.event].group
            case Announced(event=event):
                yield event.group
            case VmRemoved(vm=vm) | VmDeallocated(vm=vm) | VmStarted(vm=vm):
                yield fleet.vms[vm].group
            case GroupSet(terms=terms):
                yield terms.name
            case FleetChanged(groups=groups):
                yield from (terms.name for terms in groups)


def _event(fleet: Fleet, id_: str) -> Event:
    if event := fleet.events.get(id_):
        return event
    raise unknown("unfinished event", id_, fleet.events)
