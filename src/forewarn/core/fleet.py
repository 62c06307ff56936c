"""The fleet: all VMs, hosts, groups and unfinished events, as the facts so far left them.

``evolve`` is the only thing that changes a fleet. It is deterministic and total, and no fact but ``FleetChanged``
costs more than what it touches.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    Delivered,
    Enrolled,
    Entry,
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
from forewarn.core.model import Event, EventSource, EventStatus, Group, GroupKind, GroupTerms, Host, Vm
from forewarn.core.outsiders import Subscription, Token
from forewarn.core.owners import Owners
from forewarn.core.parts import Part, pieces_of
from forewarn.core.shift import Shift

DAWN = datetime(1970, 1, 1, tzinfo=UTC)


class Fleet:
    """The state that the rules decide on."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.groups: dict[str, Group] = {}
        self.vms: dict[str, Vm] = {}
        self.events: dict[str, Event] = {}
        self.addresses = Owners()
        """More than one VM has an address only where their wires tell them apart."""
        self.taps = Owners()
        self.marks = Owners()
        self.tokens: dict[str, Token] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.last_at = DAWN
        self.changes = 0
        """How often the operator declared something else."""
        self.user_operations = 0
        """How many user-initiated events are Scheduled."""
        self._retired_incarnation = 0
        self._vms_on: dict[str, tuple[str, ...]] = {}
        self._events_of: dict[str, dict[str, None]] = {}

    def events_of(self, group: str) -> list[Event]:
        """Return the group's events in the order of their announcement."""
        return [self.events[id_] for id_ in self._events_of.get(group, ())]

    def events_on(self, vm: str) -> list[Event]:
        """Return the events that concern one VM."""
        return [event for event in self.events_of(self.vms[vm].group) if vm in event.vms]

    def vms_on(self, host: str) -> tuple[str, ...]:
        """Return the names of the VMs that stand on the host."""
        return self._vms_on.get(host, ())

    def enter(self, entry: Entry) -> None:
        """Take in a whole entry of the journal."""
        for fact in entry.facts:
            self.evolve(fact)
        self.last_at = entry.at

    def evolve(self, fact: AnyFact) -> None:
        """Make the fleet what the fact made it."""
        match fact:
            case Announced(event=event) | StartedAtOnce(event=event):
                self._add_event(event)
            case Fetched(fetches=fetches):
                for fetch in fetches:
                    if fetch.event in self.events:
                        self.events[fetch.event] = lifecycle.fetched(self.events[fetch.event], fetch)
            case Asked(marks=marks):
                for mark in marks:
                    if group := self.groups.get(mark.group):
                        group.asked_at, group.asked_by = mark.at, mark.by
            case Enrolled(group=name, at=at, by=by):
                group = self.groups[name]
                group.enrolled_at = group.asked_at = at
                group.asked_by = by
            case SwitchedOff(group=name):
                self.groups[name].enrolled_at = None
            case GroupSet(terms=terms):
                self.groups[terms.name].terms = terms
                self.changes += 1
            case VmRemoved(vm=name):
                self._remove_vms((name,))
            case VmDeallocated(vm=name):
                self.vms[name] = replace(self.vms[name], deallocated=True)
            case VmStarted(vm=name):
                self.vms[name] = replace(self.vms[name], deallocated=False)
            case VmMoved(vm=name, host=host):
                self._move_vm(name, host)
            case FleetChanged():
                self._change(fact)
            case TokenCreated(token=token):
                self.tokens[token.id] = token
            case TokenRevoked(token=id_):
                del self.tokens[id_]
            case SubscriptionSet(subscription=subscription):
                self.subscriptions[subscription.id] = subscription
            case SubscriptionRemoved(subscription=id_):
                del self.subscriptions[id_]
            case Delivered(revisions=revisions):
                for id_, revision in revisions.items():
                    if id_ in self.subscriptions:
                        self.subscriptions[id_] = replace(self.subscriptions[id_], told=revision)
            case Observed():
                pass  # what follows from it is a fact of its own
            case _:
                self._change_event(fact)

    def _add_event(self, event: Event) -> None:
        group = self.groups[event.group]
        group.incarnation += 1
        self.events[event.id] = replace(event, since=group.incarnation)
        self._events_of.setdefault(event.group, {})[event.id] = None
        self.user_operations += _is_user_operation(event)

    def _change_event(self, fact: lifecycle.Change) -> None:
        event = self.events[fact.event]
        changed = lifecycle.after(event, fact)
        self.user_operations -= _is_user_operation(event)
        if isinstance(fact, lifecycle.VISIBLE):
            self.groups[event.group].incarnation += 1
        if changed is not None:
            self.user_operations += _is_user_operation(changed)
            self.events[event.id] = changed
            return
        del self.events[event.id]
        siblings = self._events_of[event.group]
        del siblings[event.id]
        if not siblings:
            del self._events_of[event.group]

    def _change(self, fact: FleetChanged) -> None:
        self.changes += 1
        for host in fact.hosts:
            self.hosts[host.name] = host
        for terms in fact.groups:
            self._set_terms(terms)
        self._declare_vms(fact.vms)
        self._remove_vms(fact.removed_vms)
        for name in fact.removed_groups:
            self._remove_group(name)
        for name in fact.removed_hosts:
            del self.hosts[name]

    def _set_terms(self, terms: GroupTerms) -> None:
        if group := self.groups.get(terms.name):
            group.terms = terms
        else:
            self.groups[terms.name] = Group(terms, incarnation=self._retired_incarnation + 1)

    def _declare_vms(self, vms: Iterable[Vm]) -> None:
        groups, hosts = Shift(), Shift()
        for vm in vms:
            old = self.vms.get(vm.name)
            if old:
                self._disown(old)
            self.vms[vm.name] = vm
            self._own(vm)
            groups.move(vm.name, old.group if old else "", vm.group)
            hosts.move(vm.name, old.standing_on if old else "", vm.standing_on)
        self._apply(groups, hosts)

    def _remove_vms(self, names: Iterable[str]) -> None:
        groups, hosts = Shift(), Shift()
        for name in names:
            for event in self.events_on(name):
                self.events[event.id] = lifecycle.without(event, name)
            vm = self.vms.pop(name)
            self._disown(vm)
            groups.move(name, vm.group, "")
            hosts.move(name, vm.standing_on, "")
        self._apply(groups, hosts)

    def _own(self, vm: Vm) -> None:
        self.addresses.add(vm.address, vm.name)
        if vm.interface.tap or vm.interface.mark:
            self.taps.add(vm.interface.tap, vm.name)
            self.marks.add(mark_key(vm.interface.mark), vm.name)

    def _disown(self, vm: Vm) -> None:
        self.addresses.discard(vm.address, vm.name)
        if vm.interface.tap or vm.interface.mark:
            self.taps.discard(vm.interface.tap, vm.name)
            self.marks.discard(mark_key(vm.interface.mark), vm.name)

    def _move_vm(self, name: str, host: str) -> None:
        vm = self.vms[name]
        groups, hosts = Shift(), Shift()
        hosts.move(name, vm.standing_on, host)
        self.vms[name] = replace(vm, moved_to="" if host == vm.host else host)
        self._apply(groups, hosts)

    def _apply(self, groups: Shift, hosts: Shift) -> None:
        for name in groups.touched():
            group = self.groups[name]
            group.vms = groups.shifted(name, group.vms)
            if group.terms.kind is GroupKind.STANDALONE and not group.vms:
                self._remove_group(name)
        for name in hosts.touched():
            self._vms_on[name] = hosts.shifted(name, self.vms_on(name))
            if not self._vms_on[name]:
                del self._vms_on[name]

    def _remove_group(self, name: str) -> None:
        group = self.groups.pop(name, None)
        if group is None:
            return  # a standalone group leaves with its VM
        # A group that comes back under its old name must not repeat an incarnation that showed something else.
        # The first one only ever shows no events, so it may be repeated.
        if group.incarnation > 1:
            self._retired_incarnation = max(self._retired_incarnation, group.incarnation)

    def parts(self) -> Iterator[Part]:
        """Yield the fleet in pieces, from which ``restore`` makes an equal one."""
        yield Part(
            hosts=tuple(self.hosts.values()),
            tokens=tuple(self.tokens.values()),
            subscriptions=tuple(self.subscriptions.values()),
            last_at=self.last_at,
            changes=self.changes,
            retired_incarnation=self._retired_incarnation,
        )
        for groups in pieces_of(self.groups.values()):
            yield Part(groups=groups)
        for vms in pieces_of(self.vms.values()):
            yield Part(vms=vms)
        for events in pieces_of(self.events.values()):
            yield Part(events=events)

    @classmethod
    def restore(cls, parts: Iterable[Part]) -> "Fleet":
        """Make a fleet from its pieces."""
        fleet = cls()
        standing: dict[str, list[str]] = {}
        for part in parts:
            fleet.hosts.update((host.name, host) for host in part.hosts)
            fleet.groups.update((group.name, group) for group in part.groups)
            fleet.tokens.update((token.id, token) for token in part.tokens)
            fleet.subscriptions.update((each.id, each) for each in part.subscriptions)
            for vm in part.vms:
                fleet.vms[vm.name] = vm
                fleet._own(vm)
                if vm.standing_on:
                    standing.setdefault(vm.standing_on, []).append(vm.name)
            for event in part.events:
                fleet.events[event.id] = event
                fleet._events_of.setdefault(event.group, {})[event.id] = None
                fleet.user_operations += _is_user_operation(event)
            if part.last_at:
                fleet.last_at = part.last_at
                fleet.changes = part.changes
                fleet._retired_incarnation = part.retired_incarnation
        fleet._vms_on = {host: tuple(names) for host, names in standing.items()}
        return fleet


def mark_key(mark: int) -> str:
    """Return what a mark is found by; nothing for none."""
    return str(mark) if mark else ""


def _is_user_operation(event: Event) -> bool:
    return event.source is EventSource.USER and event.status is EventStatus.SCHEDULED
