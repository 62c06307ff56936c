"""The fleet: all VMs, hosts, groups and unfinished events; the fold of the facts so far.

``evolve`` is the only thing that changes a fleet. It is deterministic and total, and no fact but ``FleetChanged``
costs more than what it touches.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import get_args

from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.declared_keys import DeclaredRecord, RecordKind
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    ChangesHeld,
    ClockStepped,
    Completed,
    Delivered,
    Enrolled,
    Entry,
    EventChanged,
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
from forewarn.core.fleet_index import MembershipChange
from forewarn.core.fleet_records import FleetRecords, is_user_operation
from forewarn.core.model import (
    Event,
    Eviction,
    Group,
    GroupKind,
    GroupTerms,
    HostState,
    ObservationKind,
    PowerRequest,
    Vm,
)
from forewarn.core.rollouts import evolution
from forewarn.core.rollouts.facts import RolloutFact

LOCATION_KEYS = ("group", "standing_on", "update_domain", "fault_domain")
"""The keys of a VM that its unfinished events depend on."""
EVICTIONS_KEPT = timedelta(hours=24)
"""How long evictions of a group are remembered."""
_EVENT_CHANGES = frozenset(get_args(EventChanged))
_ROLLOUT_FACTS = frozenset(get_args(RolloutFact))


class Fleet(FleetRecords):
    """The state that the rules decide on."""

    def enter(self, entry: Entry) -> None:
        for fact in entry.facts:
            self.evolve(fact)
        self.last_at = entry.at

    def evolve(self, fact: AnyFact) -> None:
        """Apply a fact."""
        if type(fact) in _EVENT_CHANGES:  # as most facts are
            self._change_event(fact)  # type: ignore[arg-type]  # mypy does not follow
            return
        if type(fact) in _ROLLOUT_FACTS:
            evolution.evolve_rollout(self, fact)  # type: ignore[arg-type]  # as above
            return
        match fact:
            case Announced() | StartedAtOnce():
                self._add_event(lifecycle.begin(fact))
            case Fetched(fetches=fetches):
                for fetch in fetches:
                    if fetch.event in self.events:
                        self._set_event(lifecycle.fetched(self.events[fetch.event], fetch))
            case Asked(marks=marks):
                for mark in marks:
                    if mark.group in self.groups:
                        self._set_group(mark.group, asked_at=mark.at, asked_by=mark.by)
            case Enrolled(group=name, at=at, by=by):
                self._set_group(name, enrolled_at=at, asked_at=at, asked_by=by)
            case SwitchedOff(group=name):
                self._set_group(name, enrolled_at=None)
            case GroupSet(terms=terms):
                self._set_terms(terms)
                self.changes += 1
            case VmRemoved(vm=name, evicted_at=evicted_at):
                self._note_eviction(name, evicted_at)
                self._remove_vms((name,))
            case VmDeallocated(vm=name, evicted_at=evicted_at, request=request):
                self._note_eviction(name, evicted_at)
                self._set_stopped(name, is_stopped=True)
                self._request_power(name, request, on=False)
            case VmStarted(vm=name, request=request):
                self._set_stopped(name, is_stopped=False)
                self._request_power(name, request, on=True)
            case VmSwitched(vm=name, failure=failure):
                request_then = self.power_requests.pop(name, None)
                if failure and request_then:
                    self.power_requests[name] = replace(request_then, failure=failure)
            case VmMoved(vm=name, host=host):
                self._move_vm(name, host)
            case HostStateSet(host=name, state=state):
                self._set_host_state(name, state)
            case HostCordonSet(host=name, is_cordoned=is_cordoned):
                self._set_cordon(name, is_cordoned=is_cordoned)
            case IncarnationsRaised(groups=groups, retired=retired):
                for name, incarnation in groups.items():
                    self._set_group(name, incarnation=incarnation)
                self.retired_incarnation = max(self.retired_incarnation, retired)
            case FleetChanged():
                self._change(fact)
            case FleetDeclared():
                self._declare(fact)
            case ChangesHeld(changes=changes, ended=ended):
                for each in ended:
                    self.last_applied.let_go((each.kind, each.name))
                self.last_applied.hold(changes)
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
                        self.subscriptions[id_] = replace(self.subscriptions[id_], delivered_revision=revision)
            case ClockStepped(at=at):
                self.clock_step = fact
                for event in list(self.events.values()):
                    self._set_event(lifecycle.after_step(event, fact))
                # Times in the future count as now, else they would count until then.
                self.evictions = deque(replace(each, at=min(each.at, at)) for each in self.evictions)
            case ObservationRecorded(observation=observation):  # its consequences are facts of their own
                self.crashed.pop(observation.vm, None)
                if observation.what is ObservationKind.CRASHED and observation.vm in self.vms:
                    self.crashed[observation.vm] = None

    def _add_event(self, event: Event) -> None:
        self._set_event(replace(event, since=self._raise_incarnation(event.group)))
        self.user_operations += is_user_operation(event)

    def _change_event(self, fact: EventChanged) -> None:
        event = self.events[fact.event]
        if self.evictions:
            self._forget_evictions(fact.at)
        changed = lifecycle.after(event, fact)
        self.user_operations -= is_user_operation(event)
        if type(fact) in lifecycle.VISIBLE:
            self._raise_incarnation(event.group)
        if changed.status not in lifecycle.ENDS:
            self.user_operations += is_user_operation(changed)
            self._set_event(changed)
            return
        if type(fact) is Completed:
            self._forget_crashes(event.vms)
        if event.rollout:
            evolution.end_event(self, fact)
        del self.events[event.id]
        siblings = self._events_of[event.group]
        del siblings[event.id]
        if not siblings:
            del self._events_of[event.group]

    def _change(self, fact: FleetChanged) -> None:
        self.changes += 1
        if not (fact.at_run_time or self.last_applied.revision):
            self.last_applied.is_missing = True
        for host in fact.hosts:
            self._note(RecordKind.HOST, host.name, self.hosts.get(host.name), host)
            self.hosts[host.name] = host
        for terms in fact.groups:
            self._set_terms(terms)
        self._declare_vms(fact.vms)
        self._remove_vms(fact.removed_vms)
        for name in fact.removed_groups:
            self._remove_group(name)
        for name in fact.removed_hosts:
            self._note(RecordKind.HOST, name, self.hosts.pop(name), None)
            self._set_host_state(name, HostState.UP)
            self._set_cordon(name, is_cordoned=False)

    def _declare(self, fact: FleetDeclared) -> None:
        last = self.last_applied
        last.revision, last.digest, last.source, last.is_missing = fact.revision, fact.digest, fact.source, False
        for host in fact.hosts:
            last.declare(RecordKind.HOST, host.name, host, self.hosts.get(host.name))
        for terms in fact.groups:
            last.declare(RecordKind.GROUP, terms.name, terms, self.terms_of(terms.name))
        for vm in fact.vms:
            last.declare(RecordKind.VM, vm.name, vm, self.vms.get(vm.name))
        for name in fact.removed_hosts:
            last.declare(RecordKind.HOST, name, None, self.hosts.get(name))
        for name in fact.removed_groups:
            last.declare(RecordKind.GROUP, name, None, self.terms_of(name))
        for name in fact.removed_vms:
            last.declare(RecordKind.VM, name, None, self.vms.get(name))

    def _note(self, kind: RecordKind, name: str, before: DeclaredRecord | None, after: DeclaredRecord | None) -> None:
        self.last_applied.note(kind, name, before, after)
        if before is None or after is None:
            self.last_applied.let_go((kind, name))  # the record was added or removed, so a held change is obsolete

    def _set_host_state(self, host: str, state: HostState) -> None:
        self.host_states.pop(host, None)
        if state is not HostState.UP:
            self.host_states[host] = state

    def _set_cordon(self, host: str, *, is_cordoned: bool) -> None:
        self.cordoned.pop(host, None)
        if is_cordoned:
            self.cordoned[host] = None

    def _set_stopped(self, name: str, *, is_stopped: bool) -> None:
        vm = self.vms[name]
        self._count_stopped(vm, -1)
        self.vms[name] = vm = replace(vm, deallocated=is_stopped)
        self._count_stopped(vm, 1)

    def _request_power(self, vm: str, request: str, *, on: bool) -> None:
        self.power_requests.pop(vm, None)
        self._forget_crashes((vm,))
        if request:
            self.power_requests[vm] = PowerRequest(vm, request, on)

    def _forget_crashes(self, vms: Iterable[str]) -> None:
        for vm in vms:
            self.crashed.pop(vm, None)

    def _note_eviction(self, vm: str, at: datetime | None) -> None:
        if at:
            self.evictions.append(Eviction(self.vms[vm].group, at))

    def _forget_evictions(self, now: datetime) -> None:
        while self.evictions and self.evictions[0].at <= now - EVICTIONS_KEPT:
            self.evictions.popleft()

    def _set_terms(self, terms: GroupTerms) -> None:
        self._note(RecordKind.GROUP, terms.name, self.terms_of(terms.name), terms)
        if terms.name in self.groups:
            self._set_group(terms.name, terms=terms)
        else:
            self.groups[terms.name] = Group(terms, incarnation=self.retired_incarnation + 1)

    def _declare_vms(self, vms: Iterable[Vm]) -> None:
        groups, hosts = MembershipChange(), MembershipChange()
        for vm in vms:
            old = self.vms.get(vm.name)
            if old:
                self._disown(old)
                if any(getattr(old, key) != getattr(vm, key) for key in LOCATION_KEYS):
                    self._leave_events(vm.name)
                self._count_stopped(old, -1)
            self._note(RecordKind.VM, vm.name, old, vm)
            self.vms[vm.name] = vm
            self._count_stopped(vm, 1)
            self._own(vm)
            groups.move(vm.name, old.group if old else "", vm.group)
            hosts.move(vm.name, old.standing_on if old else "", vm.standing_on)
        self._apply(groups, hosts)

    def _remove_vms(self, names: Iterable[str]) -> None:
        groups, hosts = MembershipChange(), MembershipChange()
        for name in names:
            self._leave_events(name)
            self.power_requests.pop(name, None)
            self.crashed.pop(name, None)
            vm = self.vms.pop(name)
            self._count_stopped(vm, -1)
            self._note(RecordKind.VM, name, vm, None)
            self._disown(vm)
            groups.move(name, vm.group, "")
            hosts.move(name, vm.standing_on, "")
        self._apply(groups, hosts)

    def _leave_events(self, vm: str) -> None:
        for event in self.events_on(vm):
            self._set_event(lifecycle.without(event, vm))

    def _move_vm(self, name: str, host: str) -> None:
        vm = self.vms[name]
        groups, hosts = MembershipChange(), MembershipChange()
        hosts.move(name, vm.standing_on, host)
        self.vms[name] = replace(vm, moved_to="" if host == vm.host else host)
        self._apply(groups, hosts)

    def _apply(self, groups: MembershipChange, hosts: MembershipChange) -> None:
        for name in groups.touched():
            group = self._set_group(name, vms=groups.members_after(name, self.groups[name].vms))
            if group.terms.kind is GroupKind.STANDALONE and not group.vms:
                self._remove_group(name)
        for name in hosts.touched():
            self._vms_on[name] = hosts.members_after(name, self.vms_on(name))
            if not self._vms_on[name]:
                del self._vms_on[name]

    def _set_group(self, name: str, **changed: object) -> Group:
        self.groups[name] = group = replace(self.groups[name], **changed)
        return group

    def _raise_incarnation(self, name: str) -> int:
        group = self.groups[name]
        incarnation = group.incarnation + 1
        self.groups[name] = replace(group, incarnation=incarnation)
        return incarnation

    def _remove_group(self, name: str) -> None:
        group = self.groups.pop(name, None)
        if group is None:
            return  # a standalone group is removed with its VM
        self._note(RecordKind.GROUP, name, group.terms, None)
        # A group that is added again with its old name must not repeat an incarnation that showed events.
        # The first incarnation never shows events, so it may be repeated.
        if group.incarnation > 1:
            self.retired_incarnation = max(self.retired_incarnation, group.incarnation)
