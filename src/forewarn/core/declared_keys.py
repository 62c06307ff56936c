"""Hosts, groups and VMs as keys of a fleet file, and the differences between two records."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from forewarn.core.model import NO_LABELS, GroupTerms, Host, InstanceFacts, Interface, Policy, Vm

DeclaredRecord = Host | GroupTerms | Vm
"""A declared record: a host, group or VM."""

_Record = TypeVar("_Record", Host, GroupTerms, Vm)

_NESTED: dict[str, tuple[str, ...]] = {
    "policy": Policy.__struct_fields__,
    "interface": Interface.__struct_fields__,
    "instance": InstanceFacts.__struct_fields__,
}
LABEL = "labels."
"""What the key of a label begins with, as a key of its record."""
_NOT_KEYS = frozenset({"name", "moved_to", "deallocated"})
_GO_TOGETHER = (frozenset({"approval", "quorum"}), frozenset({"kind", "terminate_notice"}))
"""Keys that belong together: a change of one includes the other."""


class RecordKind(StrEnum):
    """Kinds of declared records."""

    HOST = "host"
    GROUP = "group"
    VM = "vm"


class HoldReason(StrEnum):
    """The cause of a held change."""

    EVENT = "event"
    """An unfinished event of the VM."""
    IN_USE = "in-use"
    """Another record uses it: a VM of the group or on the host, or the owner of an address."""
    TOO_MANY = "too-many"
    """Confirmation by the operator: a start never removes more than 20 % of the VMs."""


class RecordName(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The kind and name of a record."""

    kind: RecordKind
    name: str


class HeldChange(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A change of the fleet file that is held; the declaration already contains the new record."""

    kind: RecordKind
    name: str
    reason: HoldReason
    keys: tuple[str, ...] = ()
    """The held keys; none if the record is to be added or removed."""
    because: str = ""
    """The id of the blocking event; else a description of the obstacle."""
    is_removal: bool = False
    cancel_events: bool = False
    """Only a Started event blocks it: Scheduled ones were canceled by request."""

    @property
    def key(self) -> tuple[RecordKind, str]:
        return self.kind, self.name

    @property
    def action(self) -> str:
        """A description of the held change."""
        if self.keys:
            return f"change of {', '.join(self.keys)}"
        return "removal" if self.is_removal else "addition"


class DeclarationConflict(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An entry of the file that conflicts with the fleet, with the reason."""

    kind: RecordKind
    name: str
    said: str
    other: str = ""
    """The conflicting VM."""


class ReplacedValue(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A run-time value that was replaced by the file's value."""

    kind: RecordKind
    name: str
    key: str
    value: str
    """As JSON."""


class RecordDifference(msgspec.Struct, frozen=True):
    """A record that differs from the file."""

    kind: RecordKind
    name: str
    is_declared: bool = True
    is_present: bool = True
    keys: dict[str, tuple[object, object]] = {}
    """The values of the file and of the fleet, for each differing key."""


def kind_of(record: DeclaredRecord) -> RecordKind:
    match record:
        case Host():
            return RecordKind.HOST
        case GroupTerms():
            return RecordKind.GROUP
        case Vm():
            return RecordKind.VM


def declared_form(record: DeclaredRecord) -> DeclaredRecord:
    """Return the record without run-time state."""
    match record:
        case Vm(moved_to="", deallocated=False) | GroupTerms() | Host():
            return record
        case Vm():
            return replace(record, moved_to="", deallocated=False)


def keys_of(record: DeclaredRecord) -> dict[str, object]:
    """Return the record's keys but its name, each with its value. Each label is a key of its own: ``labels.rack``."""
    keys = asdict(declared_form(record))
    if labels := keys.pop("labels", None):
        keys |= {f"{LABEL}{key}": value for key, value in labels.items()}
    for nested in _NESTED:
        if nested in keys:
            keys |= asdict(keys.pop(nested))
    return {key: value for key, value in keys.items() if key not in _NOT_KEYS}


def with_labels(labels: dict[str, str], changed: Mapping[str, object]) -> dict[str, str]:
    """Return labels with some of them changed; None takes one away."""
    found = {key: str(value) for key, value in {**labels, **changed}.items() if value is not None}
    return dict(sorted(found.items())) if found else NO_LABELS


def differing_keys(one: DeclaredRecord, other: DeclaredRecord) -> frozenset[str]:
    """Return the keys with different values; keys that belong together are both included."""
    if one == other:
        return frozenset()
    found = frozenset(differing_values(keys_of(one), keys_of(other)))
    for family in _GO_TOGETHER:
        if found & family:
            found |= family
    return found


def differing_values(one: dict[str, object], other: dict[str, object]) -> dict[str, tuple[object, object]]:
    """Return the keys with different values, each with both; None stands for a label that is absent."""
    return {key: (one.get(key), other.get(key)) for key in one | other if one.get(key) != other.get(key)}


def with_keys(record: _Record, source: _Record, keys: Iterable[str]) -> _Record:
    """Return the record with the values of ``source`` for these keys."""
    given = keys_of(source)
    values = {key: given.get(key) for key in keys}
    changed = {key.removeprefix(LABEL): values.pop(key) for key in list(values) if key.startswith(LABEL)}
    if changed and not isinstance(record, GroupTerms):
        values["labels"] = with_labels(record.labels, changed)
    for nested, fields in _NESTED.items():
        inner = {key: values.pop(key) for key in fields if key in values}
        if inner:
            values[nested] = replace(getattr(record, nested), **inner)
    return replace(record, **values)
