"""What an operator may declare of hosts, groups and VMs. A change is checked whole before anything happens.

Only the difference is looked at, so that a change costs what it touches, however large the fleet is.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from forewarn.core import lifecycle, quiet
from forewarn.core.addresses import check_addresses
from forewarn.core.commands import ChangeFleet, SetGroup
from forewarn.core.errors import Refused, unknown
from forewarn.core.facts import AnyFact, FleetChanged, GroupSet
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    ApprovalRule,
    Event,
    EventStatus,
    Group,
    GroupKind,
    GroupTerms,
    Host,
    Policy,
    Vm,
)

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
"""How a host, a group or a VM may be called."""

_Record = TypeVar("_Record", Host, GroupTerms, Vm)
_POSTPONE_LIMIT = range(30 * 24 * 3600 + 1)
_TERMINATE_NOTICE = range(5 * 60, 15 * 60 + 1)
_DOMAINS = range(10_000)
_UNHINGED_BY = ("group", "standing_on", "update_domain", "fault_domain")
"""A VM's place, on which its unfinished events rest."""


def change_fleet(fleet: Fleet, command: ChangeFleet, now: datetime) -> Iterator[AnyFact]:
    """Declare what is different. Nothing happens when nothing is."""
    if command.seen is not None and command.seen != fleet.changes:
        raise Refused("the fleet was changed by somebody else in the meantime; look at it and apply again")
    return _Change(fleet, command).facts(now)


def set_group(fleet: Fleet, command: SetGroup) -> Iterator[GroupSet]:
    """Give a group other terms."""
    if command.group not in fleet.groups:
        raise unknown("group", command.group, fleet.groups)
    old = fleet.groups[command.group].terms
    policy = replace(
        old.policy,
        **{key: value for key in Policy.__struct_fields__ if (value := getattr(command, key)) is not None},
    )
    terms = replace(
        old,
        policy=policy,
        approval=command.approval or old.approval,
        eviction=command.eviction or old.eviction,
        terminate_notice=old.terminate_notice
        if command.terminate_notice is msgspec.UNSET
        else command.terminate_notice,
    )
    check_terms(terms)
    check_quorum(terms, len(fleet.groups[command.group].vms))
    if terms != old:
        yield GroupSet(terms)


def check_name(kind: str, name: str) -> None:
    """Refuse a name that could not stand in a document, a file or a command."""
    if not NAME.fullmatch(name):
        raise Refused(
            f"{kind} {name!r} is no good name: use up to 80 letters, digits, '.', '_' and '-', "
            "beginning with a letter, a digit or '_'"
        )


def check_terms(terms: GroupTerms) -> None:
    """Refuse terms that contradict each other."""
    check_name("group", terms.name)
    _check_policy(terms)
    if terms.terminate_notice is None:
        return
    if terms.kind is not GroupKind.SCALE_SET:
        raise Refused(f"group {terms.name!r}: terminate_notice is for scale-set groups; this is {terms.kind}")
    if terms.terminate_notice not in _TERMINATE_NOTICE:
        raise Refused(f"group {terms.name!r}: terminate_notice must be from PT5M to PT15M")


def check_quorum(terms: GroupTerms, members: int) -> None:
    """Refuse a quorum that the group can never reach."""
    if terms.policy.quorum > members:
        raise Refused(
            f"group {terms.name!r}: a quorum of {terms.policy.quorum} is more than its {members} VMs can reach"
        )


def _check_policy(terms: GroupTerms) -> None:
    policy = terms.policy
    if (terms.approval is ApprovalRule.QUORUM) != (policy.quorum > 0):
        raise Refused(f"group {terms.name!r}: approval = quorum and quorum = N (1 or more) go together")
    if policy.postpone_limit not in _POSTPONE_LIMIT:
        raise Refused(f"group {terms.name!r}: postpone_limit must be from 0 to {_POSTPONE_LIMIT[-1]} s")
    try:
        quiet.check(policy.quiet_hours)
    except Refused as refused:
        raise Refused(f"group {terms.name!r}: {refused}") from None


class _Change:
    """A change of the fleet while it is checked."""

    def __init__(self, fleet: Fleet, command: ChangeFleet) -> None:
        self._fleet = fleet
        self._cancel_events = command.cancel_events
        self._hosts = _declared("host", command.hosts)
        self._groups = _declared("group", command.groups)
        self._vms = {name: self._keep_run_time(vm) for name, vm in _declared("VM", command.vms).items()}
        self._gone_hosts = _removed("host", command.removed_hosts, fleet.hosts, self._hosts)
        self._gone_groups = _removed("group", command.removed_groups, fleet.groups, self._groups)
        self._gone_vms = _removed("VM", command.removed_vms, fleet.vms, self._vms)

    def facts(self, now: datetime) -> Iterator[AnyFact]:
        for terms in self._groups.values():
            self._check_group(terms)
        for vm in self._vms.values():
            self._check_vm(vm)
        check_addresses(self._fleet, self._vms, self._gone_vms)
        self._check_members()
        self._check_hosts_left()
        for event in self._unhinged_events():
            yield lifecycle.cancel(event, now, "the VM's place in the fleet was changed")
        change = FleetChanged(
            hosts=tuple(_new(self._hosts.values(), self._fleet.hosts)),
            groups=tuple(
                terms
                for terms in self._groups.values()
                if terms.name not in self._fleet.groups or self._fleet.groups[terms.name].terms != terms
            ),
            vms=tuple(_new(self._vms.values(), self._fleet.vms)),
            removed_hosts=tuple(self._gone_hosts),
            removed_groups=tuple(self._gone_groups),
            removed_vms=tuple(self._gone_vms),
        )
        if change != FleetChanged():
            yield change

    def _keep_run_time(self, vm: Vm) -> Vm:
        """Keep what happened at run time, unless that very key is declared anew."""
        old = self._fleet.vms.get(vm.name)
        if old is None:
            return replace(vm, moved_to="", deallocated=False)
        return replace(vm, moved_to=old.moved_to if vm.host == old.host else "", deallocated=old.deallocated)

    def _check_group(self, terms: GroupTerms) -> None:
        check_terms(terms)
        old = self._fleet.groups.get(terms.name)
        if old and old.terms.kind is not terms.kind and self._fleet.events_of(terms.name):
            raise Refused(f"group {terms.name!r} has unfinished events; its kind cannot change before they end")

    def _check_vm(self, vm: Vm) -> None:
        if self._terms_of(vm.group) is None:
            known = chain(self._groups, (name for name in self._fleet.groups if name not in self._gone_groups))
            raise Refused(f"VM {vm.name!r}: {unknown('group', vm.group, known)}")
        is_known_host = vm.host in self._hosts or (vm.host in self._fleet.hosts and vm.host not in self._gone_hosts)
        if vm.host and not is_known_host:
            known = chain(self._hosts, (name for name in self._fleet.hosts if name not in self._gone_hosts))
            raise Refused(f"VM {vm.name!r}: {unknown('host', vm.host, known)}")
        if vm.update_domain not in _DOMAINS or vm.fault_domain not in _DOMAINS:
            raise Refused(f"VM {vm.name!r}: update_domain and fault_domain must be from 0 to {_DOMAINS[-1]}")

    def _check_members(self) -> None:
        touched = {vm.group for vm in self._vms.values()} | self._groups.keys()
        left = {self._fleet.vms[name].group for name in (*self._vms, *self._gone_vms) if name in self._fleet.vms}
        joining: dict[str, list[str]] = {}
        for vm in self._vms.values():
            joining.setdefault(vm.group, []).append(vm.name)
        for group in sorted(touched | left | self._gone_groups.keys()):
            self._check_membership(group, joining.get(group, []))

    def _check_membership(self, name: str, joining: list[str]) -> None:
        old = self._fleet.groups.get(name)
        stay = [vm for vm in old.vms if vm not in self._vms and vm not in self._gone_vms] if old else []
        members = stay + joining
        terms = self._terms_of(name)
        if terms is None:
            if members:
                raise Refused(f"group {name!r} cannot be removed: VM {members[0]!r} belongs to it")
            return
        is_wanted = name in self._groups or members
        if terms.kind is GroupKind.STANDALONE and len(members) != 1 and is_wanted:
            raise Refused(f"group {name!r} is standalone and must have exactly one VM; it would have {len(members)}")
        check_quorum(terms, len(members))
        # Azure: clients compare resource names without regard to case.
        folded: dict[str, str] = {}
        for vm in members:
            other = folded.setdefault(vm.lower(), vm)
            if other != vm:
                raise Refused(f"VMs {other!r} and {vm!r} of group {name!r} differ only in upper and lower case")

    def _check_hosts_left(self) -> None:
        for host in self._gone_hosts:
            for name in sorted(self._fleet.vms_on(host)):
                vm = self._vms.get(name, self._fleet.vms[name])
                if name not in self._gone_vms and vm.standing_on == host:
                    raise Refused(f"host {host!r} cannot be removed: VM {name!r} stands on it")

    def _unhinged_events(self) -> list[Event]:
        """Return the Scheduled events that cannot stay; refuse the change where that was not asked for."""
        unhinged: dict[str, Event] = {}
        for name in (*self._gone_vms, *self._vms):
            old = self._fleet.vms.get(name)
            new = self._vms.get(name)
            if old is None or (new and all(getattr(old, key) == getattr(new, key) for key in _UNHINGED_BY)):
                continue
            for event in self._fleet.events_on(name):
                if event.status is EventStatus.STARTED:
                    raise Refused(f"VM {name!r} is under event {event.id}, which has started; wait until it ends")
                if not self._cancel_events:
                    raise Refused(
                        f"VM {name!r} has the unfinished event {event.id}; cancel it, or pass --cancel-events"
                    )
                unhinged[event.id] = event
        return list(unhinged.values())

    def _terms_of(self, group: str) -> GroupTerms | None:
        if group in self._groups:
            return self._groups[group]
        old: Group | None = None if group in self._gone_groups else self._fleet.groups.get(group)
        return old.terms if old else None


def _declared(kind: str, records: Iterable[_Record]) -> dict[str, _Record]:
    declared: dict[str, _Record] = {}
    for record in records:
        check_name(kind, record.name)
        if declared.setdefault(record.name, record) is not record:
            raise Refused(f"{kind} {record.name!r} is declared twice")
    return declared


def _removed(kind: str, names: Iterable[str], known: Collection[str], declared: Collection[str]) -> dict[str, None]:
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)
        if name in declared:
            raise Refused(f"{kind} {name!r} is both declared and removed")
    return dict.fromkeys(names)


def _new(records: Iterable[_Record], known: dict[str, _Record]) -> Iterator[_Record]:
    return (record for record in records if known.get(record.name) != record)
