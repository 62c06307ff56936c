"""Views of VMs, hosts, groups and events for operators, shown as JSON and as tables."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import asdict

from forewarn.audit.timeline import EventView, view_event
from forewarn.config.durations import show_iso_duration
from forewarn.core import turns
from forewarn.core.declared_keys import RecordKind, ReplacedValue
from forewarn.core.facts import AnyFact, Canceled, FleetChanged, FleetDeclared, HostCordonSet, Mark, Selected
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    ApprovalRule,
    Event,
    EventStatus,
    EvictionPolicy,
    Group,
    GroupKind,
    Host,
    HostState,
    InstanceFacts,
    Interface,
    Policy,
    PowerRequest,
    Vm,
)
from forewarn.core.selectors import VmState, state_of_vm
from forewarn.wire.azure_names import show_id
from forewarn.wire.facts import describe_held, show_ids

_MOST_AHEAD = 5
LastAsked = Callable[[str], Mark | None]
"""Returns which VM of a group asked last, and when; without a VM, at the start, if none asked since."""


class VmView(msgspec.Struct, frozen=True, kw_only=True):
    """A VM in a list."""

    name: str
    group: str
    host: str
    """Its current host."""
    update_domain: int
    fault_domain: int
    zone: str
    address: str
    spot: bool
    deallocated: bool
    state: VmState = VmState.RUNNING
    labels: dict[str, str] = {}
    events: int


class VmDetail(VmView, frozen=True, kw_only=True):
    """Details of a VM."""

    declared_host: str
    instance: InstanceFacts
    interface: Interface
    upcoming: tuple[EventView, ...]
    held: str = ""
    """The held change of the fleet file, with its reason."""
    power: str = ""
    """The power operation in progress, or its failure."""


class HostView(msgspec.Struct, frozen=True):
    """A host in a list."""

    name: str
    vms: int
    state: HostState = HostState.UP
    cordoned: bool = False
    """Whether it receives no VMs."""
    labels: dict[str, str] = {}


def view_host(fleet: Fleet, host: Host) -> HostView:
    name = host.name
    return HostView(name, len(fleet.vms_on(name)), fleet.state_of(name), name in fleet.cordoned, host.labels)


class PlacementView(msgspec.Struct, frozen=True, kw_only=True):
    """Target of a VM in a drain."""

    vm: str
    group: str
    host: str
    live: bool
    """Whether it keeps running while it is moved."""
    memory: int | None = None
    """Bytes of memory; null if the driver does not report it."""
    cpus: int | None = None


class DrainPlanView(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of a drain."""

    host: str
    placements: tuple[PlacementView, ...]
    left: dict[str, str]
    """Running VMs that cannot be moved, with the reason."""
    deallocated: tuple[str, ...]
    """VMs that do not run; they stay recorded there, and start nowhere else before they are moved."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list."""

    name: str
    kind: GroupKind
    approval: ApprovalRule
    terminate_notice: str | None
    eviction: EvictionPolicy
    vms: int
    events: int
    enrolled: bool
    enrolled_at: datetime | None
    """Since when it is enrolled."""
    asked_by: str
    asked_at: datetime | None
    """Last request of one of its VMs: since the service started, or else from the journal, hours late."""
    asked_since_start: bool
    switches_off_at: datetime | None
    """When it will be switched off, unless one of its VMs asks before."""


class GroupDetail(GroupView, frozen=True, kw_only=True):
    """Details of a group."""

    policy: Policy
    incarnation: int
    members: tuple[str, ...]
    upcoming: tuple[EventView, ...]


class AnnouncementView(msgspec.Struct, frozen=True, kw_only=True):
    """An announced event, with information about its group and start."""

    event: EventView
    group: str
    host: str = ""
    """The host of its VMs when it was announced."""
    without_notice: str = ""
    reason: str = ""
    """Why this VM was chosen, if the platform had a choice."""
    waits_for: str = ""
    waits_until: datetime | None = None
    turn_after: tuple[str, ...] = ()
    """The first unfinished events of its group that have their turn before it."""
    earliest_start: datetime | None = None
    """Earliest start, if quiet hours of its group are later than ``not_before``."""
    asked_by: str = ""
    asked_at: datetime | None = None
    """Last request of a VM of the group: since the service started, or else from the journal, hours late."""
    asked_since_start: bool = False


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a command."""

    operation: str = ""
    """The id of the command in the history."""
    dry_run: bool = False
    """Nothing was changed: this is what the command would do. Its events would have other ids, unless it is given
    with the same Idempotency-Key."""
    selected: tuple[str, ...] = ()
    """The VMs, hosts or events of a bulk operation."""
    refused: dict[str, str] = {}
    """Those of them to which it was not done, with the reason."""
    announcements: tuple[AnnouncementView, ...] = ()
    canceled: tuple[str, ...] = ()
    changed: dict[str, int] = {}
    """Number of hosts, groups and VMs that a change of the fleet declared and removed."""
    held: tuple[str, ...] = ()
    """Changes of a fleet file that this command holds, one sentence each; all held ones are among the differences."""
    replaced: tuple[ReplacedValue, ...] = ()
    """Run-time values that a fleet file replaced."""
    left: dict[str, str] = {}
    """Running VMs that a drain leaves on its host, with the reason."""
    arriving: tuple[str, ...] = ()
    """Started events that may still move VMs to a host that was cordoned or drained."""


def view_vm(fleet: Fleet, vm: Vm) -> VmView:
    return VmView(
        name=vm.name,
        group=vm.group,
        host=vm.standing_on,
        update_domain=vm.update_domain,
        fault_domain=vm.fault_domain,
        zone=vm.zone,
        address=vm.address,
        spot=vm.spot,
        deallocated=vm.deallocated,
        state=state_of_vm(fleet, vm),
        labels=vm.labels,
        events=len(_events_on(fleet, vm)),
    )


def detail_vm(fleet: Fleet, vm: Vm) -> VmDetail:
    return VmDetail(
        **asdict(view_vm(fleet, vm)),
        declared_host=vm.host,
        instance=vm.instance,
        interface=vm.interface,
        upcoming=tuple(view_event(event) for event in _events_on(fleet, vm)),
        power=_power(vm.name, fleet.power_requests.get(vm.name)),
        held=describe_held(held) if (held := fleet.last_applied.held_change(RecordKind.VM, vm.name)) else "",
    )


def _power(vm: str, request: PowerRequest | None) -> str:
    if request is None:
        return ""
    if request.failure:
        return f"the driver could not {'start' if request.on else 'stop'} {vm}: {request.failure}"
    return f"the driver is {'starting' if request.on else 'stopping'} {vm}"


def view_group(fleet: Fleet, group: Group, last_asked: LastAsked, idle_after: timedelta) -> GroupView:
    terms = group.terms
    asked = last_asked(group.name)
    is_on = group.enrolled_at is not None
    return GroupView(
        name=terms.name,
        kind=terms.kind,
        approval=terms.approval,
        terminate_notice=None if terms.terminate_notice is None else show_iso_duration(terms.terminate_notice),
        eviction=terms.eviction,
        vms=len(group.vms),
        events=len(fleet.events_of(group.name)),
        enrolled=is_on,
        enrolled_at=group.enrolled_at,
        **_last_request(group, asked),
        switches_off_at=asked.at + idle_after if asked and is_on else None,
    )


def detail_group(fleet: Fleet, group: Group, last_asked: LastAsked, idle_after: timedelta) -> GroupDetail:
    return GroupDetail(
        **asdict(view_group(fleet, group, last_asked, idle_after)),
        policy=group.terms.policy,
        incarnation=group.incarnation,
        members=group.vms,
        upcoming=tuple(view_event(event) for event in fleet.events_of(group.name)),
    )


def _last_request(group: Group | None, asked: Mark | None) -> dict[str, Any]:
    """Return the last request and its VM, as far as known."""
    if asked and asked.by:
        return {"asked_by": asked.by, "asked_at": asked.at, "asked_since_start": True}
    by, at = (group.asked_by, group.asked_at) if group else ("", None)
    return {"asked_by": by if at else "", "asked_at": at, "asked_since_start": False}


def view_announcement(
    event: Event, fleet: Fleet, last_asked: LastAsked, earliest_start: datetime | None = None
) -> AnnouncementView:
    return AnnouncementView(
        event=view_event(event),
        group=event.group,
        host=event.host,
        without_notice=event.without_notice,
        reason=event.reason,
        waits_for=show_id(event.waits_for),
        waits_until=event.waits_until,
        turn_after=tuple(show_id(other.id) for other in islice(turns.ahead_of(fleet, event), _MOST_AHEAD)),
        earliest_start=earliest_start if event.status is EventStatus.SCHEDULED else None,
        **_last_request(fleet.groups.get(event.group), last_asked(event.group)),
    )


def view_changes(facts: tuple[AnyFact, ...]) -> CommandResult:
    """Return what a command changed beside announcements."""
    changed: Counter[str] = Counter()
    replaced: tuple[ReplacedValue, ...] = ()
    for fact in facts:
        match fact:
            case FleetChanged():
                changed.update(fact.counts())
            case FleetDeclared():
                replaced = fact.replaced
    left = {vm: why for fact in facts if isinstance(fact, HostCordonSet) for vm, why in fact.left.items()}
    canceled = tuple(show_id(fact.event) for fact in facts if isinstance(fact, Canceled))
    cordons = (fact for fact in facts if isinstance(fact, HostCordonSet))
    arriving = tuple(dict.fromkeys(show_id(id_) for fact in cordons for id_ in fact.arriving))
    result = CommandResult(changed=dict(changed), canceled=canceled, replaced=replaced, left=left, arriving=arriving)
    for fact in facts:
        if isinstance(fact, Selected):
            names = [show_ids(name) for name in fact.names]
            refused = {show_ids(name): show_ids(why) for name, why in fact.refused.items()}
            result = msgspec.structs.replace(result, selected=tuple(names), refused=refused)
    return result


def _events_on(fleet: Fleet, vm: Vm) -> list[Event]:
    # The VM may have been removed since the list of VMs was read.
    return [event for event in fleet.events_of(vm.group) if vm.name in event.vms]
