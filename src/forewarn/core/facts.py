"""What has happened. The journal holds these, in order; the fleet is their fold.

A fact is never changed once it was released. New fields get defaults; a change of meaning is a new fact.
"""

from datetime import datetime

import msgspec

from forewarn.core.model import Caller, Event, GroupTerms, Host, Sighting, Vm
from forewarn.core.outsiders import Subscription, Token


class Fact(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="fact"):
    """One thing that happened."""


class FleetChanged(Fact, frozen=True, tag="fleet-changed"):
    """The operator declared another fleet: what is new or different, and the names that left it."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()


class GroupSet(Fact, frozen=True, tag="group-set"):
    """A group has other terms."""

    terms: GroupTerms


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


class Approved(Fact, frozen=True, tag="approved"):
    """A VM, or an operator in the VMs' place, said that the event may start."""

    event: str
    at: datetime
    by: Caller
    counts: bool = True


class Waiting(Fact, frozen=True, tag="waiting"):
    """An event may start, but must wait until another one has ended."""

    event: str
    at: datetime
    behind: str
    until: datetime | None = None
    """The end of the group's quiet hours, where it waits for that instead."""
    """Empty when the approvals are no longer enough, so that it waits for nothing but its time."""


class Postponed(Fact, frozen=True, tag="postponed"):
    """A VM or an owner asked for more time, and the group's policy allowed it."""

    event: str
    at: datetime
    by: Caller
    seconds: int
    not_before: datetime
    reason: str = ""


class BroughtForward(Fact, frozen=True, tag="brought-forward"):
    """Hardware is expected to fail earlier than was announced."""

    event: str
    at: datetime
    not_before: datetime


class Started(Fact, frozen=True, tag="started"):
    """An event began; its VMs may be impacted at any moment from now on."""

    event: str
    at: datetime
    because: str


class Attempted(Fact, frozen=True, tag="attempted"):
    """The driver is about to be called."""

    event: str
    at: datetime


class Completed(Fact, frozen=True, tag="completed"):
    """The impact is over."""

    event: str
    at: datetime
    detail: str = ""


class Failed(Fact, frozen=True, tag="failed"):
    """The impact did not come about as announced."""

    event: str
    at: datetime
    reason: str


class Canceled(Fact, frozen=True, tag="canceled"):
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


class VmDeallocated(Fact, frozen=True, tag="vm-deallocated"):
    """A VM gave its place back; it may be started again."""

    vm: str
    because: str


class VmStarted(Fact, frozen=True, tag="vm-started"):
    """A deallocated VM runs again."""

    vm: str


class VmMoved(Fact, frozen=True, tag="vm-moved"):
    """A VM stands on another host."""

    vm: str
    host: str


class Observed(Fact, frozen=True, tag="observed"):
    """Something happened to a machine without our doing: it crashed, or somebody stopped or restarted it."""

    sighting: Sighting


AnyFact = (
    FleetChanged
    | GroupSet
    | Enrolled
    | SwitchedOff
    | Asked
    | Fetched
    | Announced
    | StartedAtOnce
    | Approved
    | Waiting
    | Postponed
    | BroughtForward
    | Started
    | Attempted
    | Completed
    | Failed
    | Canceled
    | TokenCreated
    | TokenRevoked
    | SubscriptionSet
    | SubscriptionRemoved
    | Delivered
    | VmRemoved
    | VmDeallocated
    | VmStarted
    | VmMoved
    | Observed
)

FORMAT = 1
"""The number of the journal's format; a reader refuses what is newer than itself."""


class Entry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one command made happen, as the journal keeps it."""

    revision: int
    at: datetime
    command: str
    """The id of the command."""
    by: Caller
    facts: tuple[AnyFact, ...]
