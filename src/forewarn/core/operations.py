"""What operators and owners do to VMs and hosts, and the events that announce it."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid5

from msgspec.structs import replace

from forewarn.core import choosing, lifecycle
from forewarn.core.commands import (
    DeallocateVm,
    HostOperation,
    OperateHost,
    OperateVm,
    ReclaimSpot,
    ScaleIn,
    StartVm,
    VmOperation,
)
from forewarn.core.errors import LimitReached, Refused, unknown
from forewarn.core.facts import Announced, AnyFact, Canceled, StartedAtOnce, VmDeallocated, VmStarted
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventSource, EventStatus, Group, Vm
from forewarn.core.notice import (
    HARDWARE_FAILURE,
    HOST_ANNOUNCEMENTS,
    LIVE_MIGRATION,
    VM_ANNOUNCEMENTS,
    Announcement,
    Rules,
    check_line,
    whole_second,
)
from forewarn.core.outcomes import leave

GROUP_IS_OFF = "the group is off: none of its VMs asks"
NO_TERMINATE_NOTICE = "deleted without terminate notice"
APPROVED_AUTOMATICALLY = "approved automatically by the group's policy"
HARDWARE_FAILED = "hardware failure"

_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
_DURATIONS = range(-1, 7 * 24 * 3600 + 1)
_ENDS_THE_VM = {VmOperation.EVICT, VmOperation.DELETE}


def operate_vm(fleet: Fleet, command: OperateVm, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the operation, or begin it where no notice is owed."""
    vm = _vm(fleet, command.vm)
    group = fleet.groups[vm.group]
    announcement = VM_ANNOUNCEMENTS[command.operation]
    operation = f"vm {command.operation}"
    if vm.deallocated and command.operation is not VmOperation.DELETE:
        raise Refused(f"{vm.name} is deallocated; start it first: forewarn vm start {vm.name}")
    _refuse_repetition(fleet, vm, operation, announcement, command.operation)
    reason = "" if command.not_before else _why_without_notice(vm, group, command.operation, announcement)
    is_born_started = bool(reason) and not _started_on(fleet, vm)
    if announcement.source is EventSource.USER and not is_born_started:
        _refuse_above_limit(fleet, rules)
    event = event_for(fleet, command, 0, [vm], announcement, operation, now, rules, reason)
    if command.operation in _ENDS_THE_VM:
        yield from leave(fleet, vm.name, now, f"{operation} {vm.name}")
    yield lifecycle.start_at_once(event, now) if is_born_started else lifecycle.announce(event)


def reclaim_spot(fleet: Fleet, command: ReclaimSpot, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Evict spot VMs, chosen fairly."""
    yield from _end_vms(fleet, command, VmOperation.EVICT, choosing.spot_victims(fleet, command), now, rules)


def scale_in(fleet: Fleet, command: ScaleIn, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Delete VMs of a scale set, so that the rest stays spread evenly."""
    yield from _end_vms(fleet, command, VmOperation.DELETE, choosing.scale_in_victims(fleet, command), now, rules)


def _end_vms(
    fleet: Fleet,
    command: ReclaimSpot | ScaleIn,
    operation: VmOperation,
    victims: Sequence[choosing.Choice],
    now: datetime,
    rules: Rules,
) -> Iterator[AnyFact]:
    canceled: set[str] = set()
    scheduled = 0
    for number, (vm, reason) in enumerate(victims):
        one = OperateVm(id=uuid5(UUID(command.id), str(number)).hex, by=command.by, operation=operation, vm=vm.name)
        for fact in operate_vm(fleet, one, now, rules):
            match fact:
                case Canceled(event=event) if event in canceled:
                    continue
                case Canceled(event=event):
                    canceled.add(event)
                    yield fact
                case Announced(event=event) | StartedAtOnce(event=event):
                    if event.source is EventSource.USER and event.status is EventStatus.SCHEDULED:
                        _refuse_above_limit(fleet, rules, also=scheduled)
                        scheduled += 1
                    yield replace(fact, event=replace(event, reason=reason))


def operate_host(fleet: Fleet, command: OperateHost, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the operation to all running VMs of the host, one event per group and update domain."""
    if command.host not in fleet.hosts:
        raise unknown("host", command.host, fleet.hosts)
    announcement = HOST_ANNOUNCEMENTS[command.operation]
    if command.operation is HostOperation.REDEPLOY and command.live:
        announcement = LIVE_MIGRATION
    operation = f"host {command.operation}"
    reason = HARDWARE_FAILED if operation == HARDWARE_FAILURE else ""
    foreseen = _foreseen(fleet, command) if command.operation is HostOperation.DEGRADE else []
    spared = {name for event in foreseen for name in event.vms}
    events = [
        event_for(fleet, command, number, vms, announcement, operation, now, rules, reason)
        for number, vms in enumerate(_impacted_together(fleet, command.host, spared))
    ]
    if operation == HARDWARE_FAILURE:
        yield from _end_all_on(fleet, command.host, now)
    for event in foreseen:
        expected = _not_before(command, now + rules.minimum(event.type))
        if expected < event.not_before:
            yield lifecycle.bring_forward(event, now, expected)
    for event in events:
        yield lifecycle.start_at_once(event, now) if reason else lifecycle.announce(event)


def start_vm(fleet: Fleet, command: StartVm) -> Iterator[VmStarted]:
    """Start a deallocated VM; one that runs already goes on."""
    if _vm(fleet, command.vm).deallocated:
        yield VmStarted(command.vm)


def deallocate_vm(fleet: Fleet, command: DeallocateVm, now: datetime) -> Iterator[AnyFact]:
    """Deallocate a VM; what was Scheduled for it alone is canceled, and nothing is announced."""
    vm = _vm(fleet, command.vm)
    if vm.deallocated:
        return
    if busy := _started_on(fleet, vm):
        raise Refused(f"{vm.name} is under event {busy.id}, which has started; wait until it ends")
    yield from leave(fleet, vm.name, now, f"{vm.name} was deallocated")
    yield VmDeallocated(vm.name, f"deallocated by {command.by}")


def event_for(
    fleet: Fleet,
    command: OperateVm | OperateHost,
    number: int,
    vms: Sequence[Vm],
    announcement: Announcement,
    operation: str,
    now: datetime,
    rules: Rules,
    without_notice: str,
) -> Event:
    """Return the event, not announced yet, that a command has for some VMs; ``number`` tells it from its siblings."""
    first = vms[0]
    terms = fleet.groups[first.group].terms
    notice = rules.minimum(announcement.type, terms.terminate_notice)
    not_before = now if without_notice else _not_before(command, now + notice)
    _refuse_nonsense(command)
    fault_domains = {vm.fault_domain for vm in vms}
    return Event(
        id=str(uuid5(UUID(command.id), str(number))),
        type=announcement.type,
        source=announcement.source,
        group=first.group,
        resources=tuple(sorted(vm.name for vm in vms)),
        status=EventStatus.SCHEDULED,
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


def _not_before(command: OperateVm | OperateHost, earliest: datetime) -> datetime:
    """Return a whole second, because that is what is shown: an event must not start before the time it showed."""
    wished = command.not_before or earliest
    if wished < earliest:
        least = f"{whole_second(earliest):%Y-%m-%dT%H:%M:%SZ}"
        raise Refused(f"not before {wished.isoformat()} is too early: the least notice for this ends at {least}")
    if wished > _LATEST:
        raise Refused(f"not before {wished.isoformat()} is too late: nothing is planned beyond {_LATEST:%Y}")
    return whole_second(wished.astimezone(UTC))


def _refuse_nonsense(command: OperateVm | OperateHost) -> None:
    if command.duration is not None and command.duration not in _DURATIONS:
        raise Refused(
            f"a duration of {command.duration} s makes no sense; give 0 to {_DURATIONS[-1]}, or -1 for unknown"
        )
    check_line("a description", command.description or "")


def _why_without_notice(vm: Vm, group: Group, operation: VmOperation, announcement: Announcement) -> str:
    if operation is VmOperation.DELETE and (vm.spot or group.terms.terminate_notice is None):
        return NO_TERMINATE_NOTICE
    if announcement.source is EventSource.USER and group.enrolled_at is None:
        return GROUP_IS_OFF
    policy = group.terms.policy
    if (operation is VmOperation.RESTART and policy.approve_user_reboot) or (
        operation is VmOperation.REDEPLOY and policy.approve_user_redeploy
    ):
        return APPROVED_AUTOMATICALLY
    return ""


def _refuse_repetition(fleet: Fleet, vm: Vm, operation: str, announcement: Announcement, kind: VmOperation) -> None:
    if announcement.source is not EventSource.USER and kind not in _ENDS_THE_VM:
        return
    for event in fleet.events_on(vm.name):
        if event.operation == operation:
            raise Refused(f"{vm.name} has an unfinished {kind} already: event {event.id}")


def _refuse_above_limit(fleet: Fleet, rules: Rules, also: int = 0) -> None:
    limit, scheduled = rules.user_operation_limit, fleet.user_operations + also
    if limit and scheduled >= limit:
        raise LimitReached(
            f"{scheduled} user-initiated events are Scheduled and the limit is {limit}; "
            "wait until one of them has started, or raise user_operation_limit"
        )


def _foreseen(fleet: Fleet, command: OperateHost) -> list[Event]:
    """Return the events that foretell this host's failure already; a nearer prediction brings them forward."""
    groups = dict.fromkeys(fleet.vms[name].group for name in sorted(fleet.vms_on(command.host)))
    operation = f"host {HostOperation.DEGRADE}"
    events = (event for group in groups for event in fleet.events_of(group))
    return [
        event
        for event in events
        if event.operation == operation and event.host == command.host and event.status is EventStatus.SCHEDULED
    ]


def _impacted_together(fleet: Fleet, host: str, spared: Collection[str]) -> list[list[Vm]]:
    together: dict[tuple[str, int], list[Vm]] = {}
    for name in sorted(fleet.vms_on(host)):
        vm = fleet.vms[name]
        if not vm.deallocated and name not in spared:
            together.setdefault((vm.group, vm.update_domain), []).append(vm)
    return [together[key] for key in sorted(together)]


def _end_all_on(fleet: Fleet, host: str, now: datetime) -> Iterator[AnyFact]:
    """End the events of the VMs that stand on the host: nothing that was planned for them will come about."""
    ended: set[str] = set()
    for name in sorted(fleet.vms_on(host)):
        for event in fleet.events_on(name):
            if event.id in ended:
                continue
            ended.add(event.id)
            if event.status is EventStatus.STARTED:
                yield lifecycle.fail(event, now, "host failed")
            elif event.host == host or _stands_wholly_on(fleet, event, host):
                yield lifecycle.cancel(event, now, "host failed")


def _stands_wholly_on(fleet: Fleet, event: Event, host: str) -> bool:
    """Tell whether all VMs of the event stand on the host by now, wherever they stood when it was announced."""
    return all(fleet.vms[name].standing_on == host for name in event.vms)


def _started_on(fleet: Fleet, vm: Vm) -> Event | None:
    events = fleet.events_on(vm.name)
    return next((event for event in events if event.status is EventStatus.STARTED), None)


def _vm(fleet: Fleet, name: str) -> Vm:
    if vm := fleet.vms.get(name):
        return vm
    raise unknown("VM", name, fleet.vms)
