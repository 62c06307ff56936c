"""What is sent to the control API, and what only it answers: records that both of its ends know.

Whatever is not a field, or not of a field's type, is refused with its place.
"""

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forewarn.core.credentials import Role, SubscriptionKind
from forewarn.core.model import ApprovalRule, EvictionPolicy, GroupTerms, Host, Vm
from forewarn.core.terms import LONGEST_IMPACT, LONGEST_LINE
from forewarn.wire.azure_names import TYPES

_Item = TypeVar("_Item")

_ONE_LINE = r"^[^\x00-\x1f\x7f]*$(?!\n)"
"""In Python, ``$`` alone also matches before a line feed at the end."""
Instant = Annotated[datetime, Meta(tz=True, description="A time with its zone, such as 2026-01-31T14:32:00Z.")]
Seconds = Annotated[int, Meta(ge=1, le=30 * 24 * 3600, description="Whole seconds.")]
OneLine = Annotated[str, Meta(max_length=LONGEST_LINE, pattern=_ONE_LINE, description="One line of text.")]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_LINE, pattern=_ONE_LINE)]
ImpactSeconds = Annotated[
    int, Meta(ge=-1, le=LONGEST_IMPACT, description="Seconds of interruption to announce; -1: not known.")
]
TypeName = Annotated[
    str, Meta(extra_json_schema={"enum": [*TYPES.values()]}, description="An event type, in any case.")
]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class ApiBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that is sent."""


class VmOperationBody(ApiBody, frozen=True, kw_only=True):
    """Something to be done to a VM; ``start`` and ``deallocate`` announce nothing and take nothing else."""

    operation: Literal["restart", "redeploy", "freeze", "evict", "delete", "start", "deallocate"]
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None


class MoveBody(ApiBody, frozen=True, kw_only=True):
    """The host that a VM is to be moved to, or stands on."""

    host: Name
    record: bool = False
    """Only record it, also where the driver could move the VM."""
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None


class HostOperationBody(ApiBody, frozen=True, kw_only=True):
    """Something to be done to all VMs of a host, or told of it; the last three announce nothing by themselves."""

    operation: Literal["freeze", "reboot", "redeploy", "drain", "degrade", "fail", "repaired", "cordon", "uncordon"]
    not_before: Instant | None = None
    duration: ImpactSeconds | None = None
    description: OneLine | None = None
    leave_stuck: bool = False
    """For ``drain``: go on without the VMs that cannot leave the host, instead of refusing."""


class ReclaimBody(ApiBody, frozen=True, kw_only=True):
    """Which spot VMs to evict: so many, chosen fairly, or all of a host."""

    count: Count | None = None
    host: Name | None = None


class ScaleInBody(ApiBody, frozen=True, kw_only=True):
    """How many VMs of a scale set to delete."""

    count: Count


class PostponeBody(ApiBody, frozen=True, kw_only=True):
    """For how long an event is to be postponed, and why."""

    seconds: Seconds
    reason: OneLine = ""


class TermsBody(ApiBody, frozen=True, kw_only=True):
    """Terms of a group; what is left out stays as it is."""

    approval: ApprovalRule | UnsetType = UNSET
    quorum: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET
    approve_user_reboot: bool | UnsetType = UNSET
    approve_user_redeploy: bool | UnsetType = UNSET
    approve_all_down: bool | UnsetType = UNSET
    restart_after_crash: bool | UnsetType = UNSET
    postpone_limit: Annotated[int, Meta(ge=0, le=30 * 24 * 3600)] | UnsetType = UNSET
    """Seconds; 0 is no postponement."""
    quiet_hours: Annotated[tuple[OneLine, ...], Meta(max_length=20)] | UnsetType = UNSET
    terminate_notice: Annotated[int, Meta(ge=5 * 60, le=15 * 60)] | UnsetType | None = UNSET
    """Seconds; null is none."""
    eviction: EvictionPolicy | UnsetType = UNSET


class FleetBody(ApiBody, frozen=True, kw_only=True):
    """A difference: what is declared anew or differently, and what is removed. All of it happens, or nothing."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    cancel_events: bool = False
    """Cancel what is Scheduled for VMs that are removed, instead of refusing."""
    seen: int | None = None
    """``changes`` of the fleet that the difference was computed from; refused when it is out of date."""


class TokenBody(ApiBody, frozen=True, kw_only=True):
    """A token to be created."""

    name: Name
    role: Role
    groups: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    """The groups of an owner; no other role names any."""
    lasts: Annotated[int, Meta(ge=1, le=100 * 365 * 24 * 3600)] | None = None
    """Seconds until it expires; without end when left out."""


class SubscriptionBody(ApiBody, frozen=True, kw_only=True):
    """Somebody outside who is to be told."""

    name: Name
    kind: SubscriptionKind
    target: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """A URL; for mail an address."""
    groups: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    types: Annotated[tuple[TypeName, ...], Meta(max_length=10)] = ()
    secret: Annotated[str, Meta(max_length=200)] = ""
    """What a webhook's messages are signed with; drawn when left out."""


class ResultPage(msgspec.Struct, Generic[_Item], frozen=True):
    """A part of a list."""

    items: tuple[_Item, ...]
    next: str | None = None
    """The cursor of the following page; none after the last."""


class DeclaredPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what is declared: hosts, then groups, then VMs."""

    changes: int
    """How often the fleet was declared anew; a difference that names it as ``seen`` meets this very fleet."""
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    next: str | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without what opens anything."""

    id: str
    name: str
    role: Role
    groups: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    is_expired: bool
    missing_groups: tuple[str, ...] = ()
    """Groups that it names and that are not there; a group that gets such a name later is its own."""


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token that was just created."""

    token: str
    """What its bearer shows. It is told this once, and kept nowhere."""


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody outside who is told, and how far."""

    id: str
    name: str
    kind: SubscriptionKind
    target: str
    """Its mail address, or the host of its URL: the rest of one may be a secret."""
    groups: tuple[str, ...]
    types: tuple[str, ...]
    told: int
    """The last revision it was told of."""
    state: str = ""
    """Whether messages get through; empty while nothing is known."""
    waiting: int = 0
    """How many messages wait for it."""
    since: datetime | None = None
    """Since when none gets through."""
    next_try_at: datetime | None = None
    last_error: str = ""
    """Why none gets through."""
    refused: int = 0
    """How many of those that wait it refuses, though it takes others."""
    missed: int = 0
    """How many revisions it was never told of: the journal no longer held them, or it refused them for a day."""


class NewSubscription(SubscriptionView, frozen=True, kw_only=True):
    """A subscription that was just made."""

    secret: str
    """What its messages are signed with; it is told this once."""


class CallerView(msgspec.Struct, frozen=True, kw_only=True):
    """Who the caller is to the service."""

    name: str
    role: Role
    groups: tuple[str, ...]
    origin: str
    expires_at: datetime | None
    version: str
    """The release of the service."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the service can do its work."""

    status: Literal["live", "ready", "unready"]
    revision: int | None = None
    """The last revision of the journal."""


class ListenerView(msgspec.Struct, frozen=True, kw_only=True):
    """A socket that the service listens on."""

    part: Literal["metadata", "control"]
    address: str
    inode: int
    """The number that the kernel has for the socket, as in /proc/net/tcp."""


class HealthDetail(Health, frozen=True, kw_only=True):
    """Whether the service can do its work, and what needs an operator."""

    warnings: tuple[str, ...] = ()
    """One sentence for each, with the remedy."""
    listeners: tuple[ListenerView, ...] | None = None
    """Where VMs and operators are answered over the network; null where it is not known."""


class DeliveryReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a message sent as a test."""

    detail: str


class FieldError(msgspec.Struct, frozen=True):
    """What does not fit, and where it stands."""

    place: str
    detail: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was not done, and what to do (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()
