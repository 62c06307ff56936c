"""Subjects of facts: the groups they concern, and the keys by which history finds journal entries."""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from forewarn.core.declared_keys import RecordKind
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    ChangesHeld,
    ClockStepped,
    Delivered,
    Enrolled,
    Entry,
    EventChanged,
    EventCreated,
    EventEnded,
    EventFact,
    EventStep,
    Fetched,
    FleetChanged,
    FleetDeclared,
    GroupSet,
    HostCordonSet,
    HostStateSet,
    IncarnationsRaised,
    ObservationRecorded,
    Selected,
    StartedAtOnce,
    SubscriptionRemoved,
    SubscriptionSet,
    SwitchedOff,
    TokenCreated,
    TokenRevoked,
    VmDeallocated,
    VmFact,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind, Observation, Subscription, Token
from forewarn.core.rollouts.facts import RolloutEnded, RolloutFact, RolloutHostFact, RolloutStarted
from forewarn.core.rollouts.sentences import name_of

FINISHED = "finished"
"""The subject of every entry that ends an event."""
ROLLOUTS = "rollouts"
"""The subject of every entry that begins or ends a rollout."""
CLOCK = "clock"
"""The subject of every entry with a step of the clock."""


def subject_of_event(id_: str) -> str:
    return f"event:{id_}"


def subject_of_vm(name: str) -> str:
    return f"vm:{name}"


def subject_of_host(name: str) -> str:
    return f"host:{name}"


def subject_of_group(name: str) -> str:
    return f"group:{name}"


def subject_of_rollout(name: str) -> str:
    return f"rollout:{name}"


def groups_of(fact: AnyFact) -> Iterator[str]:
    """Yield the groups that a fact names; none if it names only events, VMs or hosts."""
    match fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            yield event.group
        case EventStep(group=group) | VmRemoved(group=group) | Enrolled(group=group) | SwitchedOff(group=group) if (
            group
        ):
            yield group
        case GroupSet(terms=terms):
            yield terms.name
        case IncarnationsRaised(groups=groups):
            yield from groups
        case Asked(marks=marks):
            yield from (mark.group for mark in marks)
        case ChangesHeld(changes=changes, ended=ended):
            yield from (held.name for held in changes if held.kind is RecordKind.GROUP)
            yield from (each.name for each in ended if each.kind is RecordKind.GROUP)
        case FleetChanged() | FleetDeclared():
            yield from (terms.name for terms in fact.groups)
            yield from fact.removed_groups
            if isinstance(fact, FleetChanged):  # joined and left
                yield from dict.fromkeys(vm.group for vms in (fact.vms, fact.before_vms) for vm in vms)


def group_of(
    fact: AnyFact, entry: Entry, group_of_vm: Callable[[str], str], group_of_event: Callable[[str], str]
) -> str:
    """Return the group that a fact concerns; empty if there is none.

    ``group_of_vm`` finds the present group of a VM, ``group_of_event`` the group of an event for facts of earlier
    releases; each returns an empty name if it is unknown.
    """
    if group := next(groups_of(fact), ""):
        return group
    match fact:
        case ObservationRecorded(observation=observation):
            return group_of_vm(observation.vm)
        case _ if isinstance(fact, VmFact):
            # A VM is removed in the entry that ends its event.
            ends = (each for each in entry.facts if isinstance(each, EventEnded))
            return group_of_vm(fact.vm) or next((each.group or group_of_event(each.event) for each in ends), "")
        case _ if isinstance(fact, EventChanged):
            return group_of_event(fact.event)
        case _:
            return ""


def event_of(fact: EventFact) -> str:
    """Return the id of the event that a fact is about."""
    return fact.event.id if isinstance(fact, EventCreated) else fact.event


def event_groups(facts: Iterable[AnyFact]) -> dict[str, str]:
    """Return the groups of events by id, for facts that name both."""
    found: dict[str, str] = {}
    for fact in facts:
        if isinstance(fact, EventCreated):
            found[fact.event.id] = fact.event.group
        elif isinstance(fact, EventChanged) and fact.group:
            found[fact.event] = fact.group
    return found


def with_groups(entry: Entry, fleet: Fleet) -> Entry:
    """Return an entry with the groups that earlier releases did not record; the fleet is that before the entry."""
    if all(fact.group for fact in entry.facts if isinstance(fact, EventStep)):
        return entry
    announced = event_groups(entry.facts)

    def named(fact: AnyFact) -> AnyFact:
        if not isinstance(fact, EventChanged) or fact.group:
            return fact
        event = fleet.events.get(fact.event)
        return replace(fact, group=event.group if event else announced.get(fact.event, ""))

    return replace(entry, facts=tuple(named(fact) for fact in entry.facts))


def subjects_of(entry: Entry) -> set[str]:
    """Return the keys of an entry. Later facts of an event are found by the event's key."""
    subjects = {f"command:{entry.command}"}
    if entry.by.kind is not CallerKind.NODE:
        subjects.add(f"caller:{entry.by.name}")
    for fact in entry.facts:
        if isinstance(fact, Asked | Delivered):
            continue  # too many, and of little use in a history
        if not isinstance(fact, EventStep):
            subjects.update(subject_of_group(name) for name in groups_of(fact))
        subjects.update(_other_subjects(fact))
    return subjects


def _other_subjects(fact: AnyFact) -> Iterator[str]:
    match fact:
        case Announced(event=event) | StartedAtOnce(event=event):
            yield subject_of_event(event.id)
            if event.host:
                yield subject_of_host(event.host)
            yield from (subject_of_vm(name) for name in event.resources)
        case (
            VmRemoved(vm=vm)
            | VmDeallocated(vm=vm)
            | VmStarted(vm=vm)
            | VmSwitched(vm=vm)
            | ObservationRecorded(observation=Observation(vm=vm))
        ):
            yield subject_of_vm(vm)
        case VmMoved(vm=vm, host=host):
            yield subject_of_vm(vm)
            yield subject_of_host(host)
        case HostStateSet(host=host):
            yield subject_of_host(host)
        case HostCordonSet(host=host, left=left):
            yield subject_of_host(host)
            yield from (subject_of_vm(vm) for vm in left)
        case FleetChanged() | FleetDeclared():
            yield from (subject_of_host(host.name) for host in fact.hosts)
            yield from (subject_of_host(name) for name in fact.removed_hosts)
            yield from (subject_of_vm(vm.name) for vm in fact.vms)
            yield from (subject_of_vm(name) for name in fact.removed_vms)
        case ChangesHeld(changes=changes, ended=ended):
            yield from (f"{held.kind}:{held.name}" for held in changes)
            yield from (f"{each.kind}:{each.name}" for each in ended)
        case Fetched(fetches=fetches):
            yield from (subject_of_event(fetch.event) for fetch in fetches)
        case ClockStepped():
            yield CLOCK
        case _ if isinstance(fact, RolloutFact):
            yield subject_of_rollout(name_of(fact))
            if isinstance(fact, RolloutStarted | RolloutEnded):
                yield ROLLOUTS
            if isinstance(fact, RolloutHostFact):
                yield subject_of_host(fact.host)
        case Selected(operation=operation, refused=refused):  # the other names are in the facts beside it
            yield from (f"{operation.scope}:{name}" for name in refused)
        case GroupSet() | Enrolled() | SwitchedOff() | IncarnationsRaised() | Asked() | Delivered():
            return  # they concern groups only, or are not indexed
        case TokenCreated(token=Token(id=id_)) | TokenRevoked(token=id_):
            yield f"token:{id_}"
        case SubscriptionSet(subscription=Subscription(id=id_)) | SubscriptionRemoved(subscription=id_):
            yield f"subscription:{id_}"
        case _:
            yield subject_of_event(fact.event)
            if isinstance(fact, EventEnded):
                yield FINISHED
