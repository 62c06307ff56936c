"""What has happened. The journal holds these, in order; the fleet is their fold.

A fact is never changed once it was released. New fields get defaults; a change of meaning is a new fact.
"""

from datetime import datetime

import msgspec

from forewarn.core.declared_keys import DeclarationConflict, HeldChange, RecordName, ReplacedValue
from forewarn.core.model import (
    Caller,
    Event,
    GroupTerms,
    Host,
    HostState,
    Observation,
    StartCause,
    Subscription,
    Token,
    Vm,
)


class Fact(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="fact"):
    """One thing that happened."""


class EventStep(Fact, frozen=True, kw_only=True):
    """One thing that happened to an event that exists; the fact holds the event's id."""

    group: str = ""
    """The event's group, in the journal alone; earlier releases did not record it."""


class FleetChanged(Fact, frozen=True, tag="fleet-changed"):
    """The operator declared another fleet: what is new or different, and the names that left it."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    at_run_time: bool = False
    """By a command for these records alone; else by a fleet file, or by a release that knew no difference."""
    before_groups: tuple[GroupTerms, ...] = ()
    """The groups that are different or removed, as they were."""
    before_vms: tuple[Vm, ...] = ()
    """The VMs that are different or removed, as they were."""

    def counts(self) -> dict[str, int]:
        """Say how many records of each kind it holds."""
        return _counts(self)


class FleetDeclared(Fact, frozen=True, tag="fleet-declared"):
    """A fleet file was applied: its difference to the one before, of the first one to the fleet as it then is."""

    revision: int
    """The number of the declaration."""
    digest: str = ""
    """The SHA-256 of the file's bytes; empty when something in it was left out."""
    source: str = ""
    """The file, as the operator named it."""
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()
    """The values from run time that the file replaced."""
    left_out: tuple[DeclarationConflict, ...] = ()
    """The entries that the fleet had no room for; they are not part of the declaration."""

    def counts(self) -> dict[str, int]:
        """Say how many records of each kind it holds."""
        return _counts(self)


class ChangesHeld(Fact, frozen=True, tag="changes-held"):
    """Changes of the fleet file wait for something, or no longer."""

    changes: tuple[HeldChange, ...] = ()
    ended: tuple[RecordName, ...] = ()
    """The records no change of which is held any more: it was carried out, or the file wants it no longer."""


class GroupSet(Fact, frozen=True, tag="group-set"):
    """A group has other terms."""

    terms: GroupTerms
    before: GroupTerms | None = None
    """The terms that it had."""


class Enrolled(Fact, frozen=True, tag="enrolled"):
    """A group was switched on by the first request of one of its VMs."""

    group: str
    at: datetime
    by: str


class SwitchedOff(Fact, frozen=True, tag="switched-off"):
    """A group was switched off, because nobody asked for long."""

    group: str
    at: datetime


class Mark(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """That a VM of a group asked."""

    group: str
    at: datetime
    by: str


class Asked(Fact, frozen=True, tag="asked"):
    """VMs of these groups asked; recorded rarely and in batches."""

    marks: tuple[Mark, ...]


class Fetch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """That a VM was shown an event for the first time."""

    event: str
    vm: str
    at: datetime


class Fetched(Fact, frozen=True, tag="fetched"):
    """VMs were shown these events for the first time; recorded in batches."""

    fetches: tuple[Fetch, ...]


class Announced(Fact, frozen=True, tag="announced"):
    """An event is Scheduled; its VMs can read it and get ready."""

    event: Event


class StartedAtOnce(Fact, frozen=True, tag="started-at-once"):
    """An event was born Started; ``event.without_notice`` says why no notice was owed."""

    event: Event


class Approved(EventStep, frozen=True, tag="approved"):
    """A VM, or an operator in the VMs' place, said that the event may start."""

    event: str
    at: datetime
    by: Caller
    counts: bool = True


class Waiting(EventStep, frozen=True, tag="waiting"):
    """An event may start, but must wait until another one has ended."""

    event: str
    at: datetime
    behind: str
    """Empty when the approvals are no longer enough, so that it waits for nothing but its time."""
    until: datetime | None = None
    """The end of the group's quiet hours, where it waits for that instead."""


class Postponed(EventStep, frozen=True, tag="postponed"):
    """A VM or an owner asked for more time, and the group's policy allowed it."""

    event: str
    at: datetime
    by: Caller
    seconds: int
    not_before: datetime
    reason: str = ""


class BroughtForward(EventStep, frozen=True, tag="brought-forward"):
    """Hardware is expected to fail earlier than was announced."""

    event: str
    at: datetime
    not_before: datetime


class Started(EventStep, frozen=True, tag="started"):
    """An event began; its VMs may be impacted at any moment from now on."""

    event: str
    at: datetime
    because: str

    @property
    def cause(self) -> StartCause:
        return StartCause(self.because)


class Attempted(EventStep, frozen=True, tag="attempted"):
    """The driver is about to be called."""

    event: str
    at: datetime


class Completed(EventStep, frozen=True, tag="completed"):
    """The impact is over."""

    event: str
    at: datetime
    detail: str = ""


class Failed(EventStep, frozen=True, tag="failed"):
    """The impact did not come about as announced."""

    event: str
    at: datetime
    reason: str


class Canceled(EventStep, frozen=True, tag="canceled"):
    """The event will not happen."""

    event: str
    at: datetime
    because: str


class TokenCreated(Fact, frozen=True, tag="token-created"):
    """A token opens the control plane; only the hash of its secret is known."""

    token: Token


class TokenRevoked(Fact, frozen=True, tag="token-revoked"):
    """A token opens nothing any more."""

    token: str


class SubscriptionSet(Fact, frozen=True, tag="subscription-set"):
    """Somebody outside is told what happens."""

    subscription: Subscription


class SubscriptionRemoved(Fact, frozen=True, tag="subscription-removed"):
    """Somebody outside is told nothing any more."""

    subscription: str


class Delivered(Fact, frozen=True, tag="delivered"):
    """Subscribers have been told of everything up to these revisions; recorded rarely and in batches."""

    revisions: dict[str, int]


class VmRemoved(Fact, frozen=True, tag="vm-removed"):
    """A VM was deleted or evicted for good."""

    vm: str
    because: str
    evicted_at: datetime | None = None
    """When it was evicted; none when it was not."""
    group: str = ""
    """The group that it was in."""


class VmDeallocated(Fact, frozen=True, tag="vm-deallocated"):
    """A VM gave its place back; it may be started again."""

    vm: str
    because: str
    evicted_at: datetime | None = None
    """When it was evicted; none when it was not."""
    request: str = ""
    """The id of the request that the driver stop it; empty where the driver is not asked."""


class VmStarted(Fact, frozen=True, tag="vm-started"):
    """A deallocated VM runs again."""

    vm: str
    request: str = ""
    """The id of the request that the driver start it; empty where the driver is not asked."""


class VmSwitched(Fact, frozen=True, tag="vm-switched"):
    """The driver has started or stopped a VM as asked, or could not."""

    vm: str
    request: str
    """The id of the request."""
    on: bool
    at: datetime
    detail: str = ""
    failure: str = ""
    """Why it could not; empty when it did."""


class VmMoved(Fact, frozen=True, tag="vm-moved"):
    """A VM stands on another host."""

    vm: str
    host: str


class HostStateSet(Fact, frozen=True, tag="host-state-set"):
    """A host is expected to fail, has failed, or was repaired."""

    host: str
    state: HostState
    at: datetime


class HostCordonSet(Fact, frozen=True, tag="host-cordon-set"):
    """A host receives no VMs any more, or again."""

    host: str
    is_cordoned: bool
    at: datetime
    left: dict[str, str] = {}
    """The running VMs that a drain leaves there, and why each cannot go."""


class IncarnationsRaised(Fact, frozen=True, tag="incarnations-raised"):
    """Incarnations were raised so that no VM sees a lower one than before, whichever group it joins."""

    groups: dict[str, int] = {}
    """The new incarnation of groups that a VM joined from a group with a higher one."""
    retired: int = 0
    """The highest incarnation that a removed VM may have seen; 0 when that is not new."""


class ObservationRecorded(Fact, frozen=True, tag="observed", rename={"observation": "sighting"}):
    """Something happened to a machine without our doing: it crashed, or somebody stopped or restarted it."""

    observation: Observation


class ClockStepped(Fact, frozen=True, tag="clock-stepped"):
    """The wall clock shows another time than was expected; from here on the time is the one that it shows."""

    at: datetime
    """What it shows."""
    expected: datetime
    """What it should show, by the last fact or by the time that has passed since."""


EventCreated = Announced | StartedAtOnce
"""The facts that begin an event; they hold the event itself."""

EventEnded = Completed | Failed | Canceled
"""The facts that end an event."""

EventChanged = Approved | Waiting | Postponed | BroughtForward | Started | Attempted | EventEnded
"""The facts about one event that exists; they hold its id."""

EventFact = EventCreated | EventChanged
"""The facts about one event."""

VmFact = VmRemoved | VmDeallocated | VmStarted | VmSwitched | VmMoved
"""The facts that change the record of one VM."""

HostFact = HostStateSet | HostCordonSet
"""The facts that change the record of one host."""

RecordSetChanged = FleetChanged | VmRemoved
"""The facts by which hosts, groups and VMs are added and removed."""

RecordChanged = GroupSet | IncarnationsRaised | VmDeallocated | VmStarted | VmSwitched | VmMoved | HostFact
"""The facts that change records of the fleet that exist."""

DeclarationFact = FleetDeclared | ChangesHeld
"""The facts about the fleet file alone."""

FleetFact = RecordSetChanged | RecordChanged | DeclarationFact
"""The facts that change the records of the fleet, or what is declared of them."""

EnrolmentFact = Enrolled | SwitchedOff | Asked
"""The facts about requests of VMs, by which groups are switched on and off."""

AccessFact = TokenCreated | TokenRevoked | SubscriptionSet | SubscriptionRemoved | Delivered
"""The facts about callers and subscribers of the control plane."""

NonEventFact = FleetFact | EnrolmentFact | AccessFact | ObservationRecorded
"""The facts that say nothing about events."""

AnyFact = EventFact | Fetched | ClockStepped | NonEventFact
"""Every kind of fact. A reader of facts matches all kinds or unions of it; ``assert_never`` then finds a new kind."""

_COUNTED = ("hosts", "groups", "vms", "removed_hosts", "removed_groups", "removed_vms")


def _counts(fact: FleetChanged | FleetDeclared) -> dict[str, int]:
    return {key: len(getattr(fact, key)) for key in _COUNTED}


FORMAT = 1
"""The number of the journal's format; a reader refuses what is newer than itself."""


class RecordedRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The request to the control API that a command came with. It is recorded even where it changed nothing."""

    fingerprint: str
    """A hash of its method, path and body, by which a repetition under its key is recognised."""
    events: tuple[str, ...] = ()
    """The events that it named."""


class Entry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one command made happen, as the journal keeps it."""

    revision: int
    at: datetime
    command: str
    """The id of the command."""
    by: Caller
    facts: tuple[AnyFact, ...]
    """None where a request changed nothing."""
    request: RecordedRequest | None = None
