"""The records of the rules: VMs, hosts, groups and events; tokens of the control plane, and subscriptions.

Records hold no cycles, so they are kept out of the garbage collector's sight: a million VMs cost memory only.
``Vm``, ``Host`` and ``Event`` never change; a change replaces the record. ``Group`` is changed in place by
``Fleet.evolve`` alone.
"""

from datetime import datetime
from enum import StrEnum

import msgspec


class EventType(StrEnum):
    """What an event does to its VMs."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    PREEMPT = "preempt"
    TERMINATE = "terminate"


class EventSource(StrEnum):
    """Who wanted it: the platform, or a user of the VM."""

    PLATFORM = "platform"
    USER = "user"


class EventStatus(StrEnum):
    """Where an event stands. Only the first two live in the fleet; the others are read from the journal."""

    SCHEDULED = "scheduled"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELED = "canceled"
    FAILED = "failed"


class OperationScope(StrEnum):
    """What an operation is done to: one VM, or all VMs of a host."""

    VM = "vm"
    HOST = "host"


class Operation(StrEnum):
    """What announced an event: a scope and a verb, recorded as these two words."""

    VM_RESTART = "vm restart"
    VM_REDEPLOY = "vm redeploy"
    VM_FREEZE = "vm freeze"
    VM_EVICT = "vm evict"
    VM_DELETE = "vm delete"
    VM_MOVE = "vm move"
    """One VM is moved to a named host; it announces what a host's redeploy does."""
    VM_FAIL = "vm fail"
    """One machine crashed; nobody asks for it, it is observed."""
    HOST_FREEZE = "host freeze"
    HOST_REBOOT = "host reboot"
    HOST_REDEPLOY = "host redeploy"
    HOST_DEGRADE = "host degrade"
    HOST_FAIL = "host fail"
    HOST_DRAIN = "host drain"
    """All VMs of a host are moved, each to its own target; it announces what a host's redeploy does."""

    @classmethod
    def of(cls, scope: OperationScope, verb: str) -> "Operation":
        return cls(f"{scope} {verb}")

    @classmethod
    def _missing_(cls, value: object) -> "Operation":
        """Keep what another release recorded as it is: no start fails because of it."""
        other = str.__new__(cls, value)
        other._name_, other._value_ = "OTHER", str(value)
        return other

    @property
    def scope(self) -> OperationScope:
        return OperationScope.HOST if self.partition(" ")[0] == OperationScope.HOST else OperationScope.VM

    @property
    def verb(self) -> str:
        return self.partition(" ")[2]

    @property
    def is_of_host(self) -> bool:
        return self.scope is OperationScope.HOST

    @property
    def is_failure(self) -> bool:
        """Whether the machines are lost already, so that the event waits for nothing."""
        return self in (Operation.HOST_FAIL, Operation.VM_FAIL)


class StartCause(StrEnum):
    """Why an event starts, or owes no notice: the sentence that is recorded. ``StartCause(sentence)`` reads it."""

    APPROVED = "approved by"
    """The names of those who approved follow."""
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


class GroupKind(StrEnum):
    """What binds the VMs of a group together."""

    STANDALONE = "standalone"
    AVAILABILITY_SET = "availability-set"
    SCALE_SET = "scale-set"
    CLOUD_SERVICE = "cloud-service"


class ApprovalRule(StrEnum):
    """Whose approval lets an event start before its time."""

    ANY = "any"
    ALL = "all"
    QUORUM = "quorum"


class EvictionPolicy(StrEnum):
    """What an eviction leaves behind: a deallocated VM, or none."""

    DEALLOCATE = "deallocate"
    DELETE = "delete"


class CallerKind(StrEnum):
    """Who may cause something: a VM, an operator, the owner of some groups, or the node itself."""

    VM = "vm"
    OPERATOR = "operator"
    OWNER = "owner"
    NODE = "node"


class Caller(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Who caused something, and from where."""

    kind: CallerKind
    name: str = ""
    origin: str = ""

    def __str__(self) -> str:
        who = self.name if self.kind is not CallerKind.NODE else "forewarn"
        return f"{who} ({self.origin})" if self.origin else who


NODE = Caller(CallerKind.NODE)


class InstanceFacts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a VM can read about itself beyond its place in the fleet."""

    vm_id: str = ""
    vm_size: str = ""
    os_type: str = "Linux"
    location: str = ""
    resource_group_name: str = ""
    subscription_id: str = ""
    tags: dict[str, str] = {}


class Interface(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The wire a VM hangs on: what its host calls it, and what the VM reads about it beside its address."""

    tap: str = ""
    """The device on the host that all its packets come from."""
    mark: int = 0
    """The number that the host's packet filter gives those packets; 0 is none."""
    mac_address: str = ""
    subnet: str = ""
    public_ip_address: str = ""
    ipv6_address: str = ""


class Vm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One machine: as the operator declared it, and what happened to it since (``moved_to``, ``deallocated``)."""

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

    @property
    def standing_on(self) -> str:
        return self.moved_to or self.host


class Host(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The hardware VMs stand on."""

    name: str


class HostState(StrEnum):
    """How it stands with a host at run time."""

    UP = "up"
    DEGRADED = "degraded"
    """Its failure is predicted."""
    FAILED = "failed"
    """Nothing is moved there, and no VM can be added there."""


class Eviction(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """That a group lost a spot VM."""

    group: str
    at: datetime


class PowerRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """That the driver is to start or stop a VM."""

    vm: str
    id: str
    """The id of the command that asked for it."""
    on: bool
    failure: str = ""
    """Why the driver could not; empty as long as it is under way."""


class ObservationKind(StrEnum):
    """What befell a machine without our doing."""

    CRASHED = "crashed"
    """Its process on the host is dead; the machine never had a chance to stop."""
    REBOOTED = "rebooted"
    STOPPED = "stopped"
    STARTED = "started"
    GONE = "gone"
    """The host does not know it any more."""
    MOVED = "moved"
    """It is on another host than the fleet has it on; the fleet follows."""


class Observation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a driver saw happen to a machine that nobody had asked it for."""

    vm: str
    what: ObservationKind
    at: datetime
    detail: str = ""
    host: str = ""
    """The host that a machine which was moved is on."""
    vm_id: str = ""
    """The UUID of the machine, where its name may be another than the VM's; the record has the VM's name instead."""
    is_found: bool = False
    """It was so when the driver began to watch; the same crash may have been reported before."""


class Policy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a group asks for beyond the ordinary."""

    quorum: int = 0
    """How many VMs of the group must approve, where the approval rule is ``quorum``."""
    approve_user_reboot: bool = False
    """Reboots that a user asks for are approved automatically."""
    approve_user_redeploy: bool = False
    """Redeploys that a user asks for are approved automatically."""
    approve_all_down: bool = True
    """What concerns a group none of whose VMs runs is approved automatically."""
    postpone_limit: int = 0
    """For how many seconds in all an event may be postponed by its VMs; 0 is not at all."""
    quiet_hours: tuple[str, ...] = ()
    """When platform maintenance may not start; ``quiet.py`` says how they are written."""
    restart_after_crash: bool = True
    """A VM that crashed is started again; false where another manager does that."""


class GroupTerms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What an operator declares of a group."""

    name: str
    kind: GroupKind
    approval: ApprovalRule = ApprovalRule.ANY
    terminate_notice: int | None = None
    """Seconds of notice before a VM of a scale set is deleted; none when deletes go unannounced."""
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    policy: Policy = Policy()


class Group(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The VMs that see each other's events, and what they are shown."""

    terms: GroupTerms
    vms: tuple[str, ...] = ()
    incarnation: int = 1
    enrolled_at: datetime | None = None
    asked_at: datetime | None = None
    """When one of its VMs last asked, as recorded; the record lags behind the truth by hours."""
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
    """Expected seconds of interruption; -1 when not known."""
    host: str = ""
    update_domain: int = 0
    fault_domain: int | None = 0
    """None when its VMs are of several fault domains; it then shares its turn with nobody."""
    without_notice: str = ""
    """Why no notice was owed; empty when it was."""
    since: int = 0
    """The incarnation of the group's document that first showed it."""
    approvals: tuple[str, ...] = ()
    """The VMs whose approval counts, in the order they gave it."""
    neighbours: tuple[str, ...] = ()
    """The VMs whose approval was recorded but does not count."""
    approved_by: str = ""
    """The operator who approved in the VMs' place."""
    reason: str = ""
    """Why just this VM was chosen, where the platform had a choice."""
    postponed: int = 0
    """For how many seconds in all it was postponed."""
    waits_until: datetime | None = None
    """The end of the quiet hours that it waits for."""
    waits_for: str = ""
    """The event whose end this one waits for."""
    started_at: datetime | None = None
    attempted_at: datetime | None = None
    attempts: int = 0
    fetched_by: tuple[str, ...] = ()
    """The VMs known to have fetched it."""
    target: str = ""
    """The host that its VMs are moved to, where one was named."""
    placements: dict[str, str] = {}
    """The host that each of its VMs is to be moved to, where that was planned for each."""
    gone: tuple[str, ...] = ()
    """The VMs in Resources that are gone; whoever comes under such a name later is not meant."""
    clock_shift: int = 0
    """By how many seconds the wall clock was set ahead since it was announced; below 0, back."""

    @property
    def targets(self) -> frozenset[str]:
        """The hosts that its VMs are to be moved to, as far as they were named."""
        return frozenset((*self.placements.values(), *((self.target,) if self.target else ())))

    @property
    def vms(self) -> tuple[str, ...]:
        """The VMs in Resources that are still there."""
        return tuple(name for name in self.resources if name not in self.gone) if self.gone else self.resources


class Role(StrEnum):
    """What the bearer of a token may do."""

    OPERATOR = "operator"
    OWNER = "owner"
    VIEWER = "viewer"


class Token(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A key to the control plane. The secret itself is known to its bearer alone."""

    id: str
    name: str
    role: Role
    hash: str
    """The SHA-256 of the secret, in hexadecimal."""
    created_at: datetime
    expires_at: datetime | None = None
    groups: tuple[str, ...] = ()
    """The groups of an owner."""


class SubscriptionKind(StrEnum):
    """How somebody outside is told."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    MAIL = "mail"


class Subscription(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Somebody outside who is told what happens to events."""

    id: str
    name: str
    kind: SubscriptionKind
    target: str
    """The address: a URL, or for mail an address of a person."""
    secret: str = ""
    """What a webhook's messages are signed with."""
    groups: tuple[str, ...] = ()
    """Only events of these groups; all when empty."""
    types: tuple[EventType, ...] = ()
    """Only events of these types; all when empty."""
    told: int = 0
    """The last revision that was told of, as recorded."""
