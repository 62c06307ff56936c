"""Decides commands: ``decide`` returns facts, ``enact`` also evolves the fleet.

    command --decide--> facts --evolve--> fleet --settle--> the facts that follow --evolve--> fleet

``decide`` and ``settle`` only read the fleet. A command is refused before anything changes, or carried out
completely.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import assert_never, get_args

from msgspec.structs import replace

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
from forewarn.core.errors import ForewarnError, Refused, unknown
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
    RecordSetChanged,
    Selected,
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
from forewarn.core.model import CANCELED_BY, Event
from forewarn.core.notice import Rules
from forewarn.core.rollouts import actions, advance, host_steps, steering
from forewarn.core.rollouts import commands as rollout_commands
from forewarn.core.rollouts.facts import RolloutEdited, RolloutFact
from forewarn.core.turns import HasPassed

_RECORD_SETS = frozenset(get_args(RecordSetChanged))
"""The facts that can require a higher incarnation; other facts are not examined for it."""

_NAMED = 10
"""Reasons that a refusal names."""


def enact(
    fleet: Fleet, command: Command, now: datetime, rules: Rules, has_passed: HasPassed = lambda _: True
) -> tuple[AnyFact, ...]:
    """Decide the command, evolve the fleet, and start the events that are then ready and have their turn.

    An event starts by deadline only if its notice ``has_passed`` on a clock that cannot be set.
    """
    if isinstance(command, commands.BulkCommand):
        return _enact_each(fleet, command, now, rules, has_passed)
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


def _enact_each(
    fleet: Fleet, bulk: commands.BulkCommand, now: datetime, rules: Rules, has_passed: HasPassed
) -> tuple[AnyFact, ...]:
    """Enact commands one after another; refuse the whole only if each of them is refused."""
    facts: list[AnyFact] = []
    refused: dict[str, str] = {}
    for number, (name, command) in enumerate(bulk.commands.items()):
        id_ = operations.derive_id(bulk.id, number).replace("-", "")
        try:
            facts += enact(fleet, replace(command, id=id_), now, rules, has_passed)
        except ForewarnError as error:  # it is refused before anything is changed
            refused[name] = str(error)
    if len(refused) == len(bulk.commands):
        raise Refused(_describe_refusals(refused))
    return Selected(bulk.operation, tuple(bulk.commands), refused), *facts


def _describe_refusals(refused: dict[str, str]) -> str:
    said = [f"{name}: {reason}" for name, reason in refused.items()]
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return f"nothing was changed: {'; '.join(said[:_NAMED])}{more}"


def attempt_started(
    fleet: Fleet, facts: Iterable[AnyFact], now: datetime, term: int, node: str, driver: str = ""
) -> tuple[Attempted, ...]:
    """Return an attempt for each event that these facts start, as ``RecordAttempt`` does."""
    attempts = []
    for fact in facts:
        if type(fact) is Started:
            id_ = fact.event
        elif type(fact) is StartedAtOnce:
            id_ = fact.event.id
        else:
            continue
        attempted = lifecycle.attempt(fleet.events[id_], now, term, node, driver)
        fleet.evolve(attempted)
        attempts.append(attempted)
    return tuple(attempts)


def _evolve(fleet: Fleet, decided: Iterable[AnyFact]) -> tuple[list[AnyFact], dict[str, None]]:
    """Evolve the fleet by facts that were decided together, and by the facts that follow from each.

    Return all facts, and the groups in which events may become ready or have to wait.
    """
    facts: list[AnyFact] = []
    stirred: dict[str, None] = {}
    for fact in tuple(decided):
        for group in _stirred_groups(fleet, fact):
            stirred[group] = None
        floors = incarnations.floors(fleet, fact) if type(fact) in _RECORD_SETS else None
        fleet.evolve(fact)
        facts.append(fact)
        if floors and (raised := incarnations.raise_above(fleet, floors)):
            fleet.evolve(raised)
            facts.append(raised)
    return facts, stirred


def decide(fleet: Fleet, command: Command, now: datetime, rules: Rules, has_passed: HasPassed) -> Iterable[AnyFact]:
    """Return the facts of a command; raise ``Refused`` if the rules do not allow it."""
    if type(command) is commands.OperateVm:
        return operations.operate_vm(fleet, command, now, rules)
    if type(command) is commands.CancelEvent:
        return (lifecycle.cancel(_event(fleet, command.event), now, f"{CANCELED_BY} {command.by}"),)
    if type(command) is commands.ReportImpact:
        return impact_results.report_impact(fleet, command, now)
    match command:
        case commands.Approve():
            return approval.approve(fleet, command, now)
        case commands.CheckDeadlines():
            return _wake(fleet, command, now, has_passed)
        case commands.RecordAttempt():
            event = _event(fleet, command.event)
            return (lifecycle.attempt(event, now, command.term, command.node, command.driver),)
        case commands.RecordObservation():
            return observations.record_observation(fleet, command, now, rules)
        case commands.OperateHost():
            return hosts.operate_host(fleet, command, now, rules)
        case commands.RepairHost():
            return hosts.repair_host(fleet, command, now)
        case commands.CordonHost():
            return moves.cordon_host(fleet, command, now)
        case commands.SetMaintenance():
            return moves.set_maintenance(fleet, command, now)
        case commands.DrainHost():
            return moves.drain_host(fleet, command, now, rules)
        case commands.MoveVm():
            return moves.move_vm(fleet, command, now, rules)
        case commands.ReclaimSpot():
            return operations.reclaim_spot(fleet, command, now, rules)
        case commands.ScaleIn():
            return operations.scale_in(fleet, command, now, rules)
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
        case commands.SetVm():
            return fleet_changes.set_vm(fleet, command, now)
        case commands.SetHost():
            return fleet_changes.set_host(fleet, command)
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
        case rollout_commands.AdvanceRollout():
            return advance.advance(fleet, command, now, rules)
        case rollout_commands.DrainRolloutHost():
            return actions.drain_host(fleet, command, now, rules)
        case rollout_commands.ReportHostCommand():
            return actions.report_command(fleet, command, now, rules)
        case rollout_commands.ReportRolloutCheck():
            return actions.report_check(fleet, command, now, rules)
        case rollout_commands.StartRollout():
            return steering.start(fleet, command, now, rules)
        case rollout_commands.EditRollout():
            return steering.edit(fleet, command, now, rules)
        case rollout_commands.PauseRollout():
            return steering.pause(fleet, command, now)
        case rollout_commands.ResumeRollout():
            return steering.resume(fleet, command, now)
        case rollout_commands.CancelRollout():
            return steering.cancel(fleet, command, now)
        case rollout_commands.RetryHosts():
            return steering.retry(fleet, command, now)
        case rollout_commands.SkipHost():
            return steering.skip(fleet, command, now)
        case _:
            raise TypeError(f"no rule decides {type(command).__name__}")


def _wake(fleet: Fleet, command: commands.CheckDeadlines, now: datetime, has_passed: HasPassed) -> Iterator[AnyFact]:
    groups = {event.group: None for id_ in command.events if (event := fleet.events.get(id_))}
    for group in groups:
        yield from turns.settle(fleet, group, now, has_passed)


def _may_free(fact: AnyFact) -> bool:
    """Return whether a held change may become possible after the fact."""
    match fact:
        case FleetChanged() | GroupSet() | VmRemoved() | VmMoved() | HostStateSet() | HostCordonSet():
            return True
        case _ if isinstance(fact, EventEnded):
            return True
        case FleetDeclared() | ChangesHeld() | IncarnationsRaised() | Selected():
            return False
        case VmDeallocated() | VmStarted() | VmSwitched() | ObservationRecorded() | Fetched() | ClockStepped():
            return False
        case _ if isinstance(fact, (EventFact, EnrolmentFact, AccessFact, RolloutFact)):
            return False
        case _:
            assert_never(fact)


def _stirred_groups(fleet: Fleet, fact: AnyFact) -> Iterable[str]:
    if type(fact) is Announced:
        return (fact.event.group,)
    if type(fact) is Approved or type(fact) is Completed or type(fact) is Canceled:
        return (fact.group,)
    match fact:
        case Failed() | Postponed() | BroughtForward():
            return (fact.group,)
        case VmRemoved(vm=vm) | VmDeallocated(vm=vm) | VmStarted(vm=vm):
            return (fleet.vms[vm].group,)
        case GroupSet(terms=terms):
            return (terms.name,)
        case FleetChanged():
            return _stirred_by_change(fleet, fact)
        case (
            StartedAtOnce() | Waiting() | Started() | Attempted() | Fetched() | ClockStepped() | ObservationRecorded()
        ):
            return ()
        case FleetDeclared() | ChangesHeld() | VmSwitched() | VmMoved() | IncarnationsRaised() | Selected():
            return ()
        case RolloutEdited(rollout=rollout):  # other windows may let its events start
            runs = host_steps.active_runs(fleet, fleet.rollouts[rollout])
            return [fleet.events[id_].group for run in runs for id_ in run.events]
        case _ if isinstance(fact, (HostFact, EnrolmentFact, AccessFact, RolloutFact)):
            return ()
        case _:
            assert_never(fact)


def _stirred_by_change(fleet: Fleet, fact: FleetChanged) -> Iterator[str]:
    yield from (terms.name for terms in fact.groups)
    if fleet.events:
        names = (*(vm.name for vm in fact.vms), *fact.removed_vms)
        touched = (fleet.vms[name].group for name in names if name in fleet.vms)
        joined = (vm.group for vm in fact.vms)
        yield from (group for group in (*touched, *joined) if fleet.events_of(group))


def _event(fleet: Fleet, id_: str) -> Event:
    if event := fleet.events.get(id_):
        return event
    raise unknown("unfinished event", id_, fleet.events)
