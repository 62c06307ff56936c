"""The records of the rules: VMs, hosts, groups and events; tokens of the control plane, and subscriptions.

Records have no reference cycles, so the garbage collector ignores them: a million VMs cost memory only.
``Vm``, ``Host`` and ``Event`` never change; a change replaces the record. ``Group`` is changed in place by
``Fleet.evolve`` alone.
"""

from datetime import datetime
from enum import StrEnum
from typing import Self

import msgspec


class EventType(StrEnum):
    """What an event does to its VMs."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    PREEMPT = "preempt"
    TERMINATE = "terminate"


class EventSource(StrEnum):
    """The initiator: the platform, or a user of the VM."""

    PLATFORM = "platform"
    USER = "user"


class EventStatus(StrEnum):
    """The status of an event. Only the first two occur in the fleet; the others are read from the journal."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELED = "canceled"
    FAILED = "failed"


class OperationScope(StrEnum):
    """What an operation is done to: one VM, all VMs of a host, or an event."""

    VM = "vm"
    HOST = "host"
    EVENT = "event"


_SCOPES = {scope.value: scope for scope in OperationScope}


class _ScopedOperation(StrEnum):
    """A scope and a verb, recorded as these two words."""

    @classmethod
    def of(cls, scope: OperationScope, verb: str) -> Self:
        return cls(f"{scope} {verb}")

    @classmethod
    def _missing_(cls, value: object) -> Self:
        """Keep an unknown value of another release: no start fails because of it."""
        other = str.__new__(cls, value)
        other._name_, other._value_ = "OTHER", str(value)
        return other

    @property
    def scope(self) -> OperationScope:
        return _SCOPES.get(self.partition(" ")[0], OperationScope.VM)

    @property
    def verb(self) -> str:
        return self.partition(" ")[2]


class Operation(_ScopedOperation):
    """The operation that announced an event."""

    VM_RESTART = "vm restart"
    VM_REDEPLOY = "vm redeploy"
    VM_FREEZE = "vm freeze"
    VM_EVICT = "vm evict"
    VM_DELETE = "vm delete"
    VM_MOVE = "vm move"
    """One VM is moved to a given host; announced like a host redeploy."""
    VM_FAIL = "vm fail"
    """One machine crashed; observed, never requested."""
    HOST_FREEZE = "host freeze"
    HOST_REBOOT = "host reboot"
    HOST_REDEPLOY = "host redeploy"
    HOST_DEGRADE = "host degrade"
    HOST_FAIL = "host fail"
    HOST_DRAIN = "host drain"
    """All VMs of a host are moved, each to its own target; announced like a host redeploy."""

    @property
    def is_of_host(self) -> bool:
        return self.scope is OperationScope.HOST

    @property
    def is_failure(self) -> bool:
        """Whether the machines have failed already, so that the event waits for nothing."""
        return self in (Operation.HOST_FAIL, Operation.VM_FAIL)


class BulkOperation(_ScopedOperation):
    """An operation that one command does to several VMs, hosts or events."""

    VM_RESTART = "vm restart"
    VM_REDEPLOY = "vm redeploy"
    VM_FREEZE = "vm freeze"
    VM_EVICT = "vm evict"
    VM_DELETE = "vm delete"
    VM_START = "vm start"
    VM_DEALLOCATE = "vm deallocate"
    VM_MOVE = "vm move"
    VM_SET = "vm set"
    VM_REMOVE = "vm remove"
    HOST_FREEZE = "host freeze"
    HOST_REBOOT = "host reboot"
    HOST_REDEPLOY = "host redeploy"
    HOST_DEGRADE = "host degrade"
    HOST_FAIL = "host fail"
    HOST_REPAIRED = "host repaired"
    HOST_CORDON = "host cordon"
    HOST_UNCORDON = "host uncordon"
    HOST_ENTER_MAINTENANCE = "host enter-maintenance"
    HOST_EXIT_MAINTENANCE = "host exit-maintenance"
    HOST_SET = "host set"
    HOST_REMOVE = "host remove"
    EVENT_CANCEL = "event cancel"


class StartCause(StrEnum):
    """Why an event starts, or needs no notice: the recorded sentence. ``StartCause(sentence)`` parses it."""

    APPROVED = "approved by"
    """Followed by the names of the approving VMs."""
    DUE = "NotBefore has passed"
    ALL_DOWN = "all VMs of the group are down"
    GROUP_IS_OFF = "the group is off: none of its VMs asks"
    NO_TERMINATE_NOTICE = "deleted without terminate notice"
    APPROVED_AUTOMATICALLY = "approved automatically by the group's policy"
    HARDWARE_FAILED = "hardware failure"
    OTHER = ""
    """A sentence of another release."""

    @classmethod
    def _missing_(cls, value: object) -> "StartCause":
        return cls.APPROVED if str(value).startswith(f"{cls.APPROVED} ") else cls.OTHER


CANCELED_BY = "canceled by"
"""How the reason begins where a caller canceled an event; a name follows."""


class GroupKind(StrEnum):
    """What binds the VMs of a group together."""

    STANDALONE = "standalone"
    AVAILABILITY_SET = "availability-set"
    SCALE_SET = "scale-set"
    CLOUD_SERVICE = "cloud-service"


class ApprovalRule(StrEnum):
    """The approval rule of a group."""

    ANY = "any"
    ALL = "all"
    QUORUM = "quorum"


class EvictionPolicy(StrEnum):
    """What an eviction leaves behind: a deallocated VM, or none."""

    DEALLOCATE = "deallocate"
    DELETE = "delete"


class CallerKind(StrEnum):
    """Kinds of callers: a VM, an operator, the owner of groups, or the node itself."""

    VM = "vm"
    OPERATOR = "operator"
    OWNER = "owner"
    NODE = "node"


class Caller(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The caller of a command and its address."""

    kind: CallerKind
    name: str = ""
    origin: str = ""

    def __str__(self) -> str:
        who = self.name if self.kind is not CallerKind.NODE else "forewarn"
        return f"{who} ({self.origin})" if self.origin else who


NODE = Caller(CallerKind.NODE)


class InstanceFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Instance metadata of a VM beyond its place in the fleet."""

    vm_id: str = ""
    vm_size: str = ""
    os_type: str = "Linux"
    location: str = ""
    resource_group_name: str = ""
    subscription_id: str = ""
    tags: dict[str, str] = {}


class Interface(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The network interface of a VM: its device on the host, and what the VM reads about it."""

    tap: str = ""
    """The network device on the host (tap)."""
    mark: int = 0
    """The mark of its packets, set by the host's packet filter; 0 is none."""
    mac_address: str = ""
    subnet: str = ""
    public_ip_address: str = ""
    ipv6_address: str = ""


class _NoLabels(dict[str, str]):
    """No labels. All records without labels share one, which costs no memory of their own."""

    __slots__ = ()


NO_LABELS: dict[str, str] = _NoLabels()


class Vm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A VM: as declared, with run-time state (``moved_to``, ``deallocated``)."""

    name: str
    group: str
    host: str = ""
    update_domain: int = 0
    fault_domain: int = 0
    zone: str = ""
    address: str = ""
    spot: bool = False
    instance: InstanceFacts = InstanceFacts()
    interface: Interface = Interface()
    moved_to: str = ""
    deallocated: bool = False
    labels: dict[str, str] = NO_LABELS
    """What operators select it by; the VM does not see them."""

    @property
    def standing_on(self) -> str:
        return self.moved_to or self.host


class Host(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A host of VMs."""

    name: str
    labels: dict[str, str] = NO_LABELS
    """What operators select it by, such as its rack."""


class HostState(StrEnum):
    """The state of a host."""

    UP = "up"
    DEGRADED = "degraded"
    """Its failure is predicted."""
    MAINTENANCE = "in-maintenance"
    """It is being worked on, and is cordoned."""
    FAILED = "failed"
    """Nothing is moved there, and no VM can be added there."""


class Eviction(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An eviction of a spot VM."""

    group: str
    at: datetime


class PowerRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A request that the driver start or stop a VM."""

    vm: str
    id: str
    """The id of the command."""
    on: bool
    failure: str = ""
    """The reason of the failure; empty while it is in progress."""


class ObservationKind(StrEnum):
    """Changes of machines that Forewarn did not cause."""

    CRASHED = "crashed"
    """Its process on the host ended without a shutdown."""
    REBOOTED = "rebooted"
    STOPPED = "stopped"
    STARTED = "started"
    GONE = "gone"
    """The machine is unknown on its host."""
    MOVED = "moved"
    """It is on another host than recorded; the fleet is updated."""


class Observation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An observation of a driver: a change of a machine that Forewarn did not cause."""

    vm: str
    what: ObservationKind
    at: datetime
    detail: str = ""
    host: str = ""
    """The present host of a moved machine."""
    vm_id: str = ""
    """The UUID of the machine, if its name may differ from the VM's; the journal records the VM's name."""
    is_found: bool = False
    """Observed when the driver began to watch; the same crash may have been reported before."""


class Policy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Policies of a group."""

    quorum: int = 0
    """Number of approvals required by the rule ``quorum``."""
    approve_user_reboot: bool = False
    """User-initiated reboots are approved automatically."""
    approve_user_redeploy: bool = False
    """User-initiated redeploys are approved automatically."""
    approve_all_down: bool = True
    """Events of a group without running VMs are approved automatically."""
    postpone_limit: int = 0
    """Total seconds by which VMs may postpone an event; 0 means not at all."""
    quiet_hours: tuple[str, ...] = ()
    """When platform maintenance may not start; ``quiet_hours.py`` describes the form."""
    restart_after_crash: bool = True
    """Restart a crashed VM; false if another manager does that."""


class GroupTerms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The declared terms of a group."""

    name: str
    kind: GroupKind
    approval: ApprovalRule = ApprovalRule.ANY
    terminate_notice: int | None = None
    """Seconds of notice before a VM of a scale set is deleted; None if deletes are not announced."""
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    policy: Policy = Policy()


class Group(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """VMs that see each other's events, and their document."""

    terms: GroupTerms
    vms: tuple[str, ...] = ()
    incarnation: int = 1
    enrolled_at: datetime | None = None
    asked_at: datetime | None = None
    """The recorded time of the last request; it may be hours older than the real one."""
    asked_by: str = ""

    @property
    def name(self) -> str:
        return self.terms.name


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One announced impact on VMs of one group, of one update domain, on one host."""

    id: str
    type: EventType
    source: EventSource
    group: str
    resources: tuple[str, ...]
    status: EventStatus
    not_before: datetime
    announced_at: datetime
    operation: Operation
    """The operation that announced it, as in the table of ``event_types.py``."""
    description: str = ""
    duration: int = -1
    """Expected seconds of interruption; -1 if unknown."""
    host: str = ""
    update_domain: int = 0
    fault_domain: int | None = 0
    """None if its VMs are in several fault domains; it then shares its turn with no other event."""
    without_notice: str = ""
    """Why no notice was required; empty if it was."""
    since: int = 0
    """The incarnation of the group's document that first showed it."""
    approvals: tuple[str, ...] = ()
    """VMs with an approval that counts, in order."""
    neighbours: tuple[str, ...] = ()
    """VMs with a recorded approval that does not count."""
    approved_by: str = ""
    """The operator who approved for the VMs."""
    reason: str = ""
    """Why this VM was selected, if the platform selected it."""
    postponed: int = 0
    """Total seconds of postponement."""
    waits_until: datetime | None = None
    """The end of the quiet hours that it waits for."""
    waits_for: str = ""
    """The event that this one waits for."""
    started_at: datetime | None = None
    attempted_at: datetime | None = None
    attempts: int = 0
    attempt_term: int = 0
    """The term of the latest attempt; 0 where one node had the journal for itself."""
    attempt_node: str = ""
    """The node that made the latest attempt."""
    fetched_by: tuple[str, ...] = ()
    """The VMs known to have fetched it."""
    target: str = ""
    """The target host, if one was given."""
    placements: dict[str, str] = {}
    """The target host of each VM, if they were planned."""
    gone: tuple[str, ...] = ()
    """VMs in Resources that were removed; a later VM with the same name is not part of the event."""
    clock_shift: int = 0
    """By how many seconds the wall clock was set ahead since it was announced; below 0, back."""
    rollout: str = ""
    """The rollout that announced it; it starts inside the maintenance windows of that one."""

    @property
    def targets(self) -> frozenset[str]:
        """The given target hosts."""
        return frozenset((*self.placements.values(), *((self.target,) if self.target else ())))

    @property
    def vms(self) -> tuple[str, ...]:
        """The VMs in Resources that still exist."""
        return tuple(name for name in self.resources if name not in self.gone) if self.gone else self.resources


class Role(StrEnum):
    """Roles of tokens."""

    OPERATOR = "operator"
    OWNER = "owner"
    VIEWER = "viewer"


class Token(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A token of the control plane. The secret itself is not stored."""

    id: str
    name: str
    role: Role
    hash: str
    """The SHA-256 of the secret, in hexadecimal."""
    created_at: datetime
    expires_at: datetime | None = None
    groups: tuple[str, ...] = ()
    """The groups of an owner."""
    previous_hash: str = ""
    """The hash of the secret before the last rotation, where that stays valid for a while."""
    previous_until: datetime | None = None
    """Until when it stays valid."""


class SubscriptionKind(StrEnum):
    """Kinds of notification channels."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    MAIL = "mail"


class Subscription(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A subscription to notifications."""

    id: str
    name: str
    kind: SubscriptionKind
    target: str
    """The address: a URL, or a mail address."""
    secret: str = ""
    """The secret that signs webhook messages."""
    groups: tuple[str, ...] = ()
    """Only events of these groups; all when empty."""
    types: tuple[EventType, ...] = ()
    """Only events of these types; all when empty."""
    delivered_revision: int = msgspec.field(default=0, name="told")
    """The last delivered revision, as recorded."""
