"""Drift: differences between the fleet and its fleet file."""

from collections.abc import Iterable, Iterator

from forewarn.core.declared_keys import DeclaredRecord, RecordDifference, RecordKind, differing_values, keys_of
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.core.proposal import Proposal
from forewarn.core.reconcile import DesiredRecords, RecordKey


def find_drift(
    fleet: Fleet, wanted: DesiredRecords | None = None, change: Proposal | None = None
) -> Iterator[RecordDifference]:
    """Yield the differences from the declaration last applied; with a plan, those that remain after it."""
    wanted, change = wanted or {}, change or Proposal()
    if not (fleet.last_applied.covers_fleet or wanted):
        return
    for kind, name in dict.fromkeys(_candidates(fleet, wanted)):
        key = kind, name
        declared = wanted[key] if key in wanted else fleet.declared(kind, name)
        current = change.record_of(fleet, kind, name)
        if (declared is None or current is None) and _is_alone(declared or current):
            continue  # it is created and removed with its VM, which is reported
        if found := compare_records(kind, name, declared, current):
            yield found


def compare_records(
    kind: RecordKind, name: str, declared: DeclaredRecord | None, current: DeclaredRecord | None
) -> RecordDifference | None:
    """Return the difference between a record and its declaration; None if there is none."""
    if declared is None or current is None:
        if declared is current:
            return None
        return RecordDifference(kind, name, is_declared=declared is not None, is_present=current is not None)
    mine, theirs = keys_of(declared), keys_of(current)
    if isinstance(current, Vm):
        theirs["host"] = current.standing_on
    found = differing_values(mine, theirs)
    return RecordDifference(kind, name, keys=found) if found else None


def _is_alone(record: DeclaredRecord | None) -> bool:
    return isinstance(record, GroupTerms) and record.kind is GroupKind.STANDALONE


def _candidates(fleet: Fleet, wanted: DesiredRecords) -> Iterator[RecordKey]:
    last = fleet.last_applied
    yield from wanted
    for kind, differing in last.differing.items():
        yield from ((kind, name) for name in differing)
    if not last.covers_fleet:
        everything: Iterable[tuple[RecordKind, Iterable[str]]] = (
            (RecordKind.HOST, fleet.hosts),
            (RecordKind.GROUP, fleet.groups),
            (RecordKind.VM, fleet.vms),
        )
        for kind, names in everything:
            yield from ((kind, name) for name in names)
    yield from ((RecordKind.VM, vm.name) for vm in fleet.vms.values() if vm.moved_to)
