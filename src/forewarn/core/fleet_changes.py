"""Changes of hosts, groups and VMs at run time. A change is checked completely before anything changes."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.addresses import check_addresses
from forewarn.core.commands import ChangeFleet, SetGroup, SetHost, SetVm
from forewarn.core.declared_keys import with_keys, with_labels
from forewarn.core.errors import Refused, unknown
from forewarn.core.facts import AnyFact, Canceled, GroupSet
from forewarn.core.fleet import LOCATION_KEYS, Fleet
from forewarn.core.model import ApprovalRule, EventStatus, GroupTerms, Host, Policy, Vm
from forewarn.core.proposal import Proposal
from forewarn.core.terms import check_name, check_quorum, check_terms

_Record = TypeVar("_Record", Host, GroupTerms, Vm)


def change_fleet(fleet: Fleet, command: ChangeFleet, now: datetime) -> Iterator[AnyFact]:
    """Yield the changes; nothing if nothing differs."""
    if command.seen is not None and command.seen != fleet.changes:
        raise Refused("the fleet was changed in the meantime; look at it and apply again")
    hosts, groups = index_by_name("host", command.hosts), index_by_name("group", command.groups)
    vms = {name: _keep_run_time(fleet, vm) for name, vm in index_by_name("VM", command.vms).items()}
    change = Proposal(
        hosts=hosts,
        groups=groups,
        vms=vms,
        gone_hosts=_removed("host", command.removed_hosts, fleet.hosts, hosts),
        gone_groups=_removed("group", command.removed_groups, fleet.groups, groups),
        gone_vms=_removed("VM", command.removed_vms, fleet.vms, vms),
    )
    if command.only_new:
        _refuse_known(fleet, change)
    yield from _carry_out(fleet, change, now, cancel_events=command.cancel_events)


def _refuse_known(fleet: Fleet, change: Proposal) -> None:
    for kind, given, known in (
        ("host", change.hosts, fleet.hosts),
        ("group", change.groups, fleet.groups),
        ("VM", change.vms, fleet.vms),
    ):
        for name in given:
            if name in known:
                raise Refused(f"there is a {kind} {name!r} already; to change it: forewarn {kind.lower()} set {name}")


def set_vm(fleet: Fleet, command: SetVm, now: datetime) -> Iterator[AnyFact]:
    """Change some keys of a VM. Its host is not among them: a move changes that."""
    vm = fleet.vms.get(command.vm)
    if vm is None:
        raise unknown("VM", command.vm, fleet.vms)
    if "host" in command.keys:
        raise Refused(f"only a move changes the host of a VM: forewarn vm move {vm.name} HOST")
    changed = with_keys(vm, replace(command.values, name=vm.name), command.keys)
    change = Proposal(vms={vm.name: changed} if changed != vm else {})
    yield from _carry_out(fleet, change, now, cancel_events=command.cancel_events)


def set_host(fleet: Fleet, command: SetHost) -> Iterator[AnyFact]:
    host = fleet.hosts.get(command.host)
    if host is None:
        raise unknown("host", command.host, fleet.hosts)
    change = Proposal(hosts={host.name: replace(host, labels=with_labels(host.labels, command.labels))})
    for conflict in change.conflicts(fleet):
        raise Refused(conflict.said)
    if fact := change.fact(fleet, at_run_time=True):
        yield fact


def _carry_out(fleet: Fleet, change: Proposal, now: datetime, *, cancel_events: bool) -> Iterator[AnyFact]:
    check_addresses(change.vms)
    for conflict in change.conflicts(fleet):
        raise Refused(conflict.said)
    leaving = _leaving(fleet, change)
    _refuse_unfinished(fleet, leaving, cancel_events=cancel_events)
    yield from cancel_abandoned(fleet, leaving, now, "the VM's place in the fleet was changed")
    if fact := change.fact(fleet, at_run_time=True):
        yield fact


def set_group(fleet: Fleet, command: SetGroup) -> Iterator[GroupSet]:
    if command.group not in fleet.groups:
        raise unknown("group", command.group, fleet.groups)
    old = fleet.groups[command.group].terms
    policy = replace(
        old.policy, **{key: value for key in Policy.__struct_fields__ if (value := getattr(command, key)) is not None}
    )
    if command.approval not in (None, ApprovalRule.QUORUM) and command.quorum is None:
        policy = replace(policy, quorum=0)
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
        yield GroupSet(terms, old)


def index_by_name(kind: str, records: Iterable[_Record]) -> dict[str, _Record]:
    """Return records by name; refuse invalid and repeated names."""
    found: dict[str, _Record] = {}
    for record in records:
        check_name(kind, record.name)
        if found.setdefault(record.name, record) is not record:
            raise Refused(f"{kind} {record.name!r} is declared twice")
    return found


def _removed(kind: str, names: Iterable[str], known: Collection[str], declared: Collection[str]) -> dict[str, None]:
    removed: dict[str, None] = {}
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)
        if name in declared:
            raise Refused(f"{kind} {name!r} is both declared and removed")
        removed[name] = None
    return removed


def _keep_run_time(fleet: Fleet, vm: Vm) -> Vm:
    """Keep run-time state, unless the same key is declared anew."""
    old = fleet.vms.get(vm.name)
    if old is None:
        return replace(vm, moved_to="", deallocated=False)
    return replace(vm, moved_to=old.moved_to if vm.host == old.host else "", deallocated=old.deallocated)


def _leaving(fleet: Fleet, change: Proposal) -> dict[str, None]:
    """Return the VMs whose group, domain or other key changes that their events depend on."""
    moved = (
        name
        for name, vm in change.vms.items()
        if (old := fleet.vms.get(name)) and any(getattr(old, key) != getattr(vm, key) for key in LOCATION_KEYS)
    )
    leaving: dict[str, None] = {}
    for name in chain(change.gone_vms, moved):  # a loop lets other threads go on, ``dict.fromkeys`` does not
        leaving[name] = None
    return leaving


def _refuse_unfinished(fleet: Fleet, leaving: Iterable[str], *, cancel_events: bool) -> None:
    for name in leaving:
        for event in fleet.events_on(name):
            if event.status is EventStatus.STARTED:
                raise Refused(f"VM {name!r} is under event {event.id}, which has started; wait until it ends")
            if not cancel_events:
                raise Refused(f"VM {name!r} has the unfinished event {event.id}; cancel it, or pass --cancel-events")


def cancel_abandoned(fleet: Fleet, leaving: Collection[str], now: datetime, because: str) -> Iterator[Canceled]:
    """Cancel Scheduled events without remaining VMs; shared events stay for the others."""
    seen: set[str] = set()
    for name in leaving:
        for event in fleet.events_on(name):
            if event.id in seen or event.status is EventStatus.STARTED:
                continue
            seen.add(event.id)
            if all(other in leaving or fleet.vms[other].deallocated for other in event.vms):
                yield lifecycle.cancel(event, now, because)
