"""A fact as whoever listens is told of it: what it may know, in its own words, without secrets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from forewarn.core import lifecycle
from forewarn.core.access import Action, Principal
from forewarn.core.declared_keys import HeldChange, RecordKind
from forewarn.core.facts import (
    AccessFact,
    Announced,
    AnyFact,
    Asked,
    ChangesHeld,
    ClockStepped,
    Delivered,
    Enrolled,
    Entry,
    EventCreated,
    EventEnded,
    Fetched,
    FleetChanged,
    FleetDeclared,
    GroupSet,
    HostFact,
    IncarnationsRaised,
    ObservationRecorded,
    StartedAtOnce,
    SubscriptionRemoved,
    SubscriptionSet,
    SwitchedOff,
    TokenCreated,
    TokenRevoked,
    VmFact,
    VmRemoved,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Vm
from forewarn.core.record_changes import changes_of_fleet, changes_of_terms
from forewarn.wire.azure_names import show_command_id
from forewarn.wire.facts import show_record

_MOST_NAMED = 100
"""How many removed VMs and changed keys a message names."""

SseMessage = tuple[tuple[int, int], bytes]
"""The revision and number of a fact, and what is sent."""


class FactSerializer:
    """Puts facts into messages; it knows which group every unfinished event belongs to."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}

    def load(self, fleet: Fleet) -> None:
        self._groups = {event.id: event.group for event in fleet.events.values()}

    def follow(self, entries: Sequence[Entry]) -> None:
        """Take in which events came and went, after all were told."""
        for entry in entries:
            for fact in entry.facts:
                if isinstance(fact, EventCreated):
                    self._groups[fact.event.id] = fact.event.group
        for entry in entries:
            for fact in entry.facts:
                if isinstance(fact, EventEnded):
                    self._groups.pop(fact.event, None)

    def messages(
        self, entries: Iterable[Entry], principal: Principal, fleet: Fleet, groups: Mapping[str, str] | None = None
    ) -> Iterator[SseMessage]:
        """Yield what a bearer is told; ``groups`` are those of events that ended in the past."""
        born: dict[str, str] = dict(groups or {})
        for entry in entries:
            for number, fact in enumerate(entry.facts):
                if isinstance(fact, EventCreated):
                    born[fact.event.id] = fact.event.group
                told = self._told(fact, entry, principal, fleet, born)
                if told is not None:
                    yield (entry.revision, number), _message(entry, number, fact, told)

    @staticmethod
    def event_of(fact: AnyFact) -> str:
        """Return the id of the event that a fact names without saying whose it is."""
        event = getattr(fact, "event", "")
        return event if isinstance(event, str) else ""

    @staticmethod
    def group_in(id_: str, entries: Iterable[Entry]) -> str:
        """Return the group of an event, as its announcement tells it."""
        for entry in entries:
            for fact in entry.facts:
                if isinstance(fact, EventCreated) and fact.event.id == id_:
                    return fact.event.group
        return ""

    def _told(
        self, fact: AnyFact, entry: Entry, principal: Principal, fleet: Fleet, born: Mapping[str, str]
    ) -> object | None:
        match fact:
            case TokenCreated() | TokenRevoked() if not principal.may(Action.KEEP_TOKENS):
                return None
            case SubscriptionSet() | SubscriptionRemoved() | Delivered() if not principal.may(
                Action.KEEP_SUBSCRIPTIONS
            ):
                return None
            case FleetChanged() | FleetDeclared():
                return _counted(fact, principal)
            case ChangesHeld(changes=changes):
                shown = tuple(each for each in changes if principal.sees(_group_of_held(each, fleet)))
                return fact if principal.sees_all else ChangesHeld(shown) if shown else None
            case _ if principal.sees_all:
                return fact
            case Asked(marks=marks):
                seen = tuple(mark for mark in marks if principal.sees(mark.group))
                return Asked(seen) if seen else None
            case IncarnationsRaised(groups=groups):
                raised = {name: incarnation for name, incarnation in groups.items() if principal.sees(name)}
                return IncarnationsRaised(raised) if raised else None
            case Fetched(fetches=fetches):
                own = tuple(each for each in fetches if principal.sees(self._group(each.event, born)))
                return Fetched(own) if own else None
            case _:
                return fact if principal.sees(self._group_of(fact, entry, fleet, born)) else None

    def _group(self, event: str, born: Mapping[str, str]) -> str:
        return born.get(event) or self._groups.get(event, "")

    def _group_of(self, fact: AnyFact, entry: Entry, fleet: Fleet, born: Mapping[str, str]) -> str:
        match fact:
            case Announced(event=event) | StartedAtOnce(event=event):
                return event.group
            case GroupSet(terms=terms):
                return terms.name
            case Enrolled(group=group) | SwitchedOff(group=group):
                return group
            case VmRemoved(group=group) if group:
                return group
            case _ if isinstance(fact, VmFact):
                if vm := fleet.vms.get(fact.vm):
                    return vm.group
                # A VM goes in the entry that completes what took it away.
                ends = (each.event for each in entry.facts if isinstance(each, EventEnded))
                return next((self._group(id_, born) for id_ in ends), "")
            case ObservationRecorded(observation=observation):
                return fleet.vms[observation.vm].group if observation.vm in fleet.vms else ""
            case FleetChanged() | FleetDeclared() | ChangesHeld() | Asked() | Fetched() | IncarnationsRaised():
                return ""  # of many groups; told apart before
            case _ if isinstance(fact, (AccessFact, HostFact, ClockStepped)):
                return ""  # of no group
            case _:
                return self._group(lifecycle.event_of(fact), born)


def _group_of_held(change: HeldChange, fleet: Fleet) -> str:
    """Return the group that a held change concerns; none for a host."""
    match change.kind:
        case RecordKind.GROUP:
            return change.name
        case RecordKind.VM if vm := fleet.vms.get(change.name):
            return vm.group
        case _:
            return ""


def _counted(fact: FleetChanged | FleetDeclared, principal: Principal) -> object | None:
    """Say how much was declared and removed, and some of what changed: all of it may be a million VMs."""
    removed = [vm.name for vm in _removed(fact) if principal.sees(vm.group)]
    if principal.sees_all:
        counts = fact.counts()
    else:
        counts = {
            "groups": sum(principal.sees(terms.name) for terms in fact.groups),
            "vms": sum(principal.sees(vm.group) for vm in fact.vms),
            "removed_groups": sum(principal.sees(name) for name in fact.removed_groups),
            "removed_vms": len(removed),
        }
    counts = {key: count for key, count in counts.items() if count}
    if not counts:
        return None
    told: dict[str, object] = {"fact": fact.__struct_config__.tag, **counts}
    if removed:
        told["removed"] = removed[:_MOST_NAMED]
    if isinstance(fact, FleetChanged) and (changed := changes_of_fleet(fact, principal.sees, _MOST_NAMED)):
        told["changed"] = changed
    return told


def _removed(fact: FleetChanged | FleetDeclared) -> Iterator[Vm]:
    """Yield the VMs that left the fleet, as they were."""
    if isinstance(fact, FleetChanged):
        gone = frozenset(fact.removed_vms)
        yield from (vm for vm in fact.before_vms if vm.name in gone)


def _message(entry: Entry, number: int, fact: AnyFact, told: object) -> bytes:
    shown = show_record(told) if isinstance(told, msgspec.Struct) else told
    if isinstance(fact, GroupSet) and isinstance(shown, dict):
        shown["changed"] = changes_of_terms(fact)
    data = {
        "revision": entry.revision,
        "at": entry.at,
        "operation": show_command_id(entry.command),
        "by": entry.by,
        "fact": shown,
    }
    kind = str(type(fact).__struct_config__.tag).encode()
    return b"id: %d.%d\nevent: %s\ndata: %s\n\n" % (entry.revision, number, kind, msgspec.json.encode(data))
