"""A proposed change of the fleet: conflicts are found before anything changes.

Only the difference is checked, so the cost depends on the change, not on the size of the fleet.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain
from typing import TypeVar

import msgspec

from forewarn.core.addresses import find_ambiguous
from forewarn.core.chunks import chunks_of
from forewarn.core.declared_keys import DeclarationConflict, DeclaredRecord, RecordKind
from forewarn.core.errors import Refused, unknown
from forewarn.core.event_types import moves_vms
from forewarn.core.facts import FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.label_selectors import check_labels
from forewarn.core.model import GroupKind, GroupTerms, Host, HostState, Vm
from forewarn.core.terms import DOMAINS, check_quorum, check_terms, describe_name_difference, normalize_name

_Record = TypeVar("_Record", Host, GroupTerms, Vm)


class Proposal(msgspec.Struct):
    """Records that are new or changed, and removed names."""

    hosts: dict[str, Host] = {}
    groups: dict[str, GroupTerms] = {}
    vms: dict[str, Vm] = {}
    gone_hosts: dict[str, None] = {}
    gone_groups: dict[str, None] = {}
    gone_vms: dict[str, None] = {}

    def fact(self, fleet: Fleet, *, at_run_time: bool) -> FleetChanged | None:
        """Return the change as a fact; None if it changes nothing."""
        change = FleetChanged(
            hosts=tuple(_different(self.hosts.values(), fleet.hosts)),
            groups=tuple(
                terms
                for terms in self.groups.values()
                if terms.name not in fleet.groups or fleet.groups[terms.name].terms != terms
            ),
            vms=tuple(_different(self.vms.values(), fleet.vms)),
            removed_hosts=tuple(self.gone_hosts),
            removed_groups=tuple(self.gone_groups),
            removed_vms=tuple(self.gone_vms),
        )
        if change == FleetChanged():
            return None
        hosts = (*(host.name for host in change.hosts), *change.removed_hosts)
        groups = (*(terms.name for terms in change.groups), *change.removed_groups)
        vms = (*(vm.name for vm in change.vms), *change.removed_vms)
        return msgspec.structs.replace(
            change,
            at_run_time=at_run_time,
            before_hosts=tuple(fleet.hosts[name] for name in hosts if name in fleet.hosts),
            before_groups=tuple(fleet.groups[name].terms for name in groups if name in fleet.groups),
            before_vms=tuple(fleet.vms[name] for name in vms if name in fleet.vms),
        )

    def record_of(self, fleet: Fleet, kind: RecordKind, name: str) -> DeclaredRecord | None:
        """Return the record of a name after the change."""
        match kind:
            case RecordKind.HOST:
                return None if name in self.gone_hosts else self.hosts.get(name) or fleet.hosts.get(name)
            case RecordKind.GROUP:
                return self._terms_of(fleet, name)
            case RecordKind.VM:
                return None if name in self.gone_vms else self.vms.get(name) or fleet.vms.get(name)

    def copy(self) -> "Proposal":
        return Proposal(*map(dict, msgspec.structs.astuple(self)))

    def drop(self, kind: RecordKind, name: str) -> None:
        match kind:
            case RecordKind.HOST:
                self.hosts.pop(name, None)
                self.gone_hosts.pop(name, None)
            case RecordKind.GROUP:
                self.groups.pop(name, None)
                self.gone_groups.pop(name, None)
            case RecordKind.VM:
                self.vms.pop(name, None)
                self.gone_vms.pop(name, None)

    def conflicts(self, fleet: Fleet) -> Iterator[DeclarationConflict]:
        labelled: Iterable[Host | Vm] = chain(self.hosts.values(), self.vms.values())
        for record in labelled:
            if record.labels:
                yield from _label_conflicts(record)
        for terms in self.groups.values():
            yield from _group_conflicts(fleet, terms)
        for vm in self.vms.values():
            yield from self._vm_conflicts(fleet, vm)
        yield from find_ambiguous(fleet, self.vms, self.gone_vms)
        yield from self._member_conflicts(fleet)
        for host in self.gone_hosts:
            if user := self.user_of_host(fleet, host):
                said = f"host {host!r} cannot be removed: VM {user!r} stands on it"
                yield DeclarationConflict(RecordKind.HOST, host, said, user)
        for rollout in list(fleet.rollouts.values()) if self.gone_hosts else ():
            for host in rollout.active:
                if host in self.gone_hosts:
                    said = (
                        f"host {host!r} cannot be removed: it is in a wave of rollout {rollout.name}; skip it first"
                    )
                    yield DeclarationConflict(RecordKind.HOST, host, said)
        # A copy: a large change is decided in a thread, and other events may change meanwhile.
        for event in fleet.events.copy().values() if self.gone_hosts else ():
            for host in sorted(event.targets.intersection(self.gone_hosts)):
                said = f"host {host!r} cannot be removed: event {event.id} moves a VM there"
                yield DeclarationConflict(RecordKind.HOST, host, said, event.resources[0])
            if event.attempts and moves_vms(event) and not event.targets:
                # The driver was given every host to choose from, and has not yet said which one it took.
                for host in self.gone_hosts:
                    said = f"host {host!r} cannot be removed: event {event.id} may move a VM there"
                    yield DeclarationConflict(RecordKind.HOST, host, said, event.resources[0])

    def user_of_host(self, fleet: Fleet, host: str) -> str:
        """Return a VM that is on the host after the change."""
        for name in sorted(fleet.vms_on(host)):
            vm = self.vms.get(name, fleet.vms[name])
            if name not in self.gone_vms and vm.standing_on == host:
                return name
        return next((vm.name for vm in self.vms.values() if vm.standing_on == host), "")

    def _vm_conflicts(self, fleet: Fleet, vm: Vm) -> Iterator[DeclarationConflict]:
        # Existing references are not the VM's fault: a group or host in use cannot be removed.
        old = fleet.vms.get(vm.name)
        if self._terms_of(fleet, vm.group) is None and not (old and old.group == vm.group):
            known = chain(self.groups, (name for name in fleet.groups if name not in self.gone_groups))
            yield DeclarationConflict(RecordKind.VM, vm.name, f"VM {vm.name!r}: {unknown('group', vm.group, known)}")
        is_known_host = vm.host in self.hosts or (vm.host in fleet.hosts and vm.host not in self.gone_hosts)
        if vm.host and not is_known_host and not (old and old.host == vm.host):
            known = chain(self.hosts, (name for name in fleet.hosts if name not in self.gone_hosts))
            yield DeclarationConflict(RecordKind.VM, vm.name, f"VM {vm.name!r}: {unknown('host', vm.host, known)}")
        is_placed = old is None or old.standing_on != vm.standing_on
        if is_placed and fleet.state_of(vm.standing_on) is HostState.FAILED:
            said = (
                f"VM {vm.name!r}: host {vm.standing_on!r} has failed; choose another host, "
                f"or, if it works again, record that: forewarn host repaired {vm.standing_on}"
            )
            yield DeclarationConflict(RecordKind.VM, vm.name, said)
        elif is_placed and vm.standing_on in fleet.cordoned:
            said = (
                f"VM {vm.name!r}: host {vm.standing_on!r} is cordoned and receives no VMs; choose another host, "
                f"or end that: forewarn host uncordon {vm.standing_on}"
            )
            yield DeclarationConflict(RecordKind.VM, vm.name, said)
        if vm.update_domain not in DOMAINS or vm.fault_domain not in DOMAINS:
            said = f"VM {vm.name!r}: update_domain and fault_domain must be from 0 to {DOMAINS[-1]}"
            yield DeclarationConflict(RecordKind.VM, vm.name, said)

    def _member_conflicts(self, fleet: Fleet) -> Iterator[DeclarationConflict]:
        joining: dict[str, list[str]] = {}
        for vm in self.vms.values():
            old = fleet.vms.get(vm.name)
            if old is None or old.group != vm.group:
                joining.setdefault(vm.group, []).append(vm.name)
        left = {fleet.vms[name].group for name in (*self.vms, *self.gone_vms) if name in fleet.vms}
        touched = {name for names in (joining, self.groups, left, self.gone_groups) for name in names}
        for group in _in_order(touched):
            yield from self._membership_conflicts(fleet, group, joining.get(group, []))

    def _membership_conflicts(self, fleet: Fleet, name: str, joining: list[str]) -> Iterator[DeclarationConflict]:
        old = fleet.groups.get(name)
        stay = [vm for vm in old.vms if self._group_of(fleet, vm) == name] if old else []
        members = stay + joining
        terms = self._terms_of(fleet, name)
        if terms is None:
            if members:
                said = f"group {name!r} cannot be removed: VM {members[0]!r} belongs to it"
                yield DeclarationConflict(RecordKind.GROUP, name, said, members[0])
            return
        if terms.kind is GroupKind.STANDALONE and not members and name not in self.groups:
            return  # it is removed with its VM
        if terms.kind is GroupKind.STANDALONE and len(members) != 1:
            said = f"group {name!r} is standalone and must have exactly one VM; it would have {len(members)}"
            yield from self._in_the_way(name, joining, stay, said)
        yield from self._quorum_conflicts(terms, old.vms if old else (), members)
        folded: dict[str, str] = {}
        before = old.vms if old else ()
        for vm in members:
            other = folded.setdefault(normalize_name(vm), vm)
            if other != vm and vm not in before:
                said = f"VMs {other!r} and {vm!r} of group {name!r} differ only {describe_name_difference(vm, other)}"
                yield DeclarationConflict(RecordKind.VM, vm, said, other)

    def _quorum_conflicts(
        self, terms: GroupTerms, before: tuple[str, ...], members: list[str]
    ) -> Iterator[DeclarationConflict]:
        """Name the cause of an unreachable quorum: the changed terms, else the removed VMs."""
        if terms.name not in self.groups and len(members) >= len(before):
            return
        try:
            check_quorum(terms, len(members))
        except Refused as refused:
            if terms.name in self.groups:
                yield DeclarationConflict(RecordKind.GROUP, terms.name, str(refused))
            else:
                leaving = (vm for vm in before if vm not in members)
                yield from (DeclarationConflict(RecordKind.VM, vm, str(refused)) for vm in leaving)

    def _in_the_way(
        self, group: str, joining: list[str], stay: list[str], said: str
    ) -> Iterator[DeclarationConflict]:
        """Name the surplus VM of a standalone group: the one that joins; else the group itself."""
        if not joining:
            yield DeclarationConflict(RecordKind.GROUP, group, said)
        for vm in joining if stay else joining[1:]:
            yield DeclarationConflict(RecordKind.VM, vm, said, stay[0] if stay else joining[0])

    def _group_of(self, fleet: Fleet, vm: str) -> str | None:
        return None if vm in self.gone_vms else self.vms.get(vm, fleet.vms[vm]).group

    def _terms_of(self, fleet: Fleet, group: str) -> GroupTerms | None:
        if group in self.groups:
            return self.groups[group]
        old = None if group in self.gone_groups else fleet.groups.get(group)
        return old.terms if old else None


def _in_order(names: Iterable[str]) -> Iterator[str]:
    """Sort names in slices: no other thread runs while one slice is sorted."""
    return merge(*(sorted(piece) for piece in chunks_of(names)))


def _group_conflicts(fleet: Fleet, terms: GroupTerms) -> Iterator[DeclarationConflict]:
    try:
        check_terms(terms)
    except Refused as refused:
        yield DeclarationConflict(RecordKind.GROUP, terms.name, str(refused))
    old = fleet.groups.get(terms.name)
    if old and old.terms.kind is not terms.kind and fleet.events_of(terms.name):
        said = f"group {terms.name!r} has unfinished events; its kind cannot change before they end"
        yield DeclarationConflict(RecordKind.GROUP, terms.name, said)


def _label_conflicts(record: Host | Vm) -> Iterator[DeclarationConflict]:
    kind = RecordKind.HOST if isinstance(record, Host) else RecordKind.VM
    try:
        check_labels(f"{'host' if kind is RecordKind.HOST else 'VM'} {record.name!r}", record.labels)
    except Refused as refused:
        yield DeclarationConflict(kind, record.name, str(refused))


def _different(records: Iterable[_Record], known: Mapping[str, _Record]) -> Iterator[_Record]:
    return (record for record in records if known.get(record.name) != record)
