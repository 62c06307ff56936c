"""What can be asked of the fleet. Every cause, be it operator, VM, deadline or driver, becomes one of these.

A command carries an id, drawn at the edge or derived there from an Idempotency-Key, which is the seed of the ids of
its events; the rules themselves draw nothing.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from forewarn.core.facts import Fetch, Mark, RecordedRequest
from forewarn.core.model import (
    ApprovalRule,
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
    """One thing that is asked."""

    id: str
    by: Caller
    request: RecordedRequest | None = None
    """What asked for it, where that is to be recorded."""


class ChangeFleet(Command, frozen=True, kw_only=True, tag="change-fleet"):
    """Declare hosts, groups and VMs that are new or different, and remove others. All or nothing."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    cancel_events: bool = False
    """Cancel what is Scheduled for VMs that are removed, instead of refusing."""
    seen: int | None = None
    """The fleet's number of changes that a difference was computed from; refused when it is out of date."""


class ApplyDeclaration(Command, frozen=True, kw_only=True, tag="apply-declaration"):
    """Apply a fleet file, given as its difference to the declaration last applied."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    seen: int
    """The revision of the declaration that the difference was computed from; refused when it is out of date."""
    digest: str = ""
    """The SHA-256 of the file's bytes, by which an unchanged file is recognised."""
    source: str = ""
    """The file, as the operator named it."""
    exact: bool = False
    """Make the fleet equal to the file, whatever was changed at run time."""
    cancel_events: bool = False
    """Cancel what is Scheduled for VMs that leave their place, instead of refusing."""
    yes: bool = False
    """Carry out the removals that were held because they were too many."""
    is_start: bool = False
    """Never refuse: hold what an event is in the way of, and leave out what the fleet has no room for."""


class SetGroup(Command, frozen=True, kw_only=True, tag="set-group"):
    """Change a group's terms; what is left out stays."""

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
    """What can be done to one VM with an event."""

    RESTART = "restart"
    REDEPLOY = "redeploy"
    FREEZE = "freeze"
    EVICT = "evict"
    DELETE = "delete"


class HostOperation(StrEnum):
    """What can be done to all VMs of a host with events."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    DEGRADE = "degrade"
    FAIL = "fail"


class OperateVm(Command, frozen=True, kw_only=True, tag="operate-vm"):
    """Announce an operation on one VM, or begin it where no notice is owed."""

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
    """The driver can move its guests live, so a redeploy is felt as a freeze."""


class RepairHost(Command, frozen=True, kw_only=True, tag="repair-host"):
    """Tell that a host that was expected to fail, or has failed, works again."""

    host: str


class CordonHost(Command, frozen=True, kw_only=True, tag="cordon-host"):
    """Let a host receive no VMs any more, or again; the end of a cordon cancels what a drain has Scheduled."""

    host: str
    is_cordoned: bool


class DrainHost(Command, frozen=True, kw_only=True, tag="drain-host"):
    """Cordon a host and move its VMs away, as planned: one event per group and update domain."""

    host: str
    placements: dict[str, str]
    """The host that each VM is to be moved to."""
    left: dict[str, str] = {}
    """The running VMs that stay, and why each cannot go."""
    cold: tuple[str, ...] = ()
    """The VMs that cannot be moved while they run."""
    not_before: Instant | None = None
    duration: int | None = None
    description: str | None = None
    live: bool = False
    """The driver can move its guests live, so a move is felt as a freeze."""


class MoveVm(Command, frozen=True, kw_only=True, tag="move-vm"):
    """Move a VM to a host, after notice, where the driver can; else record that it stands there."""

    vm: str
    host: str
    record: bool = False
    """Only record it: somebody else has moved the machine."""
    not_before: Instant | None = None
    duration: int | None = None
    description: str | None = None
    can_move: bool = False
    """The driver can move a guest to a host that is named."""
    live: bool = False
    """The driver can move its guests live, so a move is felt as a freeze."""


class ReclaimSpot(Command, frozen=True, kw_only=True, tag="reclaim-spot"):
    """Evict as many spot VMs, or all spot VMs of a host; the groups share the loss fairly."""

    count: int | None = None
    host: str | None = None


class ScaleIn(Command, frozen=True, kw_only=True, tag="scale-in"):
    """Delete as many VMs of a scale set, so that the rest stays spread evenly."""

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
    """A wish for more time."""

    event: str
    seconds: int
    reason: str = ""


class Approve(Command, frozen=True, kw_only=True, tag="approve"):
    """Let events start before their time, or ask for more time. All of it is good, or nothing happens."""

    events: tuple[str, ...] = ()
    postponements: tuple[Postponement, ...] = ()


class CancelEvent(Command, frozen=True, kw_only=True, tag="cancel-event"):
    """Take back an event that has not started."""

    event: str


class CreateToken(Command, frozen=True, kw_only=True, tag="create-token"):
    """Let somebody in who shows the secret that this is the hash of."""

    token: Token
    replaces: str = ""
    """The id of the token that it takes the place of, and which opens nothing any more."""


class RevokeToken(Command, frozen=True, kw_only=True, tag="revoke-token"):
    """Let a token open nothing any more."""

    token: str


class SetSubscription(Command, frozen=True, kw_only=True, tag="set-subscription"):
    """Tell somebody outside what happens from now on, or tell them otherwise than before."""

    subscription: Subscription


class RemoveSubscription(Command, frozen=True, kw_only=True, tag="remove-subscription"):
    """Tell somebody nothing any more."""

    subscription: str


class RecordTest(Command, frozen=True, kw_only=True, tag="record-test"):
    """Record that somebody outside was sent a test; nothing else changes."""

    subscription: str


class RecordDelivered(Command, frozen=True, kw_only=True, tag="record-delivered"):
    """Record how far subscribers have been told."""

    revisions: dict[str, int]


class Enrol(Command, frozen=True, kw_only=True, tag="enrol"):
    """Switch a group on, because one of its VMs asked."""

    group: str
    vm: str


class RecordAsked(Command, frozen=True, kw_only=True, tag="record-asked"):
    """Record that VMs asked."""

    marks: tuple[Mark, ...]


class SwitchOff(Command, frozen=True, kw_only=True, tag="switch-off"):
    """Switch off those of these groups that nobody asked for since their mark for long enough."""

    marks: tuple[Mark, ...]


class RecordFetched(Command, frozen=True, kw_only=True, tag="record-fetched"):
    """Record that VMs were shown events."""

    fetches: tuple[Fetch, ...]


class CheckDeadlines(Command, frozen=True, kw_only=True, tag="wake"):
    """The time of these events has come."""

    events: tuple[str, ...]


class RecordAttempt(Command, frozen=True, kw_only=True, tag="attempt"):
    """The driver will be called for this event."""

    event: str


class ImpactResult(StrEnum):
    """How an impact ended."""

    DONE = "done"
    FAILED = "failed"


class ReportImpact(Command, frozen=True, kw_only=True, tag="report"):
    """The driver told how an impact ended."""

    event: str
    result: ImpactResult
    detail: str = ""
    hosts: dict[str, str] = {}
    """Where VMs stand now, for those that moved."""


class ReportPowerSwitch(Command, frozen=True, kw_only=True, tag="report-switch"):
    """The driver told whether it started or stopped a VM."""

    vm: str
    asked: str
    """The id of the request that it was asked for."""
    result: ImpactResult
    detail: str = ""


class RecordClockStep(Command, frozen=True, kw_only=True, tag="record-clock-step"):
    """Record that the wall clock shows another time than was expected."""

    expected: Instant


class RecordObservation(Command, frozen=True, kw_only=True, tag="observe", rename={"observation": "sighting"}):
    """The driver saw something happen to a machine that nobody had asked it for."""

    observation: Observation
