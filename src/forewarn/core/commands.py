"""Commands. Every cause (operator, VM, deadline, driver) becomes one of these.

A command has an id, random or derived from an Idempotency-Key; the ids of its events are derived from it. The rules
themselves use no random numbers.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypedDict

import msgspec

from forewarn.core.facts import Fetch, Mark, RecordedRequest
from forewarn.core.model import (
    ApprovalRule,
    BulkOperation,
    Caller,
    EvictionPolicy,
    GroupTerms,
    Host,
    Observation,
    Subscription,
    Token,
    Vm,
)

Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    """A command."""

    id: str
    by: Caller
    request: RecordedRequest | None = None
    """The request of the control API, if it is to be recorded."""


class _FleetDiffCommand(Command, frozen=True, kw_only=True):
    """Records that are new, changed or removed."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()


class ChangeFleet(_FleetDiffCommand, frozen=True, kw_only=True, tag="change-fleet"):
    """Declare hosts, groups and VMs that are new or different, and remove others. All or nothing."""

    only_new: bool = False
    """Refuse records that exist, instead of changing them."""
    cancel_events: bool = False
    """Cancel Scheduled events of removed VMs instead of refusing."""
    seen: int | None = None
    """The number of fleet changes that the difference was computed from; refused if outdated."""


class ApplyDeclaration(_FleetDiffCommand, frozen=True, kw_only=True, tag="apply-declaration"):
    """Apply a fleet file, given as its difference to the declaration last applied."""

    seen: int
    """The revision of the declaration that the difference was computed from; refused if outdated."""
    digest: str = ""
    """The SHA-256 of the file, to recognise an unchanged file."""
    source: str = ""
    """The path of the file as given."""
    exact: bool = False
    """Make the fleet equal to the file, also where it was changed at run time."""
    cancel_events: bool = False
    """Cancel Scheduled events of VMs that leave their group or domain, instead of refusing."""
    yes: bool = False
    """Carry out removals that were held because there were too many."""
    is_start: bool = False
    """Never refuse: hold changes that an event blocks, and leave out entries that conflict with the fleet."""


class BulkCommand(Command, frozen=True, kw_only=True, tag="bulk"):
    """Give one command for each of several VMs, hosts or events: each is carried out, or refused by itself."""

    operation: BulkOperation
    """What is done to each, such as ``vm restart``."""
    commands: dict[str, Command]
    """By the name of the VM or host, or the id of the event."""


class SetVm(Command, frozen=True, kw_only=True, tag="set-vm"):
    """Change keys of a VM; what is left out stays."""

    vm: str
    keys: tuple[str, ...]
    """As the fleet file writes them; a label is ``labels.rack``."""
    values: Vm
    """The values of these keys, whatever its name; a label that it does not have is taken away."""
    cancel_events: bool = False
    """Cancel what is Scheduled for the VM where it leaves its place, instead of refusing."""


class SetHost(Command, frozen=True, kw_only=True, tag="set-host"):
    """Change labels of a host; what is left out stays, and None takes one away."""

    host: str
    labels: dict[str, str | None]


class SetGroup(Command, frozen=True, kw_only=True, tag="set-group"):
    """Change terms of a group; other terms stay."""

    group: str
    approval: ApprovalRule | None = None
    quorum: int | None = None
    approve_user_reboot: bool | None = None
    approve_user_redeploy: bool | None = None
    approve_all_down: bool | None = None
    restart_after_crash: bool | None = None
    postpone_limit: int | None = None
    quiet_hours: tuple[str, ...] | None = None
    terminate_notice: int | msgspec.UnsetType | None = msgspec.UNSET
    eviction: EvictionPolicy | None = None


class VmOperation(StrEnum):
    """Operations on one VM that have an event."""

    RESTART = "restart"
    REDEPLOY = "redeploy"
    FREEZE = "freeze"
    EVICT = "evict"
    DELETE = "delete"


class HostOperation(StrEnum):
    """Operations on all VMs of a host that have events."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    DEGRADE = "degrade"
    FAIL = "fail"


class AnnouncementTerms(TypedDict, total=False):
    """Optional properties of announced events."""

    not_before: datetime | None
    duration: int | None
    description: str | None


class OperateVm(Command, frozen=True, kw_only=True, tag="operate-vm"):
    """Announce an operation on one VM, or start it at once if no notice is required."""

    operation: VmOperation
    vm: str
    not_before: Instant | None = None
    duration: int | None = None
    description: str | None = None


class OperateHost(Command, frozen=True, kw_only=True, tag="operate-host"):
    """Announce an operation on all VMs of a host: one event per group and update domain."""

    operation: HostOperation
    host: str
    not_before: Instant | None = None
    duration: int | None = None
    description: str | None = None
    live: bool = False
    """The driver supports live migration, so a redeploy is announced as a freeze."""
    spared: tuple[str, ...] = ()
    """VMs to which it is not announced, because a rollout has done it to them already."""


class RepairHost(Command, frozen=True, kw_only=True, tag="repair-host"):
    """Record that a degraded or failed host is repaired."""

    host: str


class CordonHost(Command, frozen=True, kw_only=True, tag="cordon-host"):
    """Cordon or uncordon a host; uncordon cancels Scheduled events of a drain."""

    host: str
    is_cordoned: bool


class SetMaintenance(Command, frozen=True, kw_only=True, tag="set-maintenance"):
    """Begin or end maintenance of a host. The beginning cordons it; the end leaves the cordon."""

    host: str
    is_in_maintenance: bool


class DrainHost(Command, frozen=True, kw_only=True, tag="drain-host"):
    """Cordon a host and announce the planned moves of its VMs: one event per group and update domain."""

    host: str
    placements: dict[str, str]
    """The target host of each VM."""
    left: dict[str, str] = {}
    """Running VMs that cannot be moved, with the reason."""
    cold: tuple[str, ...] = ()
    """The VMs that cannot be moved while they run."""
    not_before: Instant | None = None
    duration: int | None = None
    description: str | None = None
    live: bool = False
    """The driver supports live migration, so a move is announced as a freeze."""


class MoveVm(Command, frozen=True, kw_only=True, tag="move-vm"):
    """Move a VM to a host after notice, if the driver can; else record its host."""

    vm: str
    host: str
    record: bool = False
    """Only record the host: the machine was moved by other means."""
    not_before: Instant | None = None
    duration: int | None = None
    description: str | None = None
    can_move: bool = False
    """The driver can move a guest to a given host."""
    live: bool = False
    """The driver supports live migration, so a move is announced as a freeze."""


class ReclaimSpot(Command, frozen=True, kw_only=True, tag="reclaim-spot"):
    """Evict a number of spot VMs, or all spot VMs of a host, distributed fairly over the groups."""

    count: int | None = None
    host: str | None = None


class ScaleIn(Command, frozen=True, kw_only=True, tag="scale-in"):
    """Delete a number of VMs of a scale set, so that the remaining ones stay spread evenly."""

    group: str
    count: int


class StartVm(Command, frozen=True, kw_only=True, tag="start-vm"):
    """Start a deallocated VM."""

    vm: str
    can_switch: bool = False
    """The driver starts and stops VMs."""


class DeallocateVm(Command, frozen=True, kw_only=True, tag="deallocate-vm"):
    """Deallocate a VM at once; nothing is announced."""

    vm: str
    can_switch: bool = False
    """The driver starts and stops VMs."""


class Postponement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to postpone an event."""

    event: str
    seconds: int
    reason: str = ""


class Approve(Command, frozen=True, kw_only=True, tag="approve"):
    """Approve or postpone events, all or nothing."""

    events: tuple[str, ...] = ()
    postponements: tuple[Postponement, ...] = ()


class CancelEvent(Command, frozen=True, kw_only=True, tag="cancel-event"):
    """Cancel an event that has not started."""

    event: str


class CreateToken(Command, frozen=True, kw_only=True, tag="create-token"):
    """Create a token; only the hash of its secret is stored."""

    token: Token
    replaces: str = ""
    """The id of the token that it replaces, which becomes invalid."""


class RevokeToken(Command, frozen=True, kw_only=True, tag="revoke-token"):
    """Revoke a token."""

    token: str


class SetSubscription(Command, frozen=True, kw_only=True, tag="set-subscription"):
    """Create or change a subscription."""

    subscription: Subscription


class RemoveSubscription(Command, frozen=True, kw_only=True, tag="remove-subscription"):
    """Remove a subscription."""

    subscription: str


class RecordTest(Command, frozen=True, kw_only=True, tag="record-test"):
    """Record that a test notification was sent; nothing else changes."""

    subscription: str


class RecordDelivered(Command, frozen=True, kw_only=True, tag="record-delivered"):
    """Record delivery progress of subscriptions."""

    revisions: dict[str, int]


class Enrol(Command, frozen=True, kw_only=True, tag="enrol"):
    """Switch a group on after a request of one of its VMs."""

    group: str
    vm: str


class RecordAsked(Command, frozen=True, kw_only=True, tag="record-asked"):
    """Record requests of VMs."""

    marks: tuple[Mark, ...]


class SwitchOff(Command, frozen=True, kw_only=True, tag="switch-off"):
    """Switch off the groups without a request since their mark for long enough."""

    marks: tuple[Mark, ...]


class RecordFetched(Command, frozen=True, kw_only=True, tag="record-fetched"):
    """Record that VMs fetched events."""

    fetches: tuple[Fetch, ...]


class CheckDeadlines(Command, frozen=True, kw_only=True, tag="wake"):
    """Start events that are due."""

    events: tuple[str, ...]


class RecordAttempt(Command, frozen=True, kw_only=True, tag="attempt"):
    """Record that the driver is about to be called for an event."""

    event: str
    term: int = 0
    node: str = ""
    driver: str = ""


class ImpactResult(StrEnum):
    """How an impact ended."""

    DONE = "done"
    FAILED = "failed"


class ReportImpact(Command, frozen=True, kw_only=True, tag="report"):
    """Report the result of an impact."""

    event: str
    result: ImpactResult
    detail: str = ""
    hosts: dict[str, str] = {}
    """The new host of each moved VM."""


class ReportPowerSwitch(Command, frozen=True, kw_only=True, tag="report-switch"):
    """Report whether the driver started or stopped a VM."""

    vm: str
    asked: str
    """The id of the request."""
    result: ImpactResult
    detail: str = ""


class RecordClockStep(Command, frozen=True, kw_only=True, tag="record-clock-step"):
    """Record a step of the wall clock."""

    expected: Instant


class RecordObservation(Command, frozen=True, kw_only=True, tag="observe", rename={"observation": "sighting"}):
    """Record an observation of the driver: a change of a machine that Forewarn did not cause."""

    observation: Observation
