"""What operators are shown of VMs, hosts, groups and events: records that print as JSON and as tables."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import asdict

from forewarn.config.durations import show_iso_duration
from forewarn.core.facts import AnyFact, Canceled, FleetChanged, Mark
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    ApprovalRule,
    Event,
    EventStatus,
    EvictionPolicy,
    Group,
    GroupKind,
    InstanceFacts,
    Interface,
    Policy,
    Vm,
)
from forewarn.wire.words import STATUSES, TYPES, show_id

LastAsked = Callable[[str], Mark | None]
"""Tells which VM of a group asked last, and when; None when none did since the service started."""


class EventView(msgspec.Struct, frozen=True):
    """An event, in the words its VMs read."""

    id: str
    type: str
    status: str
    not_before: datetime | None
    """In whole seconds, as its VMs read it; none once it is no longer Scheduled."""
    resources: tuple[str, ...]


class VmView(msgspec.Struct, frozen=True, kw_only=True):
    """A VM in a list."""

    name: str
    group: str
    host: str
    """Where it stands now."""
    update_domain: int
    fault_domain: int
    zone: str
    address: str
    spot: bool
    deallocated: bool
    events: int


class VmDetail(VmView, frozen=True, kw_only=True):
    """All that is known of a VM."""

    declared_host: str
    instance: InstanceFacts
    interface: Interface
    upcoming: tuple[EventView, ...]


class HostView(msgspec.Struct, frozen=True):
    """A host in a list."""

    name: str
    vms: int


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
    """Since when it is on."""
    asked_by: str
    asked_at: datetime | None
    switches_off_at: datetime | None
    """When it will be off, unless one of its VMs asks before that."""


class GroupDetail(GroupView, frozen=True, kw_only=True):
    """All that is known of a group."""

    policy: Policy
    incarnation: int
    members: tuple[str, ...]
    upcoming: tuple[EventView, ...]


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an operation, with what a person wants to know beside the event itself."""

    event: EventView
    group: str
    without_notice: str = ""
    reason: str = ""
    """Why just this VM was chosen, where the platform had a choice."""
    waits_for: str = ""
    waits_until: datetime | None = None
    asked_by: str = ""
    asked_at: datetime | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a command."""

    operation: str = ""
    """The id of the command, by which it is found in the record."""
    announcements: tuple[Announcement, ...] = ()
    canceled: tuple[str, ...] = ()
    changed: dict[str, int] = {}
    """How many hosts, groups and VMs a change of the fleet declared and removed."""


def view_event(event: Event, status: EventStatus | None = None) -> EventView:
    status = status or event.status
    not_before = event.not_before.replace(microsecond=0) if status is EventStatus.SCHEDULED else None
    return EventView(show_id(event.id), TYPES[event.type], STATUSES[status], not_before, event.resources)


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
        events=len(_events_on(fleet, vm)),
    )


def detail_vm(fleet: Fleet, vm: Vm) -> VmDetail:
    return VmDetail(
        **asdict(view_vm(fleet, vm)),
        declared_host=vm.host,
        instance=vm.instance,
        interface=vm.interface,
        upcoming=tuple(view_event(event) for event in _events_on(fleet, vm)),
    )


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
        asked_by=asked.by if asked else "",
        asked_at=asked.at if asked else None,
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


def tell_announcement(event: Event, status: EventStatus, last_asked: LastAsked) -> Announcement:
    asked = last_asked(event.group)
    return Announcement(
        event=view_event(event, status),
        group=event.group,
        without_notice=event.without_notice,
        reason=event.reason,
        waits_for=show_id(event.waits_for),
        waits_until=event.waits_until,
        asked_by=asked.by if asked else "",
        asked_at=asked.at if asked else None,
    )


def tell_changes(facts: tuple[AnyFact, ...]) -> Told:
    """Say what a command changed that announced nothing."""
    changed: dict[str, int] = {}
    for fact in facts:
        if isinstance(fact, FleetChanged):
            changed = {key: len(getattr(fact, key)) for key in fact.__struct_fields__}
    return Told(changed=changed, canceled=tuple(show_id(fact.event) for fact in facts if isinstance(fact, Canceled)))


def _events_on(fleet: Fleet, vm: Vm) -> list[Event]:
    # The VM may have left the fleet since the list of VMs was taken.
    return [event for event in fleet.events_of(vm.group) if vm.name in event.vms]
