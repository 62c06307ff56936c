"""Request and response bodies of the control API, shared by client and server.

Unknown fields and wrong types are refused with their place.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forewarn.core.commands import ApplyDeclaration, HostOperation, VmOperation
from forewarn.core.declared_keys import DeclarationConflict, RecordDifference, RecordKind, ReplacedValue
from forewarn.core.model import ApprovalRule, Caller, EvictionPolicy, GroupTerms, Host, Role, SubscriptionKind, Vm
from forewarn.core.terms import LONGEST_IMPACT, LONGEST_LINE, LONGEST_POSTPONEMENT, MOST_VMS, ONE_LINE
from forewarn.wire.azure_names import TYPES

_Item = TypeVar("_Item")

MOST_FINISHED = 10_000
"""Finished events that can be asked for at once."""

_ONE_LINE = rf"^{ONE_LINE}*$(?!\n)"
"""In Python, ``$`` alone also matches before a line feed at the end."""
Instant = Annotated[datetime, Meta(tz=True, description="A time with its zone, such as 2026-01-31T14:32:00Z.")]
Seconds = Annotated[int, Meta(ge=1, le=LONGEST_POSTPONEMENT, description="Whole seconds.")]
OneLine = Annotated[str, Meta(max_length=LONGEST_LINE, pattern=_ONE_LINE, description="One line of text.")]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_LINE, pattern=_ONE_LINE)]
ImpactSeconds = Annotated[
    int, Meta(ge=-1, le=LONGEST_IMPACT, description="Seconds of interruption to announce; -1: not known.")
]
TypeName = Annotated[
    str, Meta(extra_json_schema={"enum": [*TYPES.values()]}, description="An event type, in any case.")
]
Count = Annotated[int, Meta(ge=1, le=MOST_VMS)]
if TYPE_CHECKING:
    VmVerb = str
    HostVerb = str
else:
    VmVerb = Literal[(*(each.value for each in VmOperation), "start", "deallocate")]
    HostVerb = Literal[(*(each.value for each in HostOperation), "drain", "repaired", "cordon", "uncordon")]


class ApiBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body."""


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


class TermsBody(ApiBody, frozen=True, kw_only=True):
    """Terms of a group; omitted fields are not changed."""

    approval: ApprovalRule | UnsetType = UNSET
    quorum: Annotated[int, Meta(ge=0, le=MOST_VMS)] | UnsetType = UNSET
    approve_user_reboot: bool | UnsetType = UNSET
    approve_user_redeploy: bool | UnsetType = UNSET
    approve_all_down: bool | UnsetType = UNSET
    restart_after_crash: bool | UnsetType = UNSET
    postpone_limit: Annotated[int, Meta(ge=0, le=LONGEST_POSTPONEMENT)] | UnsetType = UNSET
    """Seconds; 0 means no postponement."""
    quiet_hours: Annotated[tuple[OneLine, ...], Meta(max_length=20)] | UnsetType = UNSET
    terminate_notice: Annotated[int, Meta(ge=5 * 60, le=15 * 60)] | UnsetType | None = UNSET
    """Seconds; null means none."""
    eviction: EvictionPolicy | UnsetType = UNSET


class FleetBody(ApiBody, frozen=True, kw_only=True):
    """Change of the fleet: new, changed and removed records. It is applied as a whole or not at all."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    cancel_events: bool = False
    """Cancel Scheduled events of removed VMs, instead of refusing."""
    seen: int | None = None
    """``changes`` of the fleet that the change is based on; refused if it is out of date."""


class TokenBody(ApiBody, frozen=True, kw_only=True):
    """A token to be created."""

    name: Name
    role: Role
    groups: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    """The groups of an owner; other roles have none."""
    lasts: Annotated[int, Meta(ge=1, le=100 * 365 * 24 * 3600)] | None = None
    """Seconds until it expires; unlimited if omitted."""


class SubscriptionBody(ApiBody, frozen=True, kw_only=True):
    """A subscription to be added."""

    name: Name
    kind: SubscriptionKind
    target: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """A URL; for mail an address."""
    groups: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    types: Annotated[tuple[TypeName, ...], Meta(max_length=10)] = ()
    secret: Annotated[str, Meta(max_length=200)] = ""
    """Signing secret of a webhook; generated if omitted."""


class ResultPage(msgspec.Struct, Generic[_Item], frozen=True):
    """A page of a list."""

    items: tuple[_Item, ...]
    next: str | None = None
    """Cursor of the next page; null on the last."""


class DeclaredPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the declared fleet: hosts, then groups, then VMs."""

    changes: int
    """Number of changes of the fleet; a change with this number as ``seen`` applies to exactly this fleet."""
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    next: str | None = None


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: str
    name: str
    role: Role
    groups: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    is_expired: bool
    missing_groups: tuple[str, ...] = ()
    """Groups that it names and that do not exist; a group created with such a name later belongs to it."""


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token that was just created."""

    token: str
    """The secret token. It is returned once and not stored."""


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription and its delivery status."""

    id: str
    name: str
    kind: SubscriptionKind
    target: str
    """Its mail address, or the host of its URL: the rest of a URL may be secret."""
    groups: tuple[str, ...]
    types: tuple[str, ...]
    told: int
    """The last revision that was delivered."""
    state: str = ""
    """Delivery state; empty while unknown."""
    waiting: int = 0
    """Number of pending notifications."""
    since: datetime | None = None
    """Since when deliveries fail."""
    next_try_at: datetime | None = None
    last_error: str = ""
    """Why deliveries fail."""
    refused: int = 0
    """Number of pending notifications that the receiver refuses, while it accepts others."""
    missed: int = 0
    """Number of revisions that were never delivered: no longer in the journal, or refused for a day."""


class NewSubscription(SubscriptionView, frozen=True, kw_only=True):
    """A subscription that was just added."""

    secret: str
    """The signing secret; it is returned once."""


class CallerView(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's identity."""

    name: str
    role: Role
    groups: tuple[str, ...]
    origin: str
    expires_at: datetime | None
    version: str
    """The version of the service."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Health of the service."""

    status: Literal["live", "ready", "unready"]
    revision: int | None = None
    """The last revision of the journal."""


class ListenerView(msgspec.Struct, frozen=True, kw_only=True):
    """A socket that the service listens on."""

    part: Literal["metadata", "control"]
    address: str
    inode: int
    """The inode of the socket, as in /proc/net/tcp."""


class HealthDetail(Health, frozen=True, kw_only=True):
    """Health of the service, and warnings for an operator."""

    warnings: tuple[str, ...] = ()
    """One sentence each, with the remedy."""
    listeners: tuple[ListenerView, ...] | None = None
    """Listening TCP sockets for VMs and operators; null if unknown."""


class DeliveryReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a test notification."""

    detail: str


class FieldError(msgspec.Struct, frozen=True):
    """An invalid value and its place."""

    place: str
    detail: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was refused, and the remedy (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()


class DeclarationBody(ApiBody, frozen=True, kw_only=True):
    """A fleet file, as its diff to the declaration last applied."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    seen: int = 0
    """``revision`` of the declaration that the diff is based on; 409 if it is out of date."""
    digest: Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]*$")] = ""
    """The SHA-256 of the file, by which a start recognises an unchanged file."""
    source: OneLine = ""
    """The file's name."""
    exact: bool = False
    """Make the fleet equal to the file, whatever was changed at run time."""
    cancel_events: bool = False
    """Cancel Scheduled events of VMs that are removed or moved, instead of refusing."""
    yes: bool = False
    """Carry out removals that a start has held because there were too many."""

    @property
    def identity(self) -> "DeclarationBody":
        """Return what identifies the request: the file, if known, and not its diff.

        The diff changes as soon as the file was applied.
        """
        if not self.digest:
            return self
        return DeclarationBody(
            digest=self.digest, source=self.source, exact=self.exact, cancel_events=self.cancel_events, yes=self.yes
        )

    def command(self, id_: str, by: Caller) -> ApplyDeclaration:
        return ApplyDeclaration(id=id_, by=by, **msgspec.structs.asdict(self))


class DeclarationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the declaration last applied."""

    revision: int
    """Number of declarations applied; 0 before the first."""
    digest: str
    source: str
    is_missing: bool
    """The fleet was created by a release without declarations; the fleet itself is returned instead."""
    changes: int
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    next: str | None = None


class HeldView(msgspec.Struct, frozen=True, kw_only=True):
    """A held change."""

    kind: RecordKind
    name: str
    change: str
    """``removal``, ``addition``, or the keys that change."""
    reason: str
    detail: str
    """The change in one sentence."""


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is added, changed or removed."""

    action: Literal["add", "change", "remove"]
    kind: RecordKind
    name: str
    keys: dict[str, tuple[object, object]] = {}
    """The old and the new value."""


class BlockedView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that blocks a change."""

    vm: str
    event: str
    status: str


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a fleet file would change."""

    revision: int
    is_first: bool
    """Nothing is changed: the previous release recorded no declaration, so this one is only recorded."""
    changes: tuple[RecordChange, ...] = ()
    blocked: tuple[BlockedView, ...] = ()
    """Blocking events; without ``cancel_events`` the file is refused."""
    conflicts: tuple[DeclarationConflict, ...] = ()
    """Entries that conflict with the fleet; the file is refused."""
    canceled: tuple[str, ...] = ()
    held: tuple[HeldView, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()
    differences: tuple[RecordDifference, ...] = ()
    """Differences to the file that remain."""


class DifferencesView(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between fleet and fleet file, and held changes."""

    revision: int
    source: str
    total: int
    differences: tuple[RecordDifference, ...]
    held: tuple[HeldView, ...]
