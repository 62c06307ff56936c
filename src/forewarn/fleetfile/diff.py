"""Diff between the current fleet and the desired fleet; state changed at run time is kept."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from forewarn.core.declared_keys import DeclaredRecord, RecordKind
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Host, Vm

if TYPE_CHECKING:
    from forewarn.fleetfile.parser import DesiredFleet

_Record = TypeVar("_Record", Host, GroupTerms, Vm)


class CurrentFleet(msgspec.Struct, frozen=True):
    """The declared records of the fleet, with the run-time state of its VMs."""

    hosts: dict[str, Host] = {}
    groups: dict[str, GroupTerms] = {}
    vms: dict[str, Vm] = {}

    @classmethod
    def of(cls, fleet: Fleet) -> "CurrentFleet":
        """Return the records of the fleet; a view, valid until the fleet changes."""
        groups = {name: group.terms for name, group in fleet.groups.items()}
        return cls(hosts=fleet.hosts, groups=groups, vms=fleet.vms)

    @classmethod
    def last_applied(cls, fleet: Fleet) -> "CurrentFleet":
        """Return the records of the declaration last applied; unaffected by later changes."""
        last = fleet.last_applied
        if not last.covers_fleet:
            return cls()
        return cls(
            hosts=_overlaid(dict(fleet.hosts), last.differing[RecordKind.HOST]),
            groups=_overlaid(cls.of(fleet).groups, last.differing[RecordKind.GROUP]),
            vms=_overlaid(dict(fleet.vms), last.differing[RecordKind.VM]),
        )


class FleetDiff(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes from the current to the desired fleet: the fields of ``ChangeFleet``."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != FleetDiff()


def diff_fleet(desired: "DesiredFleet", declared: CurrentFleet) -> FleetDiff:
    """Return what has to change; run-time state is kept unless the file changes that very key."""
    removed_vms = _absent(declared.vms, desired.vms)
    alone = {declared.vms[name].group for name in removed_vms}
    return FleetDiff(
        hosts=_different(desired.hosts.values(), declared.hosts),
        groups=_different(desired.groups.values(), declared.groups),
        vms=_different((_kept(vm, declared.vms.get(vm.name)) for vm in desired.vms.values()), declared.vms),
        removed_hosts=_absent(declared.hosts, desired.hosts),
        removed_groups=tuple(
            name
            for name in _absent(declared.groups, desired.groups)
            # A standalone group is removed together with its VM.
            if not (declared.groups[name].kind is GroupKind.STANDALONE and name in alone)
        ),
        removed_vms=removed_vms,
    )


def _overlaid(records: dict[str, _Record], differing: Mapping[str, DeclaredRecord | None]) -> dict[str, _Record]:
    for name, record in differing.items():
        if record is None:
            records.pop(name, None)
        else:
            records[name] = cast("_Record", record)
    return records


def _kept(vm: Vm, known: Vm | None) -> Vm:
    if known is None or not (known.moved_to or known.deallocated):
        return vm
    moved_to = known.moved_to if known.host == vm.host else ""
    return msgspec.structs.replace(vm, moved_to=moved_to, deallocated=known.deallocated)


def _different(desired: Iterable[_Record], declared: dict[str, _Record]) -> tuple[_Record, ...]:
    return tuple(record for record in desired if declared.get(record.name) != record)


def _absent(declared: dict[str, _Record], desired: dict[str, _Record]) -> tuple[str, ...]:
    return tuple(name for name in declared if name not in desired)
