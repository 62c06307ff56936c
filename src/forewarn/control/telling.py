"""A fact as whoever listens is told of it: what it may know, in its own words, without secrets."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from forewarn.control.access import Action, Bearer
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    Canceled,
    Completed,
    Delivered,
    Enrolled,
    Entry,
    Failed,
    Fetched,
    FleetChanged,
    GroupSet,
    Observed,
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
)
from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit

_ENDS = Completed | Failed | Canceled

Message = tuple[tuple[int, int], bytes]
"""The revision and number of a fact, and what is sent."""


class Teller:
    """Puts facts into messages; it knows which group every unfinished event belongs to."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}

    def load(self, fleet: Fleet) -> None:
        self._groups = {event.id: event.group for event in fleet.events.values()}

    def follow(self, commit: Commit) -> None:
        """Take in which events came and went, after all were told."""
        for entry in commit.entries:
            for fact in entry.facts:
                if isinstance(fact, Announced | StartedAtOnce):
                    self._groups[fact.event.id] = fact.event.group
        for entry in commit.entries:
            for fact in entry.facts:
                if isinstance(fact, _ENDS):
                    self._groups.pop(fact.event, None)

    def messages(
        self, entries: Iterable[Entry], bearer: Bearer, fleet: Fleet, groups: Mapping[str, str] | None = None
    ) -> Iterator[Message]:
        """Yield what a bearer is told; ``groups`` are those of events that ended in the past."""
        born: dict[str, str] = dict(groups or {})
        for entry in entries:
            for number, fact in enumerate(entry.facts):
                if isinstance(fact, Announced | StartedAtOnce):
                    born[fact.event.id] = fact.event.group
                told = self._told(fact, entry, bearer, fleet, born)
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
                if isinstance(fact, Announced | StartedAtOnce) and fact.event.id == id_:
                    return fact.event.group
        return ""

    def _told(
        self, fact: AnyFact, entry: Entry, bearer: Bearer, fleet: Fleet, born: Mapping[str, str]
    ) -> object | None:
        match fact:
            case TokenCreated() | TokenRevoked() if not bearer.may(Action.KEEP_TOKENS):
                return None
            case SubscriptionSet() | SubscriptionRemoved() | Delivered() if not bearer.may(Action.KEEP_SUBSCRIPTIONS):
                return None
            case TokenCreated(token=token):
                return replace(fact, token=replace(token, hash=""))
            case SubscriptionSet(subscription=subscription):
                return replace(fact, subscription=replace(subscription, secret=""))
            case FleetChanged():
                return _counted(fact, bearer)
            case _ if bearer.sees_all:
                return fact
            case Asked(marks=marks):
                seen = tuple(mark for mark in marks if bearer.sees(mark.group))
                return Asked(seen) if seen else None
            case Fetched(fetches=fetches):
                own = tuple(each for each in fetches if bearer.sees(self._group(each.event, born)))
                return Fetched(own) if own else None
            case _:
                return fact if bearer.sees(self._group_of(fact, entry, fleet, born)) else None

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
            case VmRemoved(vm=name) | VmDeallocated(vm=name) | VmStarted(vm=name) | VmMoved(vm=name):
                if vm := fleet.vms.get(name):
                    return vm.group
                # A VM goes in the entry that completes what took it away.
                ends = (each.event for each in entry.facts if isinstance(each, _ENDS))
                return next((self._group(id_, born) for id_ in ends), "")
            case Observed(sighting=sighting):
                return fleet.vms[sighting.vm].group if sighting.vm in fleet.vms else ""
            case _:
                return self._group(self.event_of(fact), born)


def _counted(fact: FleetChanged, bearer: Bearer) -> object | None:
    """Say how much was declared and removed: a declaration may hold a million VMs, and is read elsewhere."""
    if bearer.sees_all:
        counts = {key: len(getattr(fact, key)) for key in fact.__struct_fields__}
    else:
        counts = {
            "groups": sum(bearer.sees(terms.name) for terms in fact.groups),
            "vms": sum(bearer.sees(vm.group) for vm in fact.vms),
            "removed_groups": sum(bearer.sees(name) for name in fact.removed_groups),
        }
    counts = {key: count for key, count in counts.items() if count}
    return {"fact": "fleet-changed", **counts} if counts else None


def _message(entry: Entry, number: int, fact: AnyFact, told: object) -> bytes:
    data = {
        "revision": entry.revision,
        "at": entry.at,
        "operation": entry.command,
        "by": entry.by,
        "fact": told,
    }
    kind = str(type(fact).__struct_config__.tag).encode()
    return b"id: %d.%d\nevent: %s\ndata: %s\n\n" % (entry.revision, number, kind, msgspec.json.encode(data))
