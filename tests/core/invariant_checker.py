"""A witness of everything that happens to a fleet, who remembers it apart from the fleet itself.

It keeps a mirror of the fleet that knows the facts only from their encoded form, as a journal would give them back,
and its own memory of approvals, woken events and documents. The invariants are checked against that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from forewarn.core.chunks import FleetChunk
from forewarn.core.commands import Approve, CheckDeadlines, Command
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Asked,
    Enrolled,
    Entry,
    FleetChanged,
    HostCordonSet,
    HostStateSet,
    Postponed,
    StartedAtOnce,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind, Event, EventStatus, GroupTerms, Vm
from forewarn.core.notice import Rules

_PARTS = msgspec.msgpack.Decoder(list[FleetChunk])
_ENTRY_JSON = msgspec.json.Decoder(Entry)
_ENTRY_PACKED = msgspec.msgpack.Decoder(Entry)


def packed(fleet: Fleet) -> bytes:
    """Return all that the fleet is, for comparison."""
    return msgspec.msgpack.encode(list(fleet.parts()))


def copy_of(fleet: Fleet) -> Fleet:
    """Return an equal fleet that shares nothing with the given one, as a snapshot would."""
    return Fleet.restore(_PARTS.decode(packed(fleet)))


def derived(fleet: Fleet) -> tuple[object, ...]:
    """Return what the fleet derives from its records; where order means nothing, it is sorted."""
    hosts = {vm.standing_on for vm in fleet.vms.values() if vm.standing_on} | set(fleet.hosts)
    return (
        {address: fleet.addresses[address] for address in sorted(fleet.addresses)},
        {host: sorted(fleet.vms_on(host)) for host in sorted(hosts)},
        {group: [event.id for event in fleet.events_of(group)] for group in sorted(fleet.groups)},
        fleet.user_operations,
    )


def shown(fleet: Fleet, group: str) -> tuple[tuple[object, ...], ...]:
    """Return what the newest api-version shows of the group's events."""
    return tuple(
        (
            event.id,
            event.status,
            event.type,
            event.resources,
            "" if event.status is EventStatus.STARTED else event.not_before,
            event.description,
            event.source,
            event.duration,
        )
        for event in fleet.events_of(group)
    )


@dataclass
class FleetSnapshot:
    """The fleet as it was at one moment."""

    events: dict[str, Event]
    vms: dict[str, Vm]
    terms: dict[str, GroupTerms]
    incarnations: dict[str, int]
    enrolled: set[str]
    documents: dict[str, tuple[tuple[object, ...], ...]]

    @classmethod
    def of(cls, fleet: Fleet) -> "FleetSnapshot":
        return cls(
            events=dict(fleet.events),
            vms=dict(fleet.vms),
            terms={name: group.terms for name, group in fleet.groups.items()},
            incarnations={name: group.incarnation for name, group in fleet.groups.items()},
            enrolled={name for name, group in fleet.groups.items() if group.enrolled_at},
            documents={name: shown(fleet, name) for name in fleet.groups},
        )


@dataclass
class Memory:
    """What the witness remembers, gathered without asking the fleet's rules."""

    hurry: float = 1.0
    rules: Rules = field(default_factory=Rules)
    births: dict[str, Event] = field(default_factory=dict)
    domains: dict[str, tuple[set[int], set[int]]] = field(default_factory=dict)
    """The update and fault domains of an event's VMs when it was announced."""
    ended: set[str] = field(default_factory=set)
    approvals: dict[str, set[str]] = field(default_factory=dict)
    """The VMs whose approval counted when it was given."""
    by_operator: set[str] = field(default_factory=set)
    woken: set[str] = field(default_factory=set)
    """The events that were due when they were woken."""
    incarnations: dict[str, int] = field(default_factory=dict)
    documents: dict[tuple[str, int], object] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    failed_hosts: set[str] = field(default_factory=set)
    cordoned: set[str] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)
    """The highest incarnation that a VM of each name may have seen, also of those that are gone."""
    entries: list[Entry] = field(default_factory=list)

    def take_in(self, moment: "Moment") -> None:
        """Remember one fact."""
        match moment.fact:
            case Announced(event=event) | StartedAtOnce(event=event):
                self.births[event.id] = event
                vms = [moment.before.vms[name] for name in event.resources]
                self.domains[event.id] = {vm.update_domain for vm in vms}, {vm.fault_domain for vm in vms}
            case Approved(event=id_, by=by):
                if by.kind is not CallerKind.VM:
                    self.by_operator.add(id_)
                elif self._counts(moment.before, id_, by.name):
                    self.approvals.setdefault(id_, set()).add(by.name)
            case Postponed(event=id_):
                self.woken.discard(id_)
            case HostStateSet(host=host, state=state):
                (self.failed_hosts.add if state == "failed" else self.failed_hosts.discard)(host)
            case FleetChanged(removed_hosts=gone):
                self.failed_hosts -= set(gone)
                self.cordoned -= set(gone)
            case HostCordonSet(host=host, is_cordoned=is_cordoned):
                (self.cordoned.add if is_cordoned else self.cordoned.discard)(host)
            case Enrolled(group=group, at=at):
                self.asked[group] = at
            case Asked(marks=marks):
                self.asked |= {mark.group: mark.at for mark in marks}
        self.ended |= moment.before.events.keys() - moment.after.events.keys()
        for group, incarnation in moment.after.incarnations.items():
            self.incarnations[group] = incarnation
            self.documents[group, incarnation] = moment.after.documents[group]

    def look_with_every_vm(self, sight: FleetSnapshot) -> None:
        """Remember what each VM sees now."""
        self.seen |= {vm.name: sight.incarnations[vm.group] for vm in sight.vms.values()}

    def take_in_command(self, command: Command, before: FleetSnapshot, now: datetime) -> None:
        """Remember what the command said beyond its facts."""
        match command:
            case CheckDeadlines(events=events):
                due = (before.events[id_] for id_ in events if id_ in before.events)
                self.woken |= {event.id for event in due if event.not_before <= now}

    def _counts(self, before: FleetSnapshot, id_: str, vm: str) -> bool:
        event = before.events[id_]
        return before.terms[event.group].approval != "all" or vm in event.vms

    def is_approved(self, event: Event, sight: FleetSnapshot) -> bool:
        """Tell by the words of the rules whether the approval rule of the event is satisfied."""
        given = self.approvals.get(event.id, set())
        if event.id in self.by_operator:
            return True
        terms = sight.terms[event.group]
        running = [vm for vm in sight.vms.values() if vm.group == event.group and not vm.deallocated]
        if not running and terms.policy.approve_all_down:
            return True
        if terms.approval == "any":
            return bool(given)
        if terms.approval == "quorum":
            return bool(given) and len(given) >= min(terms.policy.quorum, len(running))
        there = {name for name in event.vms if not sight.vms[name].deallocated}
        return bool(there) and there <= given

    def is_ready(self, event: Event, sight: FleetSnapshot) -> bool:
        """Return whether an event may start and somebody noticed."""
        return bool(event.without_notice) or event.id in self.woken or self.is_approved(event, sight)


@dataclass
class Moment:
    """One fact, with the fleet just before and just after it."""

    fact: AnyFact
    now: datetime
    command: Command | None
    """None where only the journal is known."""
    before: FleetSnapshot
    after: FleetSnapshot
    memory: Memory


@dataclass
class Step:
    """One command and what came of it."""

    command: Command
    now: datetime
    before: FleetSnapshot
    before_packed: bytes
    facts: tuple[AnyFact, ...] | None
    """None when it was refused."""
    fleet: Fleet
    after: FleetSnapshot
    mirror: Fleet
    memory: Memory


OfFact = Callable[[Moment], None]
OfStep = Callable[[Step], None]


class InvariantChecker:
    """Watches a fleet and checks every invariant after every fact and every step."""

    def __init__(self, of_facts: list[OfFact], of_steps: list[OfStep], rules: Rules, hurry: float) -> None:
        self.memory = Memory(hurry, rules)
        self._mirror = Fleet()
        self._of_facts = of_facts
        self._of_steps = of_steps

    def see(
        self,
        command: Command,
        now: datetime,
        before: bytes,
        facts: tuple[AnyFact, ...] | None,
        fleet: Fleet,
    ) -> None:
        """Take in one step, and check it."""
        started_from = FleetSnapshot.of(self._mirror)
        self.memory.take_in_command(command, started_from, now)
        if facts:
            self._see_facts(Entry(len(self.memory.entries) + 1, now, command.id, command.by, facts), command)
        self._mirror.last_at = fleet.last_at
        step = Step(
            command, now, started_from, before, facts, fleet, FleetSnapshot.of(fleet), self._mirror, self.memory
        )
        for of_step in self._of_steps:
            of_step(step)
        self.memory.look_with_every_vm(step.after)

    def see_entry(self, entry: Entry) -> None:
        """Take in the next entry of a journal, which does not hold the command itself, and check its facts."""
        self._see_facts(entry, None)
        self._mirror.last_at = entry.at

    def _see_facts(self, entry: Entry, command: Command | None) -> None:
        for moment in self._moments(entry, command):
            for check in self._of_facts:
                check(moment)
            self.memory.take_in(moment)

    def _moments(self, entry: Entry, command: Command | None) -> Iterator[Moment]:
        self.memory.entries.append(entry)
        by_json = _ENTRY_JSON.decode(msgspec.json.encode(entry))
        assert by_json == entry == _ENTRY_PACKED.decode(msgspec.msgpack.encode(entry))
        sight = FleetSnapshot.of(self._mirror)
        for fact in by_json.facts:
            self._mirror.evolve(fact)
            after = FleetSnapshot.of(self._mirror)
            yield Moment(fact, entry.at, command, sight, after, self.memory)
            sight = after

    def refolded(self) -> Fleet:
        """Return the fleet that the journal alone would give."""
        fleet = Fleet()
        for entry in self.memory.entries:
            fleet.enter(_ENTRY_PACKED.decode(msgspec.msgpack.encode(entry)))
        return fleet


MINIMUM_NOTICE = {
    "freeze": timedelta(minutes=15),
    "reboot": timedelta(minutes=15),
    "redeploy": timedelta(minutes=10),
    "preempt": timedelta(seconds=30),
}


def foreign_ids(command: Approve, sight: FleetSnapshot) -> list[str]:
    """Return the ids that the caller must not know of."""
    vm = sight.vms.get(command.by.name)
    return [
        id_
        for id_ in command.events
        if id_ not in sight.events
        or (command.by.kind is CallerKind.VM and (vm is None or vm.group != sight.events[id_].group))
    ]
