"""Operations on VMs by operators and owners, and the events that announce them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha1

from msgspec.structs import replace

from forewarn.core import lifecycle, selection
from forewarn.core.commands import (
    DeallocateVm,
    DrainHost,
    ImpactResult,
    MoveVm,
    OperateHost,
    OperateVm,
    ReclaimSpot,
    ReportPowerSwitch,
    ScaleIn,
    StartVm,
    VmOperation,
)
from forewarn.core.errors import LimitReached, Refused, unknown
from forewarn.core.event_types import ANNOUNCEMENTS, EVENT_TYPES, Announcement
from forewarn.core.facts import Announced, AnyFact, Canceled, StartedAtOnce, VmDeallocated, VmStarted, VmSwitched
from forewarn.core.fleet import Fleet
from forewarn.core.impact_results import cancel_events_of_vm
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    Group,
    HostState,
    Operation,
    OperationScope,
    StartCause,
    Vm,
)
from forewarn.core.notice import Rules, check_line, whole_second
from forewarn.core.terms import LONGEST_IMPACT

_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
_DURATIONS = range(-1, LONGEST_IMPACT + 1)
_OPERATIONS = {operation: Operation.of(OperationScope.VM, operation) for operation in VmOperation}
_DELETE, _EVICT = Operation.VM_DELETE, Operation.VM_EVICT
_USER = EventSource.USER
_SCHEDULED, _STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
"""The members of enumerations that are needed most: to look them up takes longer than to compare them."""


def operate_vm(fleet: Fleet, command: OperateVm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the operation, or start it at once if no notice is required."""
    vm = find_vm(fleet, command.vm)
    group = fleet.groups[vm.group]
    operation = _OPERATIONS[command.operation]
    announcement = ANNOUNCEMENTS[operation]
    if operation is not _DELETE:
        refuse_leaving(fleet, vm)
    if vm.deallocated and operation is not _DELETE:
        raise Refused(f"{vm.name} is deallocated; start it first: forewarn vm start {vm.name}")
    if operation is _EVICT and not vm.spot:
        raise Refused(
            f"{vm.name} is not a spot VM, and only those are evicted; delete it: forewarn vm delete {vm.name}"
        )
    _refuse_repetition(fleet, vm, operation, announcement)
    reason = "" if command.not_before else _why_without_notice(vm, group, operation, announcement)
    is_born_started = bool(reason) and not started_on(fleet, vm)
    if announcement.source is _USER and not is_born_started:
        _refuse_above_limit(fleet, rules)
    event = event_for(fleet, command, 0, [vm], announcement, operation, now, rules, reason)
    if EVENT_TYPES[announcement.type].ends_vm:
        yield from cancel_events_of_vm(fleet, vm.name, now, f"{operation} {vm.name}")
    yield lifecycle.start_at_once(event, now) if is_born_started else lifecycle.announce(event)


def reclaim_spot(fleet: Fleet, command: ReclaimSpot, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    yield from _end_vms(
        fleet, command, VmOperation.EVICT, selection.spot_victims(fleet, command, now, rules), now, rules
    )


def scale_in(fleet: Fleet, command: ScaleIn, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Delete VMs of a scale set, so that the remaining ones stay spread evenly."""
    yield from _end_vms(fleet, command, VmOperation.DELETE, selection.scale_in_victims(fleet, command), now, rules)


def _end_vms(
    fleet: Fleet,
    command: ReclaimSpot | ScaleIn,
    operation: VmOperation,
    victims: Sequence[selection.Choice],
    now: datetime,
    rules: Rules,
) -> Iterator[AnyFact]:
    scheduled = 0
    for number, (vm, reason) in enumerate(victims):
        id_ = derive_id(command.id, number).replace("-", "")
        one = OperateVm(id=id_, by=command.by, operation=operation, vm=vm.name)
        for fact in operate_vm(fleet, one, now, rules):
            match fact:
                case Canceled():
                    yield fact
                case Announced(event=event) | StartedAtOnce(event=event):
                    if event.source is EventSource.USER and event.status is EventStatus.SCHEDULED:
                        _refuse_above_limit(fleet, rules, also=scheduled)
                        scheduled += 1
                    yield replace(fact, event=replace(event, reason=reason))


def start_vm(fleet: Fleet, command: StartVm) -> Iterator[VmStarted]:
    """Start a deallocated VM; a running one is unchanged, unless the driver failed to start it."""
    vm = find_vm(fleet, command.vm)
    if not vm.deallocated and not _has_failed(fleet, vm, on=True):
        return
    refuse_leaving(fleet, vm)
    if fleet.state_of(vm.standing_on) is HostState.FAILED:
        raise Refused(
            f"{vm.name} stands on {vm.standing_on}, which has failed; move it first: forewarn vm move {vm.name} HOST,"
            f" or, if it works again, record that: forewarn host repaired {vm.standing_on}"
        )
    if vm.deallocated and vm.standing_on in fleet.cordoned:
        raise Refused(
            f"{vm.name} stands on {vm.standing_on}, which is cordoned and receives no VMs; move it first: "
            f"forewarn vm move {vm.name} HOST, or end that: forewarn host uncordon {vm.standing_on}"
        )
    yield VmStarted(command.vm, command.id if command.can_switch else "")


def deallocate_vm(fleet: Fleet, command: DeallocateVm, now: datetime) -> Iterator[AnyFact]:
    """Deallocate a VM; Scheduled events of it alone are canceled, and nothing is announced.

    A deallocated VM is unchanged, unless the driver failed to stop it.
    """
    vm = find_vm(fleet, command.vm)
    if vm.deallocated and not _has_failed(fleet, vm, on=False):
        return
    refuse_leaving(fleet, vm)
    if busy := started_on(fleet, vm):
        raise Refused(f"{vm.name} is under event {busy.id}, which has started; wait until it ends")
    yield from cancel_events_of_vm(fleet, vm.name, now, f"{vm.name} was deallocated")
    yield VmDeallocated(vm.name, f"deallocated by {command.by}", request=command.id if command.can_switch else "")


def report_switch(fleet: Fleet, command: ReportPowerSwitch, now: datetime) -> Iterator[VmSwitched]:
    """Record whether the driver started or stopped a VM; a newer request makes the report obsolete."""
    request = fleet.power_requests.get(command.vm)
    if request is None or request.id != command.asked or request.failure:
        return
    if command.result is ImpactResult.DONE:
        yield VmSwitched(command.vm, request.id, request.on, now, detail=command.detail)
    else:
        reason = command.detail or "the driver gave no reason"
        yield VmSwitched(command.vm, request.id, request.on, now, failure=reason)


def _has_failed(fleet: Fleet, vm: Vm, *, on: bool) -> bool:
    """Return whether the last start or stop of a VM failed."""
    request = fleet.power_requests.get(vm.name)
    return request is not None and request.on is on and bool(request.failure)


def event_for(
    fleet: Fleet,
    command: OperateVm | OperateHost | MoveVm | DrainHost,
    number: int,
    vms: Sequence[Vm],
    announcement: Announcement,
    operation: Operation,
    now: datetime,
    rules: Rules,
    without_notice: str,
) -> Event:
    """Return an event of a command for some VMs, not announced yet; ``number`` distinguishes its events."""
    first = vms[0]
    terms = fleet.groups[first.group].terms
    notice = rules.minimum(announcement.type, terms.terminate_notice)
    not_before = now if without_notice else earliest(command, now + notice)
    _refuse_nonsense(command)
    fault_domains = {vm.fault_domain for vm in vms}
    return Event(
        id=derive_id(command.id, number),
        type=announcement.type,
        source=announcement.source,
        group=first.group,
        resources=tuple(sorted(vm.name for vm in vms)),
        status=_SCHEDULED,
        not_before=not_before,
        announced_at=now,
        operation=operation,
        description=announcement.description if command.description is None else command.description,
        duration=announcement.duration if command.duration is None else command.duration,
        host=first.standing_on,
        update_domain=first.update_domain,
        fault_domain=fault_domains.pop() if len(fault_domains) == 1 else None,
        without_notice=without_notice,
    )


def derive_id(command: str, number: int) -> str:
    """Return ``uuid.uuid5`` of a command's id and a number, in a third of its time."""
    digest = sha1(bytes.fromhex(command.replace("-", "")) + b"%d" % number, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def earliest(command: OperateVm | OperateHost | MoveVm | DrainHost, least: datetime) -> datetime:
    """Round up to whole seconds, as shown: an event must not start before the shown time."""
    wished = command.not_before or least
    if wished < least:
        shown = f"{whole_second(least):%Y-%m-%dT%H:%M:%SZ}"
        raise Refused(f"not before {wished.isoformat()} is too early: the least notice for this ends at {shown}")
    if wished > _LATEST:
        raise Refused(f"not before {wished.isoformat()} is too late: nothing is planned beyond {_LATEST:%Y}")
    return whole_second(wished.astimezone(UTC))


def _refuse_nonsense(command: OperateVm | OperateHost | MoveVm | DrainHost) -> None:
    if command.duration is not None and command.duration not in _DURATIONS:
        raise Refused(f"{command.duration} s is not a valid duration; give 0 to {_DURATIONS[-1]}, or -1 for unknown")
    if command.description:
        check_line("a description", command.description)


def _why_without_notice(vm: Vm, group: Group, operation: Operation, announcement: Announcement) -> str:
    if operation is _DELETE and (vm.spot or group.terms.terminate_notice is None):
        return StartCause.NO_TERMINATE_NOTICE
    if announcement.source is _USER and group.enrolled_at is None:
        return StartCause.GROUP_IS_OFF
    policy = group.terms.policy
    if (operation is Operation.VM_RESTART and policy.approve_user_reboot) or (
        operation is Operation.VM_REDEPLOY and policy.approve_user_redeploy
    ):
        return StartCause.APPROVED_AUTOMATICALLY
    return ""


def refuse_leaving(fleet: Fleet, vm: Vm) -> None:
    """Refuse an operation on a VM with a held removal."""
    if fleet.last_applied.holds_removal(vm.name):
        raise Refused(
            f"{vm.name} is not in the fleet file any more, and will be removed; "
            f"put it back into the file, or delete it: forewarn vm delete {vm.name}"
        )


def _refuse_repetition(fleet: Fleet, vm: Vm, operation: Operation, announcement: Announcement) -> None:
    if announcement.source is not _USER and not EVENT_TYPES[announcement.type].ends_vm:
        return
    for event in fleet.events_of(vm.group):
        if event.operation == operation and vm.name in event.vms:
            raise Refused(f"{vm.name} has an unfinished {operation.verb} already: event {event.id}")


def _refuse_above_limit(fleet: Fleet, rules: Rules, also: int = 0) -> None:
    limit, scheduled = rules.user_operation_limit, fleet.user_operations + also
    if limit and scheduled >= limit:
        raise LimitReached(
            f"too many user-initiated events are Scheduled: {scheduled}, and the limit is {limit}; "
            "wait until one of them has started, or raise user_operation_limit"
        )


def started_on(fleet: Fleet, vm: Vm) -> Event | None:
    events = fleet.events_on(vm.name)
    return next((event for event in events if event.status is _STARTED), None)


def find_vm(fleet: Fleet, name: str) -> Vm:
    """Return the VM with this name; refuse an unknown name."""
    if vm := fleet.vms.get(name):
        return vm
    raise unknown("VM", name, fleet.vms)
