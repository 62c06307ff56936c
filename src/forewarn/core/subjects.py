"""What an entry of the journal is about: the keys under which history finds it again."""

from collections.abc import Iterator

from forewarn.core import lifecycle
from forewarn.core.credentials import Subscription, Token
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    ChangesHeld,
    ClockStepped,
    Delivered,
    Enrolled,
    Entry,
    EventEnded,
    Fetched,
    FleetChanged,
    FleetDeclared,
    GroupSet,
    HostCordonSet,
    HostStateSet,
    IncarnationsRaised,
    ObservationRecorded,
    StartedAtOnce,
    SubscriptionRemoved,
    SubscriptionSet,
    SwitchedOff,
    TokenCreated,
    TokenRevoked,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
)
from forewarn.core.model import CallerKind, Event, Observation

FINISHED = "finished"
"""The subject of every entry that ends an event."""
CLOCK = "clock"
"""The subject of every entry that tells of a step of the clock."""


def subjects_of(entry: Entry) -> set[str]:
    """Return the keys of an entry. An event's later facts are found by the event, those who read it know its VMs."""
    subjects = {f"command:{entry.command}"}
    if entry.by.kind is not CallerKind.NODE:
        subjects.add(f"caller:{entry.by.name}")
    for fact in entry.facts:
        subjects.update(_subjects(fact))
    return subjects


def _subjects(fact: AnyFact) -> Iterator[str]:
    match fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            yield from _event_subjects(event)
        case VmRemoved(vm=vm, group=group):
            yield f"vm:{vm}"
            if group:
                yield f"group:{group}"
        case (
            VmDeallocated(vm=vm)
            | VmStarted(vm=vm)
            | VmSwitched(vm=vm)
            | ObservationRecorded(observation=Observation(vm=vm))
        ):
            yield f"vm:{vm}"
        case VmMoved(vm=vm, host=host):
            yield f"vm:{vm}"
            yield f"host:{host}"
        case HostStateSet(host=host):
            yield f"host:{host}"
        case HostCordonSet(host=host, left=left):
            yield f"host:{host}"
            yield from (f"vm:{vm}" for vm in left)
        case IncarnationsRaised(groups=groups):
            yield from (f"group:{name}" for name in groups)
        case FleetChanged() | FleetDeclared():
            yield from (f"host:{host.name}" for host in fact.hosts)
            yield from (f"host:{name}" for name in fact.removed_hosts)
            yield from (f"group:{terms.name}" for terms in fact.groups)
            yield from (f"group:{name}" for name in fact.removed_groups)
            yield from (f"vm:{vm.name}" for vm in fact.vms)
            yield from (f"vm:{name}" for name in fact.removed_vms)
            if isinstance(fact, FleetChanged):  # who joined, and who left
                yield from {f"group:{vm.group}" for vm in (*fact.vms, *fact.before_vms)}
        case ChangesHeld(changes=changes, ended=ended):
            yield from (f"{held.kind}:{held.name}" for held in changes)
            yield from (f"{each.kind}:{each.name}" for each in ended)
        case GroupSet(terms=terms):
            yield f"group:{terms.name}"
        case Enrolled(group=group) | SwitchedOff(group=group):
            yield f"group:{group}"
        case Fetched(fetches=fetches):
            yield from (f"event:{fetch.event}" for fetch in fetches)
        case ClockStepped():
            yield CLOCK
        case Asked() | Delivered():
            return  # these say less than the requests and messages themselves, and come in thousands
        case TokenCreated(token=Token(id=id_)) | TokenRevoked(token=id_):
            yield f"token:{id_}"
        case SubscriptionSet(subscription=Subscription(id=id_)) | SubscriptionRemoved(subscription=id_):
            yield f"subscription:{id_}"
        case _ if isinstance(fact, EventEnded):
            yield f"event:{fact.event}"
            yield FINISHED
        case _:
            yield f"event:{lifecycle.event_of(fact)}"


def _event_subjects(event: Event) -> Iterator[str]:
    yield f"event:{event.id}"
    yield f"group:{event.group}"
    if event.host:
        yield f"host:{event.host}"
    yield from (f"vm:{name}" for name in event.resources)
