"""Bodies of operations on VMs, hosts and events, and of changes to single VMs and hosts."""

from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType

from forewarn.control.bodies.fields import (
    ApiBody,
    Count,
    ImpactSeconds,
    Instant,
    LabelText,
    Name,
    Names,
    OneLine,
    Seconds,
    TypeName,
)
from forewarn.core.commands import AnnouncementTerms, HostOperation, VmOperation
from forewarn.core.model import BulkOperation, HostState, OperationScope
from forewarn.core.selectors import VmState

MOST_FINISHED = 10_000
"""Finished events that can be asked for at once."""
_STATE_VERBS = ("repaired", "cordon", "uncordon", "enter-maintenance", "exit-maintenance")
if TYPE_CHECKING:
    VmVerb = str
    HostVerb = str
    VmBulkVerb = str
    HostBulkVerb = str
else:
    VmVerb = Literal[(*(each.value for each in VmOperation), "start", "deallocate")]
    HostVerb = Literal[(*(each.value for each in HostOperation), "drain", *_STATE_VERBS)]
    VmBulkVerb = Literal[tuple(each.verb for each in BulkOperation if each.scope is OperationScope.VM)]
    HostBulkVerb = Literal[tuple(each.verb for each in BulkOperation if each.scope is OperationScope.HOST)]


class VmOperationBody(ApiBody, frozen=True, kw_only=True):
    """Operation on a VM; ``start`` and ``deallocate`` announce nothing and accept no other field."""

    operation: VmVerb
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None


class MoveBody(ApiBody, frozen=True, kw_only=True):
    """The host that a VM is moved to, or is on."""

    host: Name
    record: bool = False
    """Only record the move, even if the driver could move the VM."""
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None


class HostOperationBody(ApiBody, frozen=True, kw_only=True):
    """Operation on all VMs of a host, or its new state; the last three announce nothing by themselves."""

    operation: HostVerb
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None
    leave_stuck: bool = False
    """For ``drain``: continue without the VMs that cannot be moved, instead of refusing."""


class VmSelectorBody(ApiBody, frozen=True, kw_only=True):
    """Which VMs are meant: all of what is given must hold. Without anything else, ``all`` must be true."""

    names: Names = ()
    """Names, and globs such as `web-*`."""
    group: Name | None = None
    host: Name | None = None
    """Its current host."""
    state: VmState | None = None
    spot: bool | None = None
    label: LabelText | None = None
    """A label selector, such as `rack=r1,version<1.4`."""
    all: bool = False
    """All VMs that the caller may see."""


class HostSelectorBody(ApiBody, frozen=True, kw_only=True):
    """Which hosts are meant: all of what is given must hold. Without anything else, ``all`` must be true."""

    names: Names = ()
    """Names, and globs such as `r1-*`."""
    state: HostState | None = None
    cordoned: bool | None = None
    label: LabelText | None = None
    """A label selector, such as `rack=r1,version<1.4`."""
    all: bool = False
    """All hosts."""


class EventCancelBody(ApiBody, frozen=True, kw_only=True):
    """Which Scheduled events to cancel: all of what is given must hold. ``all`` is for all of them."""

    ids: Names = ()
    """The ids of the events."""
    group: Name | None = None
    host: Name | None = None
    """The host that the event was announced for."""
    vm: Name | None = None
    """A VM in Resources."""
    type: TypeName | None = None
    all: bool = False
    """All events that are Scheduled."""


LabelChanges = dict[str, str | None]
"""Labels to set; null takes one away."""


class VmSetBody(ApiBody, frozen=True, kw_only=True):
    """Keys of a VM, as a fleet file has them; omitted ones are not changed."""

    labels: LabelChanges | UnsetType = UNSET
    """Labels to set; null takes one away, and omitted ones stay."""
    group: Name | UnsetType = UNSET
    update_domain: int | UnsetType = UNSET
    fault_domain: int | UnsetType = UNSET
    zone: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    spot: bool | UnsetType = UNSET
    tap: str | UnsetType = UNSET
    mark: int | UnsetType = UNSET
    mac_address: str | UnsetType = UNSET
    subnet: str | UnsetType = UNSET
    public_ip_address: str | UnsetType = UNSET
    ipv6_address: str | UnsetType = UNSET
    vm_id: str | UnsetType = UNSET
    vm_size: str | UnsetType = UNSET
    os_type: str | UnsetType = UNSET
    location: str | UnsetType = UNSET
    resource_group_name: str | UnsetType = UNSET
    subscription_id: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    """All its tags."""
    cancel_events: bool = False
    """Cancel its Scheduled events if it leaves its group or domain, instead of refusing."""


class HostSetBody(ApiBody, frozen=True, kw_only=True):
    """Labels of a host to set; null takes one away, and omitted ones stay."""

    labels: LabelChanges


class VmBulkBody(ApiBody, frozen=True, kw_only=True):
    """Operation on several VMs. Each VM is operated on, or refused, by itself."""

    select: VmSelectorBody
    operation: VmBulkVerb
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None
    to: Name | None = None
    """For ``move``: the host that they are moved to."""
    set: VmSetBody | None = None
    """For ``set``: the keys to change."""
    cancel_events: bool = False
    """For ``remove``: cancel their Scheduled events, instead of refusing."""


class HostBulkBody(ApiBody, frozen=True, kw_only=True):
    """Operation on several hosts. Each host is operated on, or refused, by itself."""

    select: HostSelectorBody
    operation: HostBulkVerb
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None
    set: HostSetBody | None = None
    """For ``set``: the labels to change."""


def terms_of(
    body: VmOperationBody | MoveBody | HostOperationBody | VmBulkBody | HostBulkBody,
) -> AnnouncementTerms:
    return {"not_before": body.not_before, "duration": body.duration, "description": body.description}


class ReclaimBody(ApiBody, frozen=True, kw_only=True):
    """Which spot VMs to evict: a number of them, chosen fairly, or all of a host."""

    count: Count | None = None
    host: Name | None = None


class ScaleInBody(ApiBody, frozen=True, kw_only=True):
    """How many VMs of a scale set to delete."""

    count: Count


class PostponeBody(ApiBody, frozen=True, kw_only=True):
    """Duration of a postponement, and its reason."""

    seconds: Seconds
    reason: OneLine = ""
