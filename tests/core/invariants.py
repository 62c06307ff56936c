"""The rules that hold always, each by its name. Two lists: what holds of every fact, and of every step.

They are written from the words of the rules, not from the code; where the code has a table, they have their own.
"""

from datetime import datetime, timedelta
from itertools import combinations

from forewarn.core.commands import Approve, CancelEvent, OperateVm, SwitchOff
from forewarn.core.facts import (
    Announced,
    Approved,
    BroughtForward,
    Canceled,
    Completed,
    Failed,
    Postponed,
    Started,
    StartedAtOnce,
    SwitchedOff,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    Waiting,
)
from forewarn.core.model import CallerKind, Event, EventStatus, EventType
from tests.core.witness import (
    MINIMUM_NOTICE,
    Memory,
    Moment,
    OfFact,
    OfStep,
    Sight,
    Step,
    derived,
    foreign_ids,
    packed,
)

OF_FACTS: list[OfFact] = []
OF_STEPS: list[OfStep] = []


def of_facts(check: OfFact) -> OfFact:
    OF_FACTS.append(check)
    return check


def of_steps(check: OfStep) -> OfStep:
    OF_STEPS.append(check)
    return check


def takes_turns(event: Event) -> bool:
    is_maintenance = event.type in {EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY}
    return event.source == "platform" and is_maintenance and event.operation != "host fail"


def exclude_each_other(one: Event, other: Event, memory: Memory) -> bool:
    """Tell whether the two must not be Started together."""
    if set(one.vms) & set(other.vms):
        return True
    if one.group != other.group or not (takes_turns(one) and takes_turns(other)):
        return False
    mine, theirs = memory.domains[one.id], memory.domains[other.id]
    return mine != theirs or len(mine[0]) > 1 or len(mine[1]) > 1


def rank(event: Event, memory: Memory) -> tuple[object, int]:
    return event.not_before, list(memory.births).index(event.id)


@of_facts
def never_starts_before_not_before_unless_approved(moment: Moment) -> None:
    if isinstance(moment.fact, Started):
        event = moment.before.events[moment.fact.event]
        assert event.not_before <= moment.fact.at or moment.memory.is_approved(event, moment.before)


@of_facts
def notice_is_never_below_the_minimum(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=Event(without_notice="") as event):
            owed = moment.before.terms[event.group].terminate_notice or 0
            minimum = MINIMUM_NOTICE.get(event.type, timedelta(seconds=owed))
            assert event.not_before - moment.now >= minimum / moment.memory.hurry
            assert event.not_before.utcoffset() == timedelta(0)
            assert event.not_before.microsecond == 0


@of_facts
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
            owes_none = is_off_for_user or is_bare_delete or is_automatic or event.operation == "host fail"
            assert owes_none or not event.without_notice
            assert event.without_notice or isinstance(moment.fact, Announced)


@of_facts
def what_owes_no_notice_is_born_started_unless_its_vm_is_busy(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) if event.without_notice:
            started = [each for each in moment.before.events.values() if each.status is EventStatus.STARTED]
            assert any(set(each.resources) & set(event.resources) for each in started)


@of_facts
def an_event_holds_vms_of_one_group_one_update_domain_one_host(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            vms = [moment.before.vms[name] for name in event.resources]
            assert {vm.group for vm in vms} == {event.group}
            assert {vm.standing_on for vm in vms} == {event.host}
            assert {vm.update_domain for vm in vms} == {event.update_domain}
            assert list(event.resources) == sorted(set(event.resources))


@of_facts
def an_event_never_reaches_a_vm_of_another_group(moment: Moment) -> None:
    for event in moment.after.events.values():
        there = [moment.after.vms[name] for name in event.vms]
        assert {vm.group for vm in there} <= {event.group}


@of_facts
def a_vm_that_comes_anew_is_in_no_event(moment: Moment) -> None:
    new = moment.after.vms.keys() - moment.before.vms.keys()
    assert not [event.id for event in moment.before.events.values() if new & set(event.vms)]


@of_facts
def maintenance_takes_turns_and_no_vm_is_under_two_started_events(moment: Moment) -> None:
    started = [event for event in moment.after.events.values() if event.status is EventStatus.STARTED]
    born = {moment.fact.event.id: moment.fact.event} if isinstance(moment.fact, StartedAtOnce) else {}
    if born:
        return  # its domains are remembered from the next fact on
    for one, other in combinations(started, 2):
        assert not exclude_each_other(one, other, moment.memory)


@of_facts
def one_id_for_life(moment: Moment) -> None:
    match moment.fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            assert event.id not in moment.memory.births
    for id_, event in moment.after.events.items():
        if birth := moment.memory.births.get(id_):
            kept = ("type", "source", "group", "resources", "announced_at", "operation", "host")
            assert [getattr(event, key) for key in kept] == [getattr(birth, key) for key in kept]


@of_facts
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


@of_facts
def no_maintenance_starts_in_quiet_hours(moment: Moment) -> None:
    match moment.fact:
        case Started(event=id_) if takes_turns(event := moment.before.events[id_]):
            assert not is_quiet(moment.before.terms[event.group].policy.quiet_hours, moment.now)
        case Waiting(event=id_, until=datetime() as until):
            event = moment.before.events[id_]
            assert takes_turns(event)
            assert is_quiet(moment.before.terms[event.group].policy.quiet_hours, moment.now)
            assert until > moment.now


def is_quiet(hours: tuple[str, ...], now: datetime) -> bool:
    """Tell it for the periods that the machine uses, by hand."""
    minute = now.hour * 60 + now.minute
    berlin = (minute + 60) % 1440  # the machine's days are in winter
    is_early_week = (now + timedelta(hours=1)).weekday() in {0, 1}
    return any(
        (period == "11:00-12:10" and 660 <= minute < 730)
        or (period == "12:10-12:20" and 730 <= minute < 740)
        or (period.endswith("Berlin") and 740 <= berlin < 750 and is_early_week)
        for period in hours
    )


@of_facts
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


@of_facts
def the_incarnation_rises_by_one_with_what_is_shown_and_with_nothing_else(moment: Moment) -> None:
    for group in moment.before.terms.keys() & moment.after.terms.keys():
        changed = moment.before.documents[group] != moment.after.documents[group]
        assert moment.after.incarnations[group] - moment.before.incarnations[group] == changed


@of_facts
def the_incarnation_never_falls(moment: Moment) -> None:
    for group, incarnation in moment.after.incarnations.items():
        assert incarnation >= moment.memory.incarnations.get(group, 1)


@of_facts
def one_incarnation_shows_one_document(moment: Moment) -> None:
    for group, incarnation in moment.after.incarnations.items():
        document = moment.after.documents[group]
        assert moment.memory.documents.get((group, incarnation), document) == document


@of_facts
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


@of_facts
def nobody_from_outside_the_group_approves(moment: Moment) -> None:
    match moment.fact:
        case Approved(event=id_, by=by) if by.kind is CallerKind.VM:
            assert moment.before.vms[by.name].group == moment.before.events[id_].group


@of_facts
def a_vm_leaves_only_when_no_started_event_needs_it(moment: Moment) -> None:
    for name in moment.before.vms.keys() - moment.after.vms.keys():
        for event in moment.after.events.values():
            assert name not in event.vms
            assert name not in event.resources or event.status is EventStatus.SCHEDULED


@of_facts
def a_vm_moves_only_to_a_known_host(moment: Moment) -> None:
    if isinstance(moment.fact, VmMoved):
        assert moment.after.vms[moment.fact.vm].standing_on == moment.fact.host


@of_facts
def a_group_is_switched_off_only_when_nobody_asked_for_long(moment: Moment) -> None:
    if isinstance(moment.fact, SwitchedOff):
        assert isinstance(moment.command, SwitchOff)
        asked = [mark.at for mark in moment.command.marks if mark.group == moment.fact.group]
        idle = moment.now - max(moment.memory.asked[moment.fact.group], asked[-1])
        assert idle >= timedelta(hours=24) / moment.memory.hurry
        assert moment.fact.group in moment.before.enrolled


@of_steps
def the_fleet_is_the_fold_of_its_facts(step: Step) -> None:
    assert packed(step.mirror) == packed(step.fleet)
    assert derived(step.mirror) == derived(step.fleet)


@of_steps
def what_is_refused_changes_nothing(step: Step) -> None:
    if step.facts is None:
        assert packed(step.fleet) == step.before_packed


@of_steps
def what_stirs_nothing_leaves_everything(step: Step) -> None:
    if step.facts == ():
        assert step.after == step.before


@of_steps
def start_requests_are_checked_whole(step: Step) -> None:
    if isinstance(step.command, Approve):
        is_foreign = bool(foreign_ids(step.command, step.before))
        assert step.facts is None if is_foreign else step.facts is not None or step.command.postponements


@of_steps
def an_approval_that_counts_lets_the_event_start_or_wait_its_turn(step: Step) -> None:
    if not isinstance(step.command, Approve) or step.facts is None:
        return
    by_vm = step.command.by.kind is CallerKind.VM
    for id_ in step.command.events:
        event = step.before.events[id_]
        if event.status is EventStatus.SCHEDULED and (not by_vm or step.before.terms[event.group].approval == "any"):
            now = step.after.events[id_]
            assert now.status is EventStatus.STARTED or now.waits_for or now.waits_until


@of_steps
def a_second_approval_changes_nothing(step: Step) -> None:
    for fact in step.facts or ():
        if isinstance(fact, Approved):
            event = step.before.events[fact.event]
            assert event.status is EventStatus.SCHEDULED
            assert not fact.counts or fact.by.name not in event.approvals
            assert not event.approved_by


@of_steps
def what_has_started_is_not_canceled(step: Step) -> None:
    if isinstance(step.command, CancelEvent):
        event = step.before.events.get(step.command.event)
        is_cancelable = event is not None and event.status is EventStatus.SCHEDULED
        assert (step.facts is not None) == is_cancelable


@of_steps
def what_is_ready_waits_only_for_what_stands_in_its_way(step: Step) -> None:
    events = step.after.events
    for event in events.values():
        if event.status is not EventStatus.SCHEDULED or not step.memory.is_ready(event, step.after):
            continue
        if event.waits_until:
            continue  # that it waits for the end of quiet hours was seen when it began to
        assert event.waits_for, f"{event.id} is ready and waits for nothing"
        blocker = events[event.waits_for]
        assert exclude_each_other(event, blocker, step.memory)
        is_ahead = is_ready(blocker, step) and rank(blocker, step.memory) < rank(event, step.memory)
        assert blocker.status is EventStatus.STARTED or is_ahead


@of_steps
def an_event_that_waits_names_one_that_is_there(step: Step) -> None:
    for event in step.after.events.values():
        if event.waits_for:
            assert event.status is EventStatus.SCHEDULED
            assert event.waits_for in step.after.events
            assert is_ready(event, step)


def is_ready(event: Event, step: Step) -> bool:
    return event.not_before <= step.now or step.memory.is_approved(event, step.after)


@of_steps
def every_event_has_a_vm_that_is_there(step: Step) -> None:
    for event in step.after.events.values():
        assert event.group in step.after.terms
        assert event.vms


@of_steps
def no_two_unfinished_user_operations_of_one_kind_on_a_vm(step: Step) -> None:
    asked = [(event.operation, event.resources) for event in step.after.events.values() if event.source == "user"]
    assert len(asked) == len(set(asked))


@of_steps
def user_operations_stay_within_the_limit(step: Step) -> None:
    limit = step.memory.rules.user_operation_limit
    before, after = user_operations(step.before), user_operations(step.after)
    assert step.fleet.user_operations == after
    if limit and isinstance(step.command, OperateVm):
        assert after <= max(limit, before)


def user_operations(sight: Sight) -> int:
    return sum(event.source == "user" and event.status is EventStatus.SCHEDULED for event in sight.events.values())


@of_steps
def evict_and_delete_leave_nothing_scheduled_for_that_vm_alone(step: Step) -> None:
    command = step.command
    if not isinstance(command, OperateVm) or command.operation not in {"evict", "delete"} or step.facts is None:
        return
    new = {fact.event.id for fact in step.facts if isinstance(fact, Announced | StartedAtOnce)}
    for event in step.after.events.values():
        if event.resources == (command.vm,) and event.id not in new:
            assert event.status is EventStatus.STARTED


@of_steps
def an_ended_vm_is_gone_or_deallocated(step: Step) -> None:
    for fact in step.facts or ():
        if isinstance(fact, Completed):
            event = step.before.events[fact.event]
            (name, *_) = event.resources
            is_deleted = step.before.terms[event.group].eviction == "delete"
            if event.type is EventType.TERMINATE or (event.type is EventType.PREEMPT and is_deleted):
                assert VmRemoved in map(type, step.facts or ())
                assert name not in step.after.vms
            elif event.type is EventType.PREEMPT:
                assert step.after.vms[name].deallocated
                assert VmDeallocated in map(type, step.facts or ())


@of_steps
def the_fleet_holds_together(step: Step) -> None:
    fleet = step.fleet
    for group in fleet.groups.values():
        assert sorted(group.vms) == sorted(vm.name for vm in fleet.vms.values() if vm.group == group.name)
        assert group.terms.kind != "standalone" or len(group.vms) == 1
    for vm in fleet.vms.values():
        assert vm.group in fleet.groups
        assert not vm.standing_on or vm.standing_on in fleet.hosts
        assert not vm.address or fleet.addresses[vm.address] == vm.name
    assert len(fleet.addresses) == sum(bool(vm.address) for vm in fleet.vms.values())


@of_steps
def a_wait_is_noted_once(step: Step) -> None:
    notes = [(fact.event, fact.behind, fact.until) for fact in step.facts or () if isinstance(fact, Waiting)]
    assert len(notes) == len(set(notes))
    for id_, behind, until in notes:
        if old := step.before.events.get(id_):
            assert (old.waits_for, old.waits_until) != (behind, until)
