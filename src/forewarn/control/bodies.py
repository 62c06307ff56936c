"""Request and response bodies of the control API, shared by client and server.

Unknown fields and wrong types are refused with their place.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forewarn.core.commands import AnnouncementTerms, ApplyDeclaration, HostOperation, VmOperation
from forewarn.core.declared_keys import DeclarationConflict, RecordDifference, RecordKind, ReplacedValue
from forewarn.core.label_selectors import LONGEST_SELECTOR
from forewarn.core.model import (
    ApprovalRule,
    BulkOperation,
    Caller,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    HostState,
    OperationScope,
    Policy,
    Role,
    SubscriptionKind,
    Vm,
)
from forewarn.core.rollouts.model import RolloutTerms
from forewarn.core.selectors import VmState
from forewarn.core.terms import LONGEST_IMPACT, LONGEST_LINE, LONGEST_POSTPONEMENT, MOST_VMS, ONE_LINE
from forewarn.wire.azure_names import TYPES

_Item = TypeVar("_Item")

MOST_AT_ONCE = 1_000
"""VMs, hosts or events that one request operates on: it is decided in one step."""
LONGEST_OVERLAP = 30 * 24 * 3600
"""Seconds for which the old secret of a token can stay valid."""
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
LabelText = Annotated[str, Meta(min_length=1, max_length=LONGEST_SELECTOR)]
Count = Annotated[int, Meta(ge=1, le=MOST_VMS)]
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


Names = Annotated[tuple[Name, ...], Meta(max_length=MOST_AT_ONCE)]


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


class NewHostBody(ApiBody, frozen=True, kw_only=True):
    """A host to be added."""

    name: Name
    labels: dict[str, str] = {}


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


class NewGroupBody(TermsBody, frozen=True, kw_only=True):
    """A group to be added, with its terms."""

    name: Name
    kind: GroupKind

    def terms(self) -> GroupTerms:
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not UNSET}
        policy = Policy(**{key: given.pop(key) for key in Policy.__struct_fields__ if key in given})
        return GroupTerms(**given, policy=policy)


class FleetBody(ApiBody, frozen=True, kw_only=True):
    """Change of the fleet: new, changed and removed records. It is applied as a whole or not at all."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    only_new: bool = False
    """Refuse records that exist, instead of changing them."""
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
    previous_until: datetime | None = None
    """Until when the secret before the last rotation is valid, too."""
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
    is_tls: bool = False


class DashboardLinkBody(ApiBody, frozen=True, kw_only=True):
    """Whom a link to the dashboard logs in."""

    token: Annotated[str, Meta(max_length=200)] = ""
    """The token of the session; the caller's own if empty."""


class DashboardLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that logs a browser in to the dashboard, once, within five minutes."""

    path: str


_LONG_SILENCE = 3.0
"""Seconds without a message after which a worker may be stuck."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A process that answers VMs."""

    number: int
    pid: int
    state: Literal["down", "loading", "joined", "listening"]
    """joined: it follows the commits, and does not answer yet."""
    revision: int
    """The last revision that it can show."""
    connections: int
    long_polls: int
    age: float
    """Seconds since its process was started."""
    leader_age: float
    """Seconds since it knew its leader to be well, when it last reported."""
    restarts: int
    silence: float = 0.0
    """Seconds since it last sent its leader a message; it reports each second."""

    @property
    def is_well(self) -> bool:
        """Whether it answers, as far as its leader knows."""
        return self.state == "listening" and self.silence < _LONG_SILENCE

    @property
    def summary(self) -> str:
        """What an operator is told of it, in one line."""
        if self.state != "listening":
            return f"worker {self.number} does not answer: it is {self.state}"
        if not self.is_well:
            return f"worker {self.number} (process {self.pid}) may not answer: silent for {self.silence:.0f} s"
        return (
            f"worker {self.number} (process {self.pid}) answers at revision {self.revision},"
            f" {self.connections} connections, for {self.age:.0f} s"
        )


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node that shares the journal, as its last heartbeat described it."""

    name: str
    address: str
    release: str
    format: int
    """The newest format of facts that it can read."""
    revision: int
    """The last revision that it holds."""
    can_lead: bool
    age: float
    """Seconds since its last heartbeat."""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """One node among those that share the journal."""

    node: str
    role: Literal["leading", "following", "changing"]
    leader: str
    """The node that leads; empty while none does, or it is not known."""
    term: int
    """The term of the leader; it grows with each change of leader."""
    heartbeat_age: float
    """Seconds since the database last answered a heartbeat of this node."""
    revisions_behind: int
    """Entries of the journal that this node does not hold yet."""
    behind: float
    """Seconds since this node certainly held everything that was durable."""
    is_behind: bool
    """Whether that is longer than the setting behind_after."""
    clock_skew: float
    """Seconds that the clock of this node is ahead of the database's, at least."""
    format: int
    """The format of facts that every node can read."""
    reloads: int
    """How often the journal did not continue what this node held, so that it was loaded again."""
    nodes: tuple[NodeView, ...]

    @property
    def summary(self) -> str:
        """What an operator is told of it, in one line."""
        who = "leads" if self.role == "leading" else f"follows {self.leader or 'no node: none leads'}"
        lag = f", {self.revisions_behind} revisions behind for {self.behind:.0f} s" if self.is_behind else ""
        return f"node {self.node} {who} in term {self.term}{lag}, heartbeat {self.heartbeat_age:.1f} s ago"


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says about itself when another node asks."""

    role: Literal["leading", "following", "changing"]
    revision: int
    """The last revision that it holds."""
    behind: float
    """Seconds since it certainly held everything that was durable."""
    clock_skew: float
    """Seconds that its clock is ahead of the database's, at least."""
    warnings: tuple[str, ...]


class ClusterNodeView(NodeView, frozen=True, kw_only=True):
    """A node that shares the journal: its last heartbeat, and what it says about itself."""

    role: Literal["leading", "following", "changing", "silent"]
    """What it does; ``silent`` where it did not answer."""
    revisions_behind: int
    """Entries of the journal that it does not hold yet."""
    behind: float | None = None
    """Seconds since it certainly held everything that was durable; not known of a silent node."""
    clock_skew: float | None = None
    """Seconds that its clock is ahead of the database's, at least."""
    warnings: tuple[str, ...] = ()
    """What needs an operator there."""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes that share the journal."""

    node: str
    """The node that answered."""
    leader: str
    """The node that leads; empty while none does, or it is not known."""
    term: int
    """The term of the leader; it grows with each change of leader."""
    revision: int
    """The last revision that any node knows of."""
    format: int
    """The format of facts that every node can read."""
    database: str
    nodes: tuple[ClusterNodeView, ...]
    warnings: tuple[str, ...]
    """What needs an operator in the cluster as a whole."""


class HealthDetail(Health, frozen=True, kw_only=True):
    """Health of the service, and warnings for an operator."""

    warnings: tuple[str, ...] = ()
    """One sentence each, with the remedy."""
    listeners: tuple[ListenerView, ...] | None = None
    """Listening TCP sockets for VMs and operators; null if unknown."""
    workers: tuple[WorkerView, ...] | None = None
    """The processes that answer VMs; null if one process does everything."""
    cluster: ClusterView | None = None
    """The nodes that share the journal; null where it is this node's own."""


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


def _optional(field: msgspec.structs.FieldInfo) -> tuple[str, object] | tuple[str, object, object]:
    """Return a field of a record as ``defstruct`` takes it."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return (field.name, field.type) if field.required else (field.name, field.type, field.default)


_RolloutTermsFields = msgspec.defstruct(
    "_RolloutTermsFields",
    [_optional(field) for field in msgspec.structs.fields(RolloutTerms)],
    bases=(ApiBody,),
    frozen=True,
    kw_only=True,
)
_RolloutEditFields = msgspec.defstruct(
    "_RolloutEditFields",
    [(field.name, field.type | UnsetType, UNSET) for field in msgspec.structs.fields(RolloutTerms)],
    bases=(ApiBody,),
    frozen=True,
    kw_only=True,
)


class RolloutTermsBody(_RolloutTermsFields):  # type: ignore[misc,valid-type]
    """What a rollout is to do; durations are seconds, shares are from 0 to 1."""

    @property
    def terms(self) -> RolloutTerms:
        return RolloutTerms(**msgspec.structs.asdict(self))


class RolloutEditBody(_RolloutEditFields):  # type: ignore[misc,valid-type]
    """What a rollout is to do otherwise; omitted fields are not changed."""

    def applied_to(self, terms: RolloutTerms) -> RolloutTerms:
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not UNSET}
        return msgspec.structs.replace(terms, **given)


class RolloutBody(ApiBody, frozen=True, kw_only=True):
    """A rollout to be planned or started."""

    name: Name
    terms: RolloutTermsBody
    planned: Annotated[tuple[tuple[Name, ...], ...], Meta(max_length=100_000)] | None = None
    """The waves of a saved plan; refused if the fleet has changed so that they would be others now."""


class PauseRolloutBody(ApiBody, frozen=True, kw_only=True):
    """How a rollout is paused."""

    withdraw: bool = False
    """Withdraw what is Scheduled; it is announced anew after the pause."""


class RetryHostsBody(ApiBody, frozen=True, kw_only=True):
    """Which hosts of a rollout are tried again."""

    hosts: Annotated[tuple[Name, ...], Meta(max_length=100_000)] = ()
    """All that failed, if empty."""


class SkipHostBody(ApiBody, frozen=True, kw_only=True):
    """Which host a rollout leaves out."""

    host: Name
