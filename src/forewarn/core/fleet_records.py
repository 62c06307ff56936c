"""The records of a fleet, their indexes, and the chunks in which snapshots store them."""

from collections import deque
from collections.abc import Iterable, Iterator
from copy import copy
from datetime import UTC, datetime
from typing import Self, TypeVar

from forewarn.core.chunks import CHUNK_SIZE, FleetChunk, chunks_of
from forewarn.core.declared_keys import DeclaredRecord, RecordKind
from forewarn.core.facts import ClockStepped
from forewarn.core.fleet_index import ReverseIndex
from forewarn.core.last_applied import LastApplied
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    Eviction,
    Group,
    GroupTerms,
    Host,
    HostState,
    PowerRequest,
    Subscription,
    Token,
    Vm,
)
from forewarn.core.rollouts.model import HostRun, Rollout

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_EVENTS: dict[str, Event] = {}
_USER = EventSource.USER
_SCHEDULED = EventStatus.SCHEDULED

_Copied = TypeVar("_Copied", bound="FleetRecords | ReverseIndex | LastApplied")


class FleetRecords:
    """The state of a fleet; ``Fleet`` adds how facts change it."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.groups: dict[str, Group] = {}
        self.vms: dict[str, Vm] = {}
        self.events: dict[str, Event] = {}
        self.addresses = ReverseIndex()
        """VMs share an address only if taps or marks distinguish them."""
        self.taps = ReverseIndex()
        self.marks = ReverseIndex()
        self.tokens: dict[str, Token] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.last_applied = LastApplied()
        """The declaration of the fleet file."""
        self.last_at = EPOCH
        self.clock_step: ClockStepped | None = None
        """The last step of the wall clock."""
        self.changes = 0
        """The number of changes of the fleet."""
        self.user_operations = 0
        """How many user-initiated events are Scheduled."""
        self.retired_incarnation = 0
        """The highest incarnation that a removed group showed or a removed VM saw."""
        self.evictions: deque[Eviction] = deque()
        """The evictions of the last 24 hours, the oldest first."""
        self.host_states: dict[str, HostState] = {}
        """The state of hosts that are not up."""
        self.cordoned: dict[str, None] = {}
        """The cordoned hosts."""
        self.power_requests: dict[str, PowerRequest] = {}
        """Pending or failed starts and stops, by VM."""
        self.crashed: dict[str, None] = {}
        """VMs that crashed and have not been observed running since."""
        self.rollouts: dict[str, Rollout] = {}
        """Those that have not ended, by name."""
        self.rollout_hosts: dict[str, HostRun] = {}
        """The hosts of rollouts that have begun, by ``run_key``."""
        self.rollout_events: dict[str, str] = {}
        """The key of the host that an unfinished event of a rollout belongs to, by the event's id."""
        self.stopped: dict[str, int] = {}
        """The number of deallocated VMs of groups that have any."""
        self._vms_on: dict[str, tuple[str, ...]] = {}
        self._events_of: dict[str, dict[str, Event]] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether it has no VM, group or host."""
        return not (self.vms or self.groups or self.hosts)

    def copy(self) -> Self:
        """Return a copy with the same records, for a thread that reads it while this one changes."""
        copied = _copy_of(self)
        copied.addresses, copied.taps, copied.marks = map(_copy_of, (self.addresses, self.taps, self.marks))
        copied.last_applied = _copy_of(self.last_applied)
        copied.last_applied.differing = {kind: each.copy() for kind, each in self.last_applied.differing.items()}
        vars(copied)["_events_of"] = {group: events.copy() for group, events in self._events_of.items()}
        return copied

    def terms_of(self, group: str) -> GroupTerms | None:
        found = self.groups.get(group)
        return found.terms if found else None

    def record_of(self, kind: RecordKind, name: str) -> DeclaredRecord | None:
        match kind:
            case RecordKind.HOST:
                return self.hosts.get(name)
            case RecordKind.GROUP:
                return self.terms_of(name)
            case RecordKind.VM:
                return self.vms.get(name)

    def declared(self, kind: RecordKind, name: str) -> DeclaredRecord | None:
        """Return the declared record of a name."""
        return self.last_applied.declared(kind, name, self.record_of(kind, name))

    def events_of(self, group: str) -> list[Event]:
        """Return the group's events in the order of their announcement."""
        return list(self._events_of.get(group, _NO_EVENTS).values())

    def events_on(self, vm: str) -> list[Event]:
        return [event for event in self.events_of(self.vms[vm].group) if vm in event.vms]

    def vms_on(self, host: str) -> tuple[str, ...]:
        return self._vms_on.get(host, ())

    def state_of(self, host: str) -> HostState:
        return self.host_states.get(host, HostState.UP)

    def parts(self, chunk_size: int = CHUNK_SIZE) -> Iterator[FleetChunk]:
        """Yield the fleet in chunks, from which ``restore`` builds an equal one."""
        yield FleetChunk(
            hosts=tuple(self.hosts.values()),
            tokens=tuple(self.tokens.values()),
            subscriptions=tuple(self.subscriptions.values()),
            last_at=self.last_at,
            clock_step=self.clock_step,
            changes=self.changes,
            retired_incarnation=self.retired_incarnation,
            declaration=self.last_applied.head(),
            host_states=dict(self.host_states),
            cordoned=tuple(self.cordoned),
            power_requests=tuple(self.power_requests.values()),
            crashed=tuple(self.crashed),
            evictions=tuple(self.evictions),
            rollouts=tuple(self.rollouts.values()),
        )
        for runs in chunks_of(self.rollout_hosts.values(), chunk_size):
            yield FleetChunk(rollout_hosts=runs)
        for groups in chunks_of(self.groups.values(), chunk_size):
            yield FleetChunk(groups=groups)
        for vms in chunks_of(self.vms.values(), chunk_size):
            yield FleetChunk(vms=vms)
        for events in chunks_of(self.events.values(), chunk_size):
            yield FleetChunk(events=events)
        yield from self.last_applied.parts(chunk_size)

    @classmethod
    def restore(cls, parts: Iterable[FleetChunk]) -> Self:
        fleet = cls()
        standing: dict[str, list[str]] = {}
        is_missing = True
        for part in parts:
            fleet.last_applied.take_in(part)
            is_missing = is_missing and part.declaration is None
            fleet.hosts.update((host.name, host) for host in part.hosts)
            fleet.groups.update((group.name, group) for group in part.groups)
            fleet.tokens.update((token.id, token) for token in part.tokens)
            fleet.subscriptions.update((each.id, each) for each in part.subscriptions)
            for vm in part.vms:
                fleet.vms[vm.name] = vm
                fleet._count_stopped(vm, 1)
                fleet._own(vm)
                if vm.standing_on:
                    standing.setdefault(vm.standing_on, []).append(vm.name)
            for event in part.events:
                fleet._set_event(event)
                fleet.user_operations += is_user_operation(event)
            fleet.rollouts.update((each.name, each) for each in part.rollouts)
            for run in part.rollout_hosts:
                fleet.rollout_hosts[run.key] = run
                fleet.rollout_events.update(dict.fromkeys(run.events, run.key))
            if part.last_at:
                fleet.last_at = part.last_at
                fleet.clock_step = part.clock_step
                fleet.changes = part.changes
                fleet.retired_incarnation = part.retired_incarnation
                fleet.evictions.extend(part.evictions)
                fleet.host_states.update(part.host_states)
                fleet.cordoned.update(dict.fromkeys(part.cordoned))
                fleet.power_requests.update((each.vm, each) for each in part.power_requests)
                fleet.crashed.update(dict.fromkeys(part.crashed))
        if is_missing:
            fleet.last_applied.is_missing = not fleet.is_empty
        fleet._vms_on = {host: tuple(names) for host, names in standing.items()}
        return fleet

    def _set_event(self, event: Event) -> None:
        self.events[event.id] = event
        self._events_of.setdefault(event.group, {})[event.id] = event

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

    def _count_stopped(self, vm: Vm, by: int) -> None:
        if vm.deallocated:
            count = self.stopped.pop(vm.group, 0) + by
            if count:
                self.stopped[vm.group] = count


def mark_key(mark: int) -> str:
    """Return the key of a mark; empty for no mark."""
    return str(mark) if mark else ""


def is_user_operation(event: Event) -> bool:
    """Return whether it counts towards the limit of user operations."""
    return event.source is _USER and event.status is _SCHEDULED


def _copy_of(whole: _Copied) -> _Copied:
    """Return a copy with its own containers and the same records."""
    copied = copy(whole)
    for name, value in vars(whole).items():
        if isinstance(value, (dict, deque)):
            setattr(copied, name, value.copy())
    return copied
