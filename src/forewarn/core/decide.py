"""What a command makes happen: ``decide`` says it, ``enact`` lets the fleet take it in.

    command --decide--> facts --evolve--> fleet --settle--> the facts that follow --evolve--> fleet

Both ``decide`` and ``settle`` only look at the fleet. A command is refused before anything changed, or it
happens whole.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import assert_never

from forewarn.core import (
    approval,
    commands,
    enrolment,
    fleet_changes,
    fleet_declaration,
    hosts,
    impact_results,
    incarnations,
    lifecycle,
    moves,
    observations,
    operations,
    tokens,
    turns,
)
from forewarn.core.commands import Command
from forewarn.core.errors import unknown
from forewarn.core.facts import (
    AccessFact,
    Announced,
    AnyFact,
    Approved,
    Attempted,
    BroughtForward,
    Canceled,
    ChangesHeld,
    ClockStepped,
    Completed,
    EnrolmentFact,
    EventEnded,
    EventFact,
    Failed,
    Fetched,
    FleetChanged,
    FleetDeclared,
    GroupSet,
    HostCordonSet,
    HostFact,
    HostStateSet,
    IncarnationsRaised,
    ObservationRecorded,
    Postponed,
    Started,
    StartedAtOnce,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
    Waiting,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event
from forewarn.core.notice import Rules
from forewarn.core.turns import HasPassed


def enact(
    fleet: Fleet, command: Command, now: datetime, rules: Rules, has_passed: HasPassed = lambda _: True
) -> tuple[AnyFact, ...]:
    """Decide the command, evolve the fleet by its facts, and let start what then is ready and has its turn.

    An event starts by deadline only when its notice ``has_passed``, which a wall clock that was set cannot tell.
    """
    facts, stirred = _evolve(fleet, decide(fleet, command, now, rules, has_passed))
    if fleet.last_applied.waiting and any(_may_free(fact) for fact in facts):
        held, also_stirred = _evolve(fleet, fleet_declaration.retry_held(fleet, now))
        stirred |= also_stirred
        facts += held
    for group in stirred:
        for fact in turns.settle(fleet, group, now, has_passed):
            fleet.evolve(fact)
            facts.append(fact)
    return tuple(facts)


def _evolve(fleet: Fleet, decided: Iterable[AnyFact]) -> tuple[list[AnyFact], dict[str, None]]:
    """Let the fleet take in facts, all of them decided before the first, and what follows from each.

    Return all of these, and the groups in which another event may start then, or no longer.
    """
    facts: list[AnyFact] = []
    stirred: dict[str, None] = {}
    for fact in list(decided):
        stirred |= dict.fromkeys(_stirred_groups(fleet, fact))
        floors = incarnations.floors(fleet, fact)
        fleet.evolve(fact)
        facts.append(fact)
        if floors and (raised := incarnations.raise_above(fleet, floors)):
            fleet.evolve(raised)
            facts.append(raised)
    return facts, stirred


def decide(
    fleet: Fleet, command: Command, now: datetime, rules: Rules, has_passed: HasPassed = lambda _: True
) -> Iterable[AnyFact]:
    """Return what the command makes happen; raise ``Refused`` where the rules do not allow it."""
    match command:
        case commands.Approve():
            return approval.approve(fleet, command, now)
        case commands.CheckDeadlines():
            return _wake(fleet, command, now, has_passed)
        case commands.RecordAttempt():
            return (lifecycle.attempt(_event(fleet, command.event), now),)
        case commands.ReportImpact():
            return impact_results.report_impact(fleet, command, now)
        case commands.RecordObservation():
            return observations.record_observation(fleet, command, now, rules)
        case commands.OperateVm():
            return operations.operate_vm(fleet, command, now, rules)
        case commands.OperateHost():
            return hosts.operate_host(fleet, command, now, rules)
        case commands.RepairHost():
            return hosts.repair_host(fleet, command, now)
        case commands.CordonHost():
            return moves.cordon_host(fleet, command, now)
        case commands.DrainHost():
            return moves.drain_host(fleet, command, now, rules)
        case commands.MoveVm():
            return moves.move_vm(fleet, command, now, rules)
        case commands.ReclaimSpot():
            return operations.reclaim_spot(fleet, command, now, rules)
        case commands.ScaleIn():
            return operations.scale_in(fleet, command, now, rules)
        case commands.CancelEvent():
            return (lifecycle.cancel(_event(fleet, command.event), now, f"canceled by {command.by}"),)
        case commands.StartVm():
            return operations.start_vm(fleet, command)
        case commands.DeallocateVm():
            return operations.deallocate_vm(fleet, command, now)
        case commands.ReportPowerSwitch():
            return operations.report_switch(fleet, command, now)
        case commands.ChangeFleet():
            return fleet_changes.change_fleet(fleet, command, now)
        case commands.ApplyDeclaration():
            return fleet_declaration.apply_declaration(fleet, command, now)
        case commands.SetGroup():
            return fleet_changes.set_group(fleet, command)
        case commands.CreateToken():
            return tokens.create_token(fleet, command)
        case commands.RevokeToken():
            return tokens.revoke_token(fleet, command)
        case commands.SetSubscription():
            return tokens.set_subscription(fleet, command)
        case commands.RemoveSubscription():
            return tokens.remove_subscription(fleet, command)
        case commands.RecordTest():
            return tokens.record_test(fleet, command)
        case commands.RecordDelivered():
            return tokens.record_delivered(fleet, command)
        case commands.Enrol():
            return enrolment.enrol(fleet, command, now)
        case commands.RecordAsked():
            return enrolment.record_asked(fleet, command, now, rules)
        case commands.SwitchOff():
            return enrolment.switch_off(fleet, command, now, rules)
        case commands.RecordFetched():
            return enrolment.record_fetched(fleet, command)
        case commands.RecordClockStep():
            return (ClockStepped(now, command.expected),)
        case _:
            raise TypeError(f"no rule decides {type(command).__name__}")


def _wake(fleet: Fleet, command: commands.CheckDeadlines, now: datetime, has_passed: HasPassed) -> Iterator[AnyFact]:
    groups = {event.group: None for id_ in command.events if (event := fleet.events.get(id_))}
    for group in groups:
        yield from turns.settle(fleet, group, now, has_passed)


def _may_free(fact: AnyFact) -> bool:
    """Tell whether a held change may be carried out after the fact."""
    match fact:
        case FleetChanged() | GroupSet() | VmRemoved() | VmMoved() | HostStateSet() | HostCordonSet():
            return True
        case _ if isinstance(fact, EventEnded):
            return True
        case FleetDeclared() | ChangesHeld() | IncarnationsRaised():
            return False
        case VmDeallocated() | VmStarted() | VmSwitched() | ObservationRecorded() | Fetched() | ClockStepped():
            return False
        case _ if isinstance(fact, (EventFact, EnrolmentFact, AccessFact)):
            return False
        case _:
            assert_never(fact)


def _stirred_groups(fleet: Fleet, fact: AnyFact) -> Iterator[str]:
    match fact:
        case Approved() | Postponed() | BroughtForward() | Completed() | Failed() | Canceled():
            yield fleet.events[fact.event].group
        case Announced(event=event):
            yield event.group
        case VmRemoved(vm=vm) | VmDeallocated(vm=vm) | VmStarted(vm=vm):
            yield fleet.vms[vm].group
        case GroupSet(terms=terms):
            yield terms.name
        case FleetChanged(groups=groups, vms=vms, removed_vms=removed):
            yield from (terms.name for terms in groups)
            if fleet.events:
                touched = (
                    fleet.vms[name].group for name in (*(vm.name for vm in vms), *removed) if name in fleet.vms
                )
                joined = (vm.group for vm in vms)
                yield from (group for group in (*touched, *joined) if fleet.events_of(group))
        case (
            StartedAtOnce() | Waiting() | Started() | Attempted() | Fetched() | ClockStepped() | ObservationRecorded()
        ):
            pass
        case FleetDeclared() | ChangesHeld() | VmSwitched() | VmMoved() | IncarnationsRaised():
            pass
        case _ if isinstance(fact, (HostFact, EnrolmentFact, AccessFact)):
            pass
        case _:
            assert_never(fact)


def _event(fleet: Fleet, id_: str) -> Event:
    if event := fleet.events.get(id_):
        return event
    raise unknown("unfinished event", id_, fleet.events)
