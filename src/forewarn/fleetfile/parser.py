"""Parses and validates a fleet file as a whole, before anything changes."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from forewarn.config import toml
from forewarn.core.addresses import has_interface
from forewarn.core.errors import BadInput, Refused, nearest
from forewarn.core.model import GroupKind, GroupTerms, Host, Vm
from forewarn.core.terms import check_quorum, describe_name_difference, normalize_name
from forewarn.fleetfile.tables import InvalidTable, read_group, read_host, read_vm

_TABLES = ("host", "group", "vm")
_Record = TypeVar("_Record", Host, GroupTerms, Vm)


class DesiredFleet(msgspec.Struct, frozen=True):
    """The desired hosts, groups and VMs, by name."""

    hosts: dict[str, Host] = {}
    groups: dict[str, GroupTerms] = {}
    vms: dict[str, Vm] = {}


def read_fleet_file(path: Path) -> DesiredFleet:
    """Read a fleet file; raise BadInput that names the line, the table and the remedy."""
    return parse_fleet(toml.read(path))


def parse_fleet(file: toml.TomlFile) -> DesiredFleet:
    for key in file.tables:
        if key not in _TABLES:
            raise BadInput(
                f"{file.place(key)}: there is no table {key!r}"
                f"{nearest(key, _TABLES) or '; a fleet file holds [[host]], [[group]] and [[vm]]'}"
            )
    hosts = _records(file, "host", read_host)
    groups = _records(file, "group", read_group)
    vms = _records(file, "vm", read_vm)
    _check_places(file, hosts, groups, vms)
    _check_alone(file, groups, vms)
    _check_quorums(file, groups, vms)
    _check_spelling(file, vms)
    _check_addresses(file, vms)
    return DesiredFleet(hosts, groups, vms)


def _records(
    file: toml.TomlFile, kind: str, read_table: Callable[[dict[str, object]], _Record]
) -> dict[str, _Record]:
    records: dict[str, _Record] = {}
    for number, table in enumerate(_tables(file, kind)):
        try:
            record = read_table(table)
        except InvalidTable as error:
            given = table.get("name")
            _refuse(file, kind, number, error.key, str(error), given if isinstance(given, str) else "")
        if record.name in records:
            first = list(records).index(record.name) + 1
            _refuse(
                file, kind, number, "name", f"[[{kind}]] {first} has that name already; names are unique", record.name
            )
        records[record.name] = record
    return records


def _tables(file: toml.TomlFile, kind: str) -> Iterator[dict[str, object]]:
    tables = file.tables.get(kind, [])
    if not isinstance(tables, list):
        raise BadInput(f"{file.place(kind)}: {kind} is a list of tables; write [[{kind}]], with two brackets")
    for number, table in enumerate(tables):
        if not isinstance(table, dict):
            raise BadInput(f"{file.place(kind, number)}: {kind} is a list of tables; write each as [[{kind}]]")
        yield table


def _check_places(
    file: toml.TomlFile, hosts: dict[str, Host], groups: dict[str, GroupTerms], vms: dict[str, Vm]
) -> None:
    """Check that VMs name known groups and hosts; add the groups of standalone VMs."""
    declared = frozenset(groups)
    for number, vm in enumerate(vms.values()):
        if vm.group not in declared:
            if vm.group != vm.name:
                remedy = nearest(vm.group, declared) or "; declare it as [[group]]"
                _refuse(file, "vm", number, "group", f"there is no group {vm.group!r}{remedy}", vm.name)
            groups[vm.name] = GroupTerms(vm.name, GroupKind.STANDALONE)
        if vm.host and vm.host not in hosts:
            remedy = nearest(vm.host, hosts) or "; declare it as [[host]]"
            _refuse(file, "vm", number, "host", f"there is no host {vm.host!r}{remedy}", vm.name)


def _check_alone(file: toml.TomlFile, groups: dict[str, GroupTerms], vms: dict[str, Vm]) -> None:
    """Check that a standalone group has exactly one VM."""
    alone: dict[str, str] = {}
    for number, vm in enumerate(vms.values()):
        if groups[vm.group].kind is GroupKind.STANDALONE and alone.setdefault(vm.group, vm.name) != vm.name:
            said = f"group {vm.group!r} is standalone and has {alone[vm.group]!r} already; use another kind of group"
            _refuse(file, "vm", number, "group", said, vm.name)
    for number, terms in enumerate(groups.values()):
        if terms.kind is GroupKind.STANDALONE and terms.name not in alone:
            said = "it is standalone and has no VM; add one, or remove the group"
            _refuse(file, "group", number, "kind", said, terms.name)


def _check_quorums(file: toml.TomlFile, groups: dict[str, GroupTerms], vms: dict[str, Vm]) -> None:
    """Check that no group needs more approvals than it has VMs."""
    if not any(terms.policy.quorum for terms in groups.values()):
        return
    members = Counter(vm.group for vm in vms.values())
    for number, terms in enumerate(groups.values()):
        try:
            check_quorum(terms, members[terms.name])
        except Refused as refused:
            said = str(refused).removeprefix(f"group {terms.name!r}: ")
            _refuse(file, "group", number, "quorum", said, terms.name)


def _check_spelling(file: toml.TomlFile, vms: dict[str, Vm]) -> None:
    """Check that clients can distinguish the names of a group's VMs."""
    spelled: dict[tuple[str, str], str] = {}
    for number, vm in enumerate(vms.values()):
        other = spelled.setdefault((vm.group, normalize_name(vm.name)), vm.name)
        if other != vm.name:
            how = describe_name_difference(vm.name, other)
            said = f"{other!r} of the same group differs only {how}; choose another name"
            _refuse(file, "vm", number, "name", said, vm.name)


def _check_addresses(file: toml.TomlFile, vms: dict[str, Vm]) -> None:
    """Check that each VM has its own address, tap and mark."""
    owners: dict[str, Vm] = {}
    interfaces: dict[str | int, str] = {}
    for number, vm in enumerate(vms.values()):
        for key, given in (("tap", vm.interface.tap), ("mark", vm.interface.mark)):
            if given and interfaces.setdefault(given, vm.name) != vm.name:
                said = f"{key} {given} already belongs to {interfaces[given]!r}; taps and marks are unique"
                _refuse(file, "vm", number, key, said, vm.name)
        other = owners.setdefault(vm.address, vm) if vm.address else vm
        if other is not vm and not (has_interface(vm) and has_interface(other)):
            said = (
                f"address {vm.address} already belongs to {other.name!r}; addresses are unique,"
                " except for VMs that each have a tap or a mark"
            )
            _refuse(file, "vm", number, "address", said, vm.name)


def _refuse(file: toml.TomlFile, kind: str, number: int, key: str, said: str, name: str) -> NoReturn:
    path = (kind, number, key) if key else (kind, number)
    shown = f" {name!r}" if name else ""
    raise BadInput(f"{file.place(*path)}: [[{kind}]] {number + 1}{shown}: {said}")
