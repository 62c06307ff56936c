"""What holds after every command, each rule by its name, written from the words of the rules."""

from forewarn.core.commands import Approve, CancelEvent, OperateVm, ScaleIn
from forewarn.core.facts import Announced, Approved, Completed, StartedAtOnce, VmDeallocated, VmRemoved, Waiting
from forewarn.core.model import CallerKind, EventStatus, EventType
from tests.core.invariant_checker import OfStep, Step, derived, foreign_ids, packed
from tests.core.relations import (
    exclude_each_other,
    is_ready,
    must_wait_for_failure,
    rank,
    takes_turns,
    user_operations,
)

OF_STEPS: list[OfStep] = []


def holds(check: OfStep) -> OfStep:
    OF_STEPS.append(check)
    return check


@holds
def the_fleet_is_the_fold_of_its_facts(step: Step) -> None:
    assert packed(step.mirror) == packed(step.fleet)
    assert derived(step.mirror) == derived(step.fleet)


@holds
def what_is_refused_changes_nothing(step: Step) -> None:
    if step.facts is None:
        assert packed(step.fleet) == step.before_packed


@holds
def what_stirs_nothing_leaves_everything(step: Step) -> None:
    if step.facts == ():
        assert step.after == step.before


@holds
def start_requests_are_checked_whole(step: Step) -> None:
    if isinstance(step.command, Approve):
        is_foreign = bool(foreign_ids(step.command, step.before))
        assert step.facts is None if is_foreign else step.facts is not None or step.command.postponements


@holds
def an_approval_that_counts_lets_the_event_start_or_wait_its_turn(step: Step) -> None:
    if not isinstance(step.command, Approve) or step.facts is None:
        return
    by_vm = step.command.by.kind is CallerKind.VM
    for id_ in step.command.events:
        event = step.before.events[id_]
        if event.status is EventStatus.SCHEDULED and (not by_vm or step.before.terms[event.group].approval == "any"):
            now = step.after.events[id_]
            assert now.status is EventStatus.STARTED or now.waits_for or now.waits_until


@holds
def a_second_approval_changes_nothing(step: Step) -> None:
    for fact in step.facts or ():
        if isinstance(fact, Approved):
            event = step.before.events[fact.event]
            assert event.status is EventStatus.SCHEDULED
            assert not fact.counts or fact.by.name not in event.approvals
            assert not event.approved_by


@holds
def what_has_started_is_not_canceled(step: Step) -> None:
    if isinstance(step.command, CancelEvent):
        event = step.before.events.get(step.command.event)
        is_cancelable = event is not None and event.status is EventStatus.SCHEDULED
        assert (step.facts is not None) == is_cancelable


@holds
def what_is_ready_waits_only_for_what_stands_in_its_way(step: Step) -> None:
    events = step.after.events
    for event in events.values():
        if event.status is not EventStatus.SCHEDULED or not step.memory.is_ready(event, step.after):
            continue
        if event.waits_until:
            continue  # that it waits for the end of quiet hours was seen when it began to
        assert event.waits_for, f"{event.id} is ready and waits for nothing"
        blocker = events[event.waits_for]
        is_failure = must_wait_for_failure(event, blocker, step.memory)
        assert is_failure or exclude_each_other(event, blocker, step.memory)
        is_ahead = is_ready(blocker, step) and rank(blocker, step.memory) < rank(event, step.memory)
        assert blocker.status is EventStatus.STARTED or is_ahead


@holds
def what_takes_no_turns_waits_only_for_a_started_event_of_its_vm(step: Step) -> None:
    for event in step.after.events.values():
        if event.waits_for and not takes_turns(event):
            blocker = step.after.events[event.waits_for]
            assert blocker.status is EventStatus.STARTED
            assert set(blocker.vms) & set(event.vms)
        assert takes_turns(event) or not event.waits_until


@holds
def an_event_that_waits_names_one_that_is_there(step: Step) -> None:
    for event in step.after.events.values():
        if event.waits_for:
            assert event.status is EventStatus.SCHEDULED
            assert event.waits_for in step.after.events
            assert is_ready(event, step)


@holds
def what_a_vm_sees_never_falls(step: Step) -> None:
    for vm in step.after.vms.values():
        assert step.after.incarnations[vm.group] >= step.memory.seen.get(vm.name, 1)


@holds
def a_vm_never_sees_another_document_under_the_same_incarnation(step: Step) -> None:
    for name, vm in step.after.vms.items():
        old = step.before.vms.get(name)
        if old and step.before.incarnations[old.group] == step.after.incarnations[vm.group]:
            assert step.before.documents[old.group] == step.after.documents[vm.group]


@holds
def every_event_has_a_vm_that_is_there(step: Step) -> None:
    for event in step.after.events.values():
        assert event.group in step.after.terms
        assert event.vms


@holds
def no_two_unfinished_user_operations_of_one_kind_on_a_vm(step: Step) -> None:
    asked = [(event.operation, event.resources) for event in step.after.events.values() if event.source == "user"]
    assert len(asked) == len(set(asked))


@holds
def user_operations_stay_within_the_limit(step: Step) -> None:
    limit = step.memory.rules.user_operation_limit
    before, after = user_operations(step.before), user_operations(step.after)
    assert step.fleet.user_operations == after
    if limit and isinstance(step.command, OperateVm | ScaleIn):
        assert after <= max(limit, before)


@holds
def evict_and_delete_leave_nothing_scheduled_for_that_vm_alone(step: Step) -> None:
    command = step.command
    if not isinstance(command, OperateVm) or command.operation not in {"evict", "delete"} or step.facts is None:
        return
    new = {fact.event.id for fact in step.facts if isinstance(fact, Announced | StartedAtOnce)}
    for event in step.after.events.values():
        if event.resources == (command.vm,) and event.id not in new:
            assert event.status is EventStatus.STARTED


@holds
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


@holds
def the_fleet_holds_together(step: Step) -> None:
    fleet = step.fleet
    for group in fleet.groups.values():
        assert sorted(group.vms) == sorted(vm.name for vm in fleet.vms.values() if vm.group == group.name)
        assert group.terms.kind != "standalone" or len(group.vms) == 1
    for vm in fleet.vms.values():
        assert vm.group in fleet.groups
        assert not vm.standing_on or vm.standing_on in fleet.hosts
        assert not vm.address or fleet.addresses[vm.address] == (vm.name,)
    assert len(fleet.addresses) == sum(bool(vm.address) for vm in fleet.vms.values())


@holds
def a_wait_is_noted_once(step: Step) -> None:
    notes = [(fact.event, fact.behind, fact.until) for fact in step.facts or () if isinstance(fact, Waiting)]
    assert len(notes) == len(set(notes))
    for id_, behind, until in notes:
        if old := step.before.events.get(id_):
            assert (old.waits_for, old.waits_until) != (behind, until)
