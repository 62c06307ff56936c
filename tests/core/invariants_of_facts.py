"""What holds of every fact, each rule by its name, written from the words of the rules and not from the code."""

from datetime import datetime, timedelta
from itertools import combinations

from forewarn.core.commands import MoveVm, RecordObservation, ReportImpact, StartVm, SwitchOff
from forewarn.core.facts import (
    Announced,
    Approved,
    BroughtForward,
    Canceled,
    Completed,
    Failed,
    IncarnationsRaised,
    Postponed,
    Started,
    StartedAtOnce,
    SwitchedOff,
    VmMoved,
    VmStarted,
    VmSwitched,
    Waiting,
)
from forewarn.core.model import CallerKind, Event, EventStatus, EventType
from tests.core.invariant_checker import MINIMUM_NOTICE, Moment, OfFact
from tests.core.relations import exclude_each_other, is_quiet, must_wait_for_failure, rank, takes_turns

OF_FACTS: list[OfFact] = []


def holds(check: OfFact) -> OfFact:
    OF_FACTS.append(check)
    return check


@holds
def never_starts_before_not_before_unless_approved(moment: Moment) -> None:
    if isinstance(moment.fact, Started):
        event = moment.before.events[moment.fact.event]
        assert event.not_before <= moment.fact.at or moment.memory.is_approved(event, moment.before)


@holds
def notice_is_never_below_the_minimum(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=Event(without_notice="") as event):
            owed = moment.before.terms[event.group].terminate_notice or 0
            minimum = MINIMUM_NOTICE.get(event.type, timedelta(seconds=owed))
            assert event.not_before - moment.now >= minimum / moment.memory.hurry
            assert event.not_before.utcoffset() == timedelta(0)
            assert event.not_before.microsecond == 0


@holds
def only_what_owes_no_notice_goes_without(moment: Moment) -> None:
    match moment.fact:
        case StartedAtOnce(event=event) | Announced(event=event):
            vm = moment.before.vms[event.resources[0]]
            is_off_for_user = event.source == "user" and event.group not in moment.before.enrolled
            is_bare_delete = event.type is EventType.TERMINATE and (
                vm.spot or moment.before.terms[event.group].terminate_notice is None
            )
            policy = moment.before.terms[event.group].policy
            is_automatic = (event.operation == "vm restart" and policy.approve_user_reboot) or (
                event.operation == "vm redeploy" and policy.approve_user_redeploy
            )
            owes_none = (
                is_off_for_user or is_bare_delete or is_automatic or event.operation in {"host fail", "vm fail"}
            )
            assert owes_none or not event.without_notice
            assert event.without_notice or isinstance(moment.fact, Announced)
            assert event.operation != "vm fail" or policy.restart_after_crash


@holds
def what_owes_no_notice_is_born_started_unless_its_vm_is_busy(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) if event.without_notice:
            started = [each for each in moment.before.events.values() if each.status is EventStatus.STARTED]
            assert any(set(each.resources) & set(event.resources) for each in started)


@holds
def an_event_holds_vms_of_one_group_one_update_domain_one_host(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            vms = [moment.before.vms[name] for name in event.resources]
            assert {vm.group for vm in vms} == {event.group}
            assert {vm.standing_on for vm in vms} == {event.host}
            assert {vm.update_domain for vm in vms} == {event.update_domain}
            assert list(event.resources) == sorted(set(event.resources))


@holds
def an_event_never_reaches_a_vm_of_another_group(moment: Moment) -> None:
    for event in moment.after.events.values():
        there = [moment.after.vms[name] for name in event.vms]
        assert {vm.group for vm in there} <= {event.group}


@holds
def a_vm_that_comes_anew_is_in_no_event(moment: Moment) -> None:
    new = moment.after.vms.keys() - moment.before.vms.keys()
    assert not [event.id for event in moment.before.events.values() if new & set(event.vms)]


@holds
def maintenance_takes_turns_and_no_vm_is_under_two_started_events(moment: Moment) -> None:
    started = [event for event in moment.after.events.values() if event.status is EventStatus.STARTED]
    for one, other in combinations(started, 2):
        assert not exclude_each_other(one, other, moment.memory)


@holds
def maintenance_does_not_start_beside_a_hardware_failure_of_its_group(moment: Moment) -> None:
    match moment.fact:
        case Started(event=id_):
            starting = moment.before.events[id_]
            for other in moment.before.events.values():
                if other.status is EventStatus.STARTED:
                    assert not must_wait_for_failure(starting, other, moment.memory)


@holds
def one_id_for_life(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            assert event.id not in moment.memory.births
    for id_, event in moment.after.events.items():
        if birth := moment.memory.births.get(id_):
            kept = ("type", "source", "group", "resources", "announced_at", "operation", "host")
            assert [getattr(event, key) for key in kept] == [getattr(birth, key) for key in kept]


@holds
def not_before_moves_only_by_a_postponement_or_a_nearer_prediction(moment: Moment) -> None:
    for id_, event in moment.after.events.items():
        old = moment.before.events.get(id_)
        if old is None or event.not_before == old.not_before:
            continue
        if isinstance(moment.fact, Postponed):
            assert event.not_before > old.not_before
            assert event.postponed <= moment.before.terms[event.group].policy.postpone_limit
            assert event.type not in {EventType.PREEMPT, EventType.TERMINATE}
        else:
            assert isinstance(moment.fact, BroughtForward)
            assert event.operation == "host degrade"
            assert event.not_before < old.not_before
            assert event.not_before - moment.now >= MINIMUM_NOTICE[event.type] / moment.memory.hurry
        assert event.status is EventStatus.SCHEDULED
        assert event.not_before.microsecond == 0


@holds
def no_maintenance_starts_in_quiet_hours(moment: Moment) -> None:
    match moment.fact:
        case Started(event=id_) if takes_turns(event := moment.before.events[id_]):
            assert not is_quiet(moment.before.terms[event.group].policy.quiet_hours, moment.now)
        case Waiting(event=id_, until=datetime() as until):
            event = moment.before.events[id_]
            assert takes_turns(event)
            assert is_quiet(moment.before.terms[event.group].policy.quiet_hours, moment.now)
            assert until > moment.now


@holds
def status_only_moves_forward(moment: Moment) -> None:
    order = [EventStatus.SCHEDULED, EventStatus.STARTED]
    assert not moment.after.events.keys() & moment.memory.ended
    for id_, event in moment.after.events.items():
        if old := moment.before.events.get(id_):
            assert order.index(event.status) >= order.index(old.status)
        else:
            assert isinstance(moment.fact, Announced | StartedAtOnce)
    for id_ in moment.before.events.keys() - moment.after.events.keys():
        ending = moment.fact
        assert isinstance(ending, Completed | Failed | Canceled)
        assert ending.event == id_
        was_scheduled = moment.before.events[id_].status is EventStatus.SCHEDULED
        assert isinstance(ending, Canceled) == was_scheduled


@holds
def the_incarnation_rises_by_one_with_what_is_shown_and_with_nothing_else(moment: Moment) -> None:
    for group in moment.before.terms.keys() & moment.after.terms.keys():
        changed = moment.before.documents[group] != moment.after.documents[group]
        rise = moment.after.incarnations[group] - moment.before.incarnations[group]
        if isinstance(moment.fact, IncarnationsRaised) and group in moment.fact.groups:
            assert rise > 0
            assert not changed
        else:
            assert rise == changed


@holds
def the_incarnation_never_falls(moment: Moment) -> None:
    for group, incarnation in moment.after.incarnations.items():
        assert incarnation >= moment.memory.incarnations.get(group, 1)


@holds
def one_incarnation_shows_one_document(moment: Moment) -> None:
    for group, incarnation in moment.after.incarnations.items():
        document = moment.after.documents[group]
        assert moment.memory.documents.get((group, incarnation), document) == document


@holds
def nobody_is_overtaken(moment: Moment) -> None:
    if not isinstance(moment.fact, Started):
        return
    starting = moment.before.events[moment.fact.event]
    for other in moment.before.events.values():
        if other.status is not EventStatus.SCHEDULED or other.id == starting.id:
            continue
        is_ready = other.not_before <= moment.now or moment.memory.is_approved(other, moment.before)
        is_hushed = takes_turns(other) and is_quiet(moment.before.terms[other.group].policy.quiet_hours, moment.now)
        if is_ready and not is_hushed and exclude_each_other(starting, other, moment.memory):
            assert rank(starting, moment.memory) < rank(other, moment.memory)


@holds
def nobody_from_outside_the_group_approves(moment: Moment) -> None:
    match moment.fact:
        case Approved(event=id_, by=by) if by.kind is CallerKind.VM:
            assert moment.before.vms[by.name].group == moment.before.events[id_].group


@holds
def a_vm_leaves_only_when_no_started_event_needs_it(moment: Moment) -> None:
    for name in moment.before.vms.keys() - moment.after.vms.keys():
        for event in moment.after.events.values():
            assert name not in event.vms
            before = moment.before.events.get(event.id)
            assert before is None or name not in before.vms or event.status is EventStatus.SCHEDULED


@holds
def a_vm_moves_only_to_a_known_host(moment: Moment) -> None:
    if isinstance(moment.fact, VmMoved):
        assert moment.after.vms[moment.fact.vm].standing_on == moment.fact.host


@holds
def nothing_comes_to_a_failed_host(moment: Moment) -> None:
    for name, vm in moment.after.vms.items():
        old = moment.before.vms.get(name)
        if vm.standing_on in moment.memory.failed_hosts:
            assert old
            assert old.standing_on == vm.standing_on
            assert vm.deallocated or not old.deallocated
    for event in moment.after.events.values():
        is_planned = event.status is EventStatus.SCHEDULED
        assert not is_planned or event.targets.isdisjoint(moment.memory.failed_hosts)


@holds
def nothing_is_sent_to_a_cordoned_host(moment: Moment) -> None:
    """A driver may report or see that a VM came there, and an operator may record it: that is how it is then."""
    cordoned = moment.memory.cordoned
    for event in moment.after.events.values():
        assert event.targets.isdisjoint(cordoned)
    if isinstance(moment.command, ReportImpact | RecordObservation) or (
        isinstance(moment.command, MoveVm) and moment.command.record
    ):
        return
    for name, vm in moment.after.vms.items():
        old = moment.before.vms.get(name)
        if vm.standing_on in cordoned:
            assert old
            assert old.standing_on == vm.standing_on
            assert vm.deallocated or not old.deallocated


@holds
def a_drain_moves_each_vm_to_the_host_planned_for_it(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) if event.operation == "host drain":
            assert tuple(sorted(event.placements)) == event.resources
            assert event.host not in event.targets
            assert event.host in moment.memory.cordoned


@holds
def a_vm_that_is_off_stays_off_until_it_is_started(moment: Moment) -> None:
    for name, vm in moment.after.vms.items():
        old = moment.before.vms.get(name)
        if old and old.deallocated and not vm.deallocated:
            assert moment.fact == VmStarted(name, request=getattr(moment.fact, "request", ""))
            assert isinstance(moment.command, StartVm)


@holds
def a_power_request_is_where_the_vm_is_to_be(moment: Moment) -> None:
    match moment.fact:
        case VmSwitched(vm=name, on=on):
            assert moment.before.vms[name].deallocated is not on


@holds
def only_spot_vms_are_evicted(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) | StartedAtOnce(event=event) if event.type is EventType.PREEMPT:
            assert all(moment.before.vms[name].spot for name in event.resources)


@holds
def a_host_has_one_unfinished_operation_of_a_kind(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) if event.operation in {"host freeze", "host reboot", "host redeploy"}:
            same = [each for each in moment.before.events.values() if each.operation == event.operation]
            siblings = [each for each in same if each.announced_at == event.announced_at]
            standing = [each for each in same if each.host == event.host and each not in siblings]
            on_host = {vm.group for vm in moment.before.vms.values() if vm.standing_on == event.host}
            assert not [each.id for each in standing if each.group in on_host]


@holds
def a_group_is_switched_off_only_when_nobody_asked_for_long(moment: Moment) -> None:
    if isinstance(moment.fact, SwitchedOff):
        assert isinstance(moment.command, SwitchOff)
        asked = [mark.at for mark in moment.command.marks if mark.group == moment.fact.group]
        idle = moment.now - max(moment.memory.asked[moment.fact.group], asked[-1])
        assert idle >= timedelta(hours=24) / moment.memory.hurry
        assert moment.fact.group in moment.before.enrolled
