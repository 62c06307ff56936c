"""Facts: what has happened. The journal holds them in order; the fleet is their fold.

The form of a released fact never changes. New fields have defaults; a new meaning is a new fact.

``isinstance`` and ``match`` take long to find that a record is not of a class: 0.3 µs each, because the class of
msgspec's classes is not ``type``. Where each fact of each command is looked at, the most frequent facts are compared
by ``type`` first; they are final, so that the type checker follows.
"""

from datetime import datetime
from typing import final

import msgspec

from forewarn.core.declared_keys import DeclarationConflict, HeldChange, RecordName, ReplacedValue
from forewarn.core.fact import Fact
from forewarn.core.model import (
    CANCELED_BY,
    BulkOperation,
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
from forewarn.core.rollouts.facts import RolloutFact


class EventStep(Fact, frozen=True, kw_only=True):
    """A fact about an existing event; it contains the event's id."""

    group: str = ""
    """The event's group; only in the journal, and not recorded by earlier releases."""


class FleetChanged(Fact, frozen=True, tag="fleet-changed"):
    """The fleet was changed: records that are new or different, and names that were removed."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    at_run_time: bool = False
    """Whether it came from a command for single records, not from a fleet file."""
    before_groups: tuple[GroupTerms, ...] = ()
    """The changed or removed groups before the change."""
    before_vms: tuple[Vm, ...] = ()
    """The changed or removed VMs before the change."""
    before_hosts: tuple[Host, ...] = ()
    """The changed or removed hosts before the change."""

    def counts(self) -> dict[str, int]:
        """Return the number of records of each kind."""
        return _counts(self)


class FleetDeclared(Fact, frozen=True, tag="fleet-declared"):
    """A fleet file was applied: its difference to the previous file; for the first file, to the fleet."""

    revision: int
    """The number of the declaration."""
    digest: str = ""
    """The SHA-256 of the file; empty if an entry was left out."""
    source: str = ""
    """The path of the file as given."""
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()
    """Run-time values that the file replaced."""
    left_out: tuple[DeclarationConflict, ...] = ()
    """Entries that conflicted with the fleet; they are not part of the declaration."""

    def counts(self) -> dict[str, int]:
        """Return the number of records of each kind."""
        return _counts(self)


class ChangesHeld(Fact, frozen=True, tag="changes-held"):
    """Changes of the fleet file are held, or no longer held."""

    changes: tuple[HeldChange, ...] = ()
    ended: tuple[RecordName, ...] = ()
    """Records without a held change any more: it was carried out, or is no longer in the file."""


class GroupSet(Fact, frozen=True, tag="group-set"):
    """The terms of a group changed."""

    terms: GroupTerms
    before: GroupTerms | None = None
    """The terms before."""


class Enrolled(Fact, frozen=True, tag="enrolled"):
    """A group was switched on by the first request of one of its VMs."""

    group: str
    at: datetime
    by: str


class SwitchedOff(Fact, frozen=True, tag="switched-off"):
    """A group was switched off after a long time without a request."""

    group: str
    at: datetime


class Mark(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A request of a VM of a group."""

    group: str
    at: datetime
    by: str


class Asked(Fact, frozen=True, tag="asked"):
    """VMs of these groups sent requests; recorded rarely and in batches."""

    marks: tuple[Mark, ...]


class Fetch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The first fetch of an event by a VM."""

    event: str
    vm: str
    at: datetime


class Fetched(Fact, frozen=True, tag="fetched"):
    """VMs fetched these events for the first time; recorded in batches."""

    fetches: tuple[Fetch, ...]


@final
class Announced(Fact, frozen=True, tag="announced"):
    """An event was Scheduled; its VMs can see it and prepare."""

    event: Event


@final
class StartedAtOnce(Fact, frozen=True, tag="started-at-once"):
    """An event was created Started; ``event.without_notice`` says why no notice was required."""

    event: Event


@final
class Approved(EventStep, frozen=True, tag="approved"):
    """A VM, or an operator for the VMs, approved the event."""

    event: str
    at: datetime
    by: Caller
    counts: bool = True


class Waiting(EventStep, frozen=True, tag="waiting"):
    """An event is ready, but must wait until another one has ended."""

    event: str
    at: datetime
    behind: str
    """Empty if the approvals are no longer enough, so that it waits for NotBefore only."""
    until: datetime | None = None
    """The end of the group's quiet hours, if it waits for that instead."""


class Postponed(EventStep, frozen=True, tag="postponed"):
    """An event was postponed by a VM or an owner, within the group's policy."""

    event: str
    at: datetime
    by: Caller
    seconds: int
    not_before: datetime
    reason: str = ""


class BroughtForward(EventStep, frozen=True, tag="brought-forward"):
    """NotBefore was moved earlier, because hardware is expected to fail earlier."""

    event: str
    at: datetime
    not_before: datetime


@final
class Started(EventStep, frozen=True, tag="started"):
    """An event has started; its impact may come at any moment."""

    event: str
    at: datetime
    because: str

    @property
    def cause(self) -> StartCause:
        # Checked first, because it is the most frequent cause, and a failed lookup in an enumeration is slow.
        is_approved = self.because.startswith(StartCause.APPROVED)
        return StartCause.APPROVED if is_approved else StartCause(self.because)


@final
class Attempted(EventStep, frozen=True, tag="attempted"):
    """The driver is about to be called."""

    event: str
    at: datetime
    term: int = 0
    """The term of the leader that calls it; 0 where one node has the journal for itself."""
    node: str = ""
    """The name of that leader."""
    driver: str = ""
    """The name of the driver; not recorded by earlier releases."""


@final
class Completed(EventStep, frozen=True, tag="completed"):
    """The impact is over."""

    event: str
    at: datetime
    detail: str = ""


class Failed(EventStep, frozen=True, tag="failed"):
    """The impact failed."""

    event: str
    at: datetime
    reason: str


@final
class Canceled(EventStep, frozen=True, tag="canceled"):
    """The event will not happen."""

    event: str
    at: datetime
    because: str

    @property
    def is_by_caller(self) -> bool:
        return self.because.startswith(CANCELED_BY)


class TokenCreated(Fact, frozen=True, tag="token-created"):
    """A token was created; only the hash of its secret is stored."""

    token: Token


class TokenRevoked(Fact, frozen=True, tag="token-revoked"):
    """A token was revoked."""

    token: str


class SubscriptionSet(Fact, frozen=True, tag="subscription-set"):
    """A subscription was created or changed."""

    subscription: Subscription


class SubscriptionRemoved(Fact, frozen=True, tag="subscription-removed"):
    """A subscription was removed."""

    subscription: str


class Selected(Fact, frozen=True, tag="selected"):
    """One command was given for several VMs, hosts or events; the facts of the entry say what it did."""

    operation: BulkOperation
    """What was to be done to each, such as ``vm restart``."""
    names: tuple[str, ...]
    """The VMs or hosts, or the ids of the events."""
    refused: dict[str, str] = msgspec.field(default_factory=dict)
    """Those to which it was not done, with the reason."""


class Delivered(Fact, frozen=True, tag="delivered"):
    """Notifications up to these revisions were delivered; recorded rarely and in batches."""

    revisions: dict[str, int]


class VmRemoved(Fact, frozen=True, tag="vm-removed"):
    """A VM was deleted or evicted for good."""

    vm: str
    because: str
    evicted_at: datetime | None = None
    """The time of its eviction, if it was evicted."""
    group: str = ""
    """The group of the VM."""


class VmDeallocated(Fact, frozen=True, tag="vm-deallocated"):
    """A VM was deallocated; it can be started again."""

    vm: str
    because: str
    evicted_at: datetime | None = None
    """The time of its eviction, if it was evicted."""
    request: str = ""
    """The id of the request to stop it; empty if the driver is not called."""


class VmStarted(Fact, frozen=True, tag="vm-started"):
    """A deallocated VM was started."""

    vm: str
    request: str = ""
    """The id of the request to start it; empty if the driver is not called."""


class VmSwitched(Fact, frozen=True, tag="vm-switched"):
    """The driver started or stopped a VM, or failed to."""

    vm: str
    request: str
    """The id of the request."""
    on: bool
    at: datetime
    detail: str = ""
    failure: str = ""
    """The reason of the failure; empty on success."""


class VmMoved(Fact, frozen=True, tag="vm-moved"):
    """The host of a VM changed."""

    vm: str
    host: str


class HostStateSet(Fact, frozen=True, tag="host-state-set"):
    """The state of a host changed: degraded, failed, or repaired."""

    host: str
    state: HostState
    at: datetime


class HostCordonSet(Fact, frozen=True, tag="host-cordon-set"):
    """A host was cordoned or uncordoned."""

    host: str
    is_cordoned: bool
    at: datetime
    left: dict[str, str] = msgspec.field(default_factory=dict)
    """Running VMs that a drain cannot move, with the reason."""
    arriving: tuple[str, ...] = ()
    """The Started events that may still move VMs there: their driver chose among hosts before the cordon."""


class IncarnationsRaised(Fact, frozen=True, tag="incarnations-raised"):
    """Incarnations were raised so that a VM that changes its group never sees a lower one than before."""

    groups: dict[str, int] = msgspec.field(default_factory=dict)
    """The new incarnation of groups that a VM joined from a group with a higher incarnation."""
    retired: int = 0
    """The highest incarnation that a removed VM may have seen; 0 if unchanged."""


class ObservationRecorded(Fact, frozen=True, tag="observed", rename={"observation": "sighting"}):
    """A change of a machine was observed that Forewarn did not cause: a crash, stop, start or move."""

    observation: Observation


class ClockStepped(Fact, frozen=True, tag="clock-stepped"):
    """The wall clock was stepped; from here on its time is used."""

    at: datetime
    """The time that it shows."""
    expected: datetime
    """The expected time, by the last fact or by elapsed time."""


EventCreated = Announced | StartedAtOnce
"""Facts that create an event; they contain the event itself."""

EventEnded = Completed | Failed | Canceled
"""Facts that end an event."""

EventChanged = Approved | Waiting | Postponed | BroughtForward | Started | Attempted | EventEnded
"""Facts about an existing event; they contain its id."""

EventFact = EventCreated | EventChanged
"""Facts about one event."""

VmFact = VmRemoved | VmDeallocated | VmStarted | VmSwitched | VmMoved
"""Facts that change one VM."""

HostFact = HostStateSet | HostCordonSet
"""Facts that change one host."""

RecordSetChanged = FleetChanged | VmRemoved
"""Facts that add and remove hosts, groups and VMs."""

RecordChanged = GroupSet | IncarnationsRaised | VmDeallocated | VmStarted | VmSwitched | VmMoved | HostFact
"""Facts that change existing records of the fleet."""

DeclarationFact = FleetDeclared | ChangesHeld
"""Facts about the fleet file only."""

FleetFact = RecordSetChanged | RecordChanged | DeclarationFact
"""Facts that change records of the fleet, or their declaration."""

EnrolmentFact = Enrolled | SwitchedOff | Asked
"""Facts about requests of VMs, which switch groups on and off."""

AccessFact = TokenCreated | TokenRevoked | SubscriptionSet | SubscriptionRemoved | Delivered
"""Facts about tokens and subscriptions."""

NonEventFact = FleetFact | EnrolmentFact | AccessFact | ObservationRecorded | RolloutFact | Selected
"""Facts that do not concern events."""

AnyFact = EventFact | Fetched | ClockStepped | NonEventFact
"""Every kind of fact. Code that reads facts matches all kinds or unions; ``assert_never`` then finds a new kind."""

_COUNTED = ("hosts", "groups", "vms", "removed_hosts", "removed_groups", "removed_vms")


def _counts(fact: FleetChanged | FleetDeclared) -> dict[str, int]:
    return {key: len(getattr(fact, key)) for key in _COUNTED}


class RecordedRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The control API request of a command. It is recorded even if it changed nothing."""

    fingerprint: str
    """A hash of method, path and body, to recognise a repetition with the same key."""
    events: tuple[str, ...] = ()
    """The events that it named."""


class Entry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A journal entry: the facts of one command."""

    revision: int
    at: datetime
    command: str
    """The id of the command."""
    by: Caller
    facts: tuple[AnyFact, ...]
    """Empty if a request changed nothing."""
    request: RecordedRequest | None = None
