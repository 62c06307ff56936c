"""Compares a fleet file with the declaration last applied: only what changed in the file changes the fleet.

Three values of every key are compared:

    declaration last applied   file   fleet      the fleet then has
    a                          a      anything   what it has: the file did not change
    a                          b      a          b
    a                          b      c          b, and c is reported as replaced

Without an operator (at a start), a change that an unfinished event blocks is *held*, and an entry that conflicts with
the fleet is left out. This module only plans: ``fleet_declaration`` makes facts of a plan.
"""

from collections.abc import Iterable, Iterator

import msgspec

from forewarn.core.declared_keys import (
    DeclarationConflict,
    DeclaredRecord,
    HeldChange,
    HoldReason,
    RecordKind,
    ReplacedValue,
    differing_keys,
    keys_of,
    with_keys,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, GroupKind, GroupTerms, Host, Vm
from forewarn.core.proposal import Proposal

RecordKey = tuple[RecordKind, str]
KeySet = frozenset[str] | None
"""Keys of a record; None for all keys, or for the record itself."""
DesiredRecords = dict[RecordKey, DeclaredRecord | None]
"""Entries that differ from the declaration last applied; None if the entry was removed."""

_LOCATION_KEYS = frozenset({"group", "update_domain", "fault_domain"})
"""The keys of a VM that its unfinished events depend on."""
_NOTHING = object()
_GUARD = 5
"""A start removes at most one in this many VMs."""


class ApplyMode(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is applied."""

    exact: bool = False
    cancel_events: bool = False
    yes: bool = False
    is_start: bool = False


class BlockedChange(msgspec.Struct, frozen=True):
    """A VM that cannot change, and the blocking event."""

    vm: str
    event: Event


class DeclarationPlan(msgspec.Struct):
    """The plan of applying a file."""

    wanted: DesiredRecords
    change: Proposal
    held: dict[RecordKey, HeldChange] = {}
    ended: list[RecordKey] = []
    """Records without a held change any more."""
    leaving: dict[str, None] = {}
    """VMs that leave their Scheduled events."""
    blocked: list[BlockedChange] = []
    conflicts: list[DeclarationConflict] = []
    """Entries that conflict with the fleet."""
    replaced: dict[RecordKey, list[ReplacedValue]] = {}


def plan(fleet: Fleet, wanted: DesiredRecords, mode: ApplyMode) -> DeclarationPlan:
    """Compare, and return the plan."""
    return _Planner(fleet, wanted, mode).plan()


class _Planner:
    def __init__(self, fleet: Fleet, wanted: DesiredRecords, mode: ApplyMode) -> None:
        self._fleet = fleet
        self._last = fleet.last_applied
        self._wanted = wanted
        self._manner = mode
        self._considered = dict(self._last.waiting)
        if mode.yes or mode.exact:
            self._considered |= self._last.guarded
        self._considered |= {key: each for key, each in self._last.guarded.items() if key in wanted}
        self._made = DeclarationPlan(wanted, Proposal())
        self._unheld = Proposal()
        """The change as if nothing were held: entries that conflict with it too are left out, others wait."""

    def plan(self) -> DeclarationPlan:
        for (kind, name), keys in self._candidates().items():
            self._aim(kind, name, keys)
        self._provide_places()
        self._unheld = self._made.change.copy()
        self._mind_events()
        if self._manner.is_start:
            self._mind_guard()
        self._mind_conflicts()
        made = self._made
        made.ended = [key for key in self._considered if key not in made.held]
        made.held = {key: held for key, held in made.held.items() if held != self._considered.get(key)}
        return made

    def _candidates(self) -> dict[RecordKey, KeySet]:
        """Return the records that may have to change, with their keys."""
        if self._manner.exact:
            return dict.fromkeys(self._differing())
        if self._last.is_missing and not self._fleet.is_empty:
            return {}  # the previous declaration is unknown, so no change is known
        found: dict[RecordKey, KeySet] = {}
        for key, record in self._wanted.items():
            before = self._fleet.declared(*key)
            found[key] = None if before is None or record is None else differing_keys(before, record)
        for key, held in self._considered.items():
            keys = found.get(key, frozenset())
            found[key] = None if keys is None else keys | frozenset(held.keys)
        return found

    def _differing(self) -> Iterator[RecordKey]:
        yield from self._wanted
        for kind, differing in self._last.differing.items():
            yield from ((kind, name) for name in sorted(differing))  # their order is not part of the fleet
        if not self._last.covers_fleet:
            fleet = self._fleet
            for kind, names in (
                (RecordKind.HOST, fleet.hosts),
                (RecordKind.GROUP, fleet.groups),
                (RecordKind.VM, fleet.vms),
            ):
                yield from ((kind, name) for name in names)

    def _declared(self, kind: RecordKind, name: str) -> DeclaredRecord | None:
        """Return the file's record of a name."""
        key = kind, name
        return self._wanted[key] if key in self._wanted else self._fleet.declared(kind, name)

    def _aim(self, kind: RecordKind, name: str, keys: KeySet) -> None:
        """Propose the change of a record to the file's version."""
        record, change = self._declared(kind, name), self._made.change
        match kind:
            case RecordKind.HOST if record is None and name in self._fleet.hosts:
                change.gone_hosts[name] = None
            case RecordKind.HOST if isinstance(record, Host):
                self._aim_host(record, keys)
            case RecordKind.GROUP:
                self._aim_group(name, record, keys)
            case RecordKind.VM if record is None and name in self._fleet.vms:
                change.gone_vms[name] = None
            case RecordKind.VM if isinstance(record, Vm):
                current = self._fleet.vms.get(name)
                if current is None:
                    change.vms[name] = record
                else:
                    # The file never changes the host of an existing VM: only a move does.
                    changed = (differing_keys(current, record) if keys is None else keys) - {"host"}
                    if (aimed := with_keys(current, record, changed)) != current:
                        change.vms[name] = aimed  # an unchanged one cannot conflict
                    self._note_replaced(kind, current, record, changed)

    def _aim_host(self, record: Host, keys: KeySet) -> None:
        current = self._fleet.hosts.get(record.name)
        if current is None:
            self._made.change.hosts[record.name] = record
            return
        changed = differing_keys(current, record) if keys is None else keys
        if (aimed := with_keys(current, record, changed)) != current:
            self._made.change.hosts[record.name] = aimed
        self._note_replaced(RecordKind.HOST, current, record, changed)

    def _aim_group(self, name: str, record: DeclaredRecord | None, keys: KeySet) -> None:
        current, change = self._fleet.terms_of(name), self._made.change
        if current is None and isinstance(record, GroupTerms):
            if record.kind is not GroupKind.STANDALONE:  # it is added with its VM
                change.groups[name] = record
        elif current is not None and record is None:
            if current.kind is not GroupKind.STANDALONE:  # it is removed with its VM
                change.gone_groups[name] = None
        elif current is not None and isinstance(record, GroupTerms):
            changed = differing_keys(current, record) if keys is None else keys
            if (aimed := with_keys(current, record, changed)) != current:
                change.groups[name] = aimed
            self._note_replaced(RecordKind.GROUP, current, record, changed)

    def _note_replaced(
        self, kind: RecordKind, current: DeclaredRecord, record: DeclaredRecord, keys: Iterable[str]
    ) -> None:
        """Note run-time values that the file replaces."""
        if held := self._considered.get((kind, current.name)):
            keys = frozenset(keys) - frozenset(held.keys)
        before = self._fleet.declared(kind, current.name)
        old, mine, new = keys_of(before) if before else {}, keys_of(current), keys_of(record)
        lost = [
            ReplacedValue(kind, current.name, key, msgspec.json.encode(mine.get(key)).decode())
            for key in sorted(keys)
            if mine.get(key) not in (new.get(key), old.get(key) if before else _NOTHING)
        ]
        if lost:
            self._made.replaced[kind, current.name] = lost

    def _provide_places(self) -> None:
        """Propose declared groups and hosts that VMs need and the fleet lacks."""
        change = self._made.change
        for vm in change.vms.values():
            if vm.group not in self._fleet.groups and vm.group not in change.groups:
                terms = self._declared(RecordKind.GROUP, vm.group)
                if isinstance(terms, GroupTerms):
                    change.groups[vm.group] = terms
            if vm.host and vm.host not in self._fleet.hosts and vm.host not in change.hosts:
                host = self._declared(RecordKind.HOST, vm.host)
                if isinstance(host, Host):
                    change.hosts[vm.host] = host

    def _moving(self) -> Iterator[str]:
        """Yield the VMs that the proposal removes or moves to another group or domain."""
        change = self._made.change
        yield from change.gone_vms
        for name, vm in change.vms.items():
            if (old := self._fleet.vms.get(name)) and any(
                getattr(old, key) != getattr(vm, key) for key in _LOCATION_KEYS
            ):
                yield name

    def _mind_events(self) -> None:
        """Hold changes that an unfinished event blocks."""
        for name in list(self._moving()):
            events = self._fleet.events_on(name)
            earlier = self._considered.get((RecordKind.VM, name))
            is_canceling = self._manner.cancel_events or (earlier is not None and earlier.cancel_events)
            started = [event for event in events if event.status is EventStatus.STARTED]
            if is_canceling and events:
                self._made.leaving[name] = None
            in_the_way = started if is_canceling else events
            if not in_the_way:
                continue
            if is_canceling or self._waits_already(RecordKind.VM, name) or self._manner.is_start:
                event = in_the_way[0].id
                self._hold(RecordKind.VM, name, HoldReason.EVENT, event, _LOCATION_KEYS, cancel_events=is_canceling)
            else:
                self._made.blocked += [BlockedChange(name, event) for event in in_the_way]

    def _mind_guard(self) -> None:
        """Hold all removals if there are too many for a start."""
        removals = [
            *self._made.change.gone_vms,
            *(held.name for held in self._made.held.values() if held.is_removal),
        ]
        if len(removals) * _GUARD > len(self._fleet.vms):
            because = f"{len(removals)} of {len(self._fleet.vms)} VMs would be removed"
            for name in removals:
                self._hold(RecordKind.VM, name, HoldReason.TOO_MANY, because)

    def _mind_conflicts(self) -> None:
        """Hold or leave out conflicting changes, and changes that depend on them."""
        change = self._made.change
        while found := [each for each in change.conflicts(self._fleet) if self._is_proposed(each)]:
            # A VM with a held change was there first: the newcomer conflicts, not the VM.
            coming = [each for each in found if (each.kind, each.name) not in self._made.held]
            own = {(each.kind, each.name) for each in self._unheld.conflicts(self._fleet)}
            for conflict in [each for each in coming if (each.kind, each.name) in own] or coming or found:
                if not self._is_proposed(conflict):
                    continue
                kind, name = conflict.kind, conflict.name
                if kind is RecordKind.GROUP and self._comes_with_its_vm(name):
                    change.drop(kind, name)
                    continue
                is_removal = name in (change.gone_hosts if kind is RecordKind.HOST else change.gone_groups)
                is_waiting = (
                    self._waits_already(kind, name)
                    or not coming
                    or self._is_held(conflict.other)
                    or (kind, name) not in own
                )
                events = self._fleet.events_of(name) if kind is RecordKind.GROUP and not is_removal else ()
                if events and (is_waiting or self._manner.is_start):
                    self._hold(kind, name, HoldReason.EVENT, events[0].id)
                elif (kind is not RecordKind.VM and is_removal) or is_waiting:
                    self._hold(kind, name, HoldReason.IN_USE, conflict.said)
                else:
                    self._made.conflicts.append(conflict)
                    self._made.change.drop(kind, name)
                    self._made.replaced.pop((kind, name), None)
                if (kind, name) in own:
                    self._unheld.drop(kind, name)

    def _waits_already(self, kind: RecordKind, name: str) -> bool:
        """Return whether the change was held before this file: it stays held, and refuses nothing."""
        return (kind, name) in self._considered and (kind, name) not in self._wanted and not self._manner.exact

    def _comes_with_its_vm(self, group: str) -> bool:
        """Return whether a standalone group is added together with its VM; then only the VM is reported."""
        terms = self._made.change.groups.get(group)
        is_alone = terms is not None and terms.kind is GroupKind.STANDALONE
        return is_alone and group not in self._fleet.groups

    def _is_held(self, vm: str) -> bool:
        key = RecordKind.VM, vm
        return key in self._made.held or key in self._last.guarded

    def _is_proposed(self, conflict: DeclarationConflict) -> bool:
        change, name = self._made.change, conflict.name
        match conflict.kind:
            case RecordKind.HOST:
                return name in change.hosts or name in change.gone_hosts
            case RecordKind.GROUP:
                return name in change.groups or name in change.gone_groups
            case RecordKind.VM:
                return name in change.vms or name in change.gone_vms

    def _hold(
        self,
        kind: RecordKind,
        name: str,
        reason: HoldReason,
        because: str,
        some: frozenset[str] | None = None,
        *,
        cancel_events: bool = False,
    ) -> None:
        """Hold a change: all of it, or some keys."""
        current, proposed = self._fleet.record_of(kind, name), self._proposed(kind, name)
        keys: frozenset[str] = frozenset()
        if current is not None and proposed is not None:
            keys = differing_keys(current, proposed)
            keys &= some or keys
        if earlier := self._made.held.get((kind, name)):
            keys |= frozenset(earlier.keys)
        self._made.held[kind, name] = HeldChange(
            kind,
            name,
            reason,
            tuple(sorted(keys)),
            because,
            is_removal=self._declared(kind, name) is None,
            cancel_events=cancel_events,
        )
        if proposed is None or current is None or not some:
            self._made.change.drop(kind, name)
        elif isinstance(proposed, Vm) and isinstance(current, Vm):
            if (left_over := with_keys(proposed, current, keys)) == current:
                self._made.change.drop(kind, name)
            else:
                self._made.change.vms[name] = left_over
            lost = self._made.replaced.pop((kind, name), [])
            if left := [each for each in lost if each.key not in keys]:
                self._made.replaced[kind, name] = left

    def _proposed(self, kind: RecordKind, name: str) -> DeclaredRecord | None:
        change = self._made.change
        match kind:
            case RecordKind.HOST:
                return change.hosts.get(name)
            case RecordKind.GROUP:
                return change.groups.get(name)
            case RecordKind.VM:
                return change.vms.get(name)
