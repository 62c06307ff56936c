"""Hosts, groups and VMs as the keys that a fleet file writes, and what differs between two records of one name."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from forewarn.core.model import GroupTerms, Host, InstanceFacts, Interface, Policy, Vm

DeclaredRecord = Host | GroupTerms | Vm
"""What a fleet file declares: one host, group or VM."""

_Record = TypeVar("_Record", Host, GroupTerms, Vm)

_NESTED: dict[str, tuple[str, ...]] = {
    "policy": Policy.__struct_fields__,
    "interface": Interface.__struct_fields__,
    "instance": InstanceFacts.__struct_fields__,
}
_NOT_KEYS = frozenset({"name", "moved_to", "deallocated"})
_GO_TOGETHER = (frozenset({"approval", "quorum"}), frozenset({"kind", "terminate_notice"}))
"""Keys that make sense only beside each other; a file that changes one gives the other too."""


class RecordKind(StrEnum):
    """What a table of a fleet file declares."""

    HOST = "host"
    GROUP = "group"
    VM = "vm"


class HoldReason(StrEnum):
    """What a held change waits for."""

    EVENT = "event"
    """The end of an unfinished event of the VM."""
    IN_USE = "in-use"
    """The end of another record's use of it: a VM of the group or on the host, or the owner of an address."""
    TOO_MANY = "too-many"
    """The operator's word: a start never removes more than a fifth of the VMs."""


class RecordName(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Which host, group or VM is meant."""

    kind: RecordKind
    name: str


class HeldChange(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A change of the fleet file that is not carried out yet; the declaration has the record that it leads to."""

    kind: RecordKind
    name: str
    reason: HoldReason
    keys: tuple[str, ...] = ()
    """The keys that wait; none when the record is to be added or removed."""
    because: str = ""
    """The id of the event that it waits for; else what is in its way, in words."""
    is_removal: bool = False
    cancel_events: bool = False
    """Only a Started event holds it: the operator had Scheduled ones canceled."""

    @property
    def key(self) -> tuple[RecordKind, str]:
        return self.kind, self.name

    @property
    def action(self) -> str:
        """What is held, in words."""
        if self.keys:
            return f"change of {', '.join(self.keys)}"
        return "removal" if self.is_removal else "addition"


class DeclarationConflict(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An entry of the file that the fleet has no room for, and why."""

    kind: RecordKind
    name: str
    said: str
    other: str = ""
    """The VM that is in the way."""


class ReplacedValue(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A value from run time that the file's value replaced."""

    kind: RecordKind
    name: str
    key: str
    value: str
    """As JSON."""


class RecordDifference(msgspec.Struct, frozen=True):
    """One record that is otherwise than the file has it."""

    kind: RecordKind
    name: str
    is_declared: bool = True
    is_present: bool = True
    keys: dict[str, tuple[object, object]] = {}
    """The file's value and the fleet's, where it has the record and the values differ."""


def kind_of(record: DeclaredRecord) -> RecordKind:
    match record:
        case Host():
            return RecordKind.HOST
        case GroupTerms():
            return RecordKind.GROUP
        case Vm():
            return RecordKind.VM


def declared_form(record: DeclaredRecord) -> DeclaredRecord:
    """Return the record without what happened to it at run time."""
    match record:
        case Vm(moved_to="", deallocated=False) | GroupTerms():
            return record
        case Vm():
            return replace(record, moved_to="", deallocated=False)
        case Host():
            return Host(record.name)


def keys_of(record: DeclaredRecord) -> dict[str, object]:
    """Return the record's keys but its name, each with its value."""
    keys = asdict(declared_form(record))
    for nested in _NESTED:
        if nested in keys:
            keys |= asdict(keys.pop(nested))
    return {key: value for key, value in keys.items() if key not in _NOT_KEYS}


def differing_keys(one: DeclaredRecord, other: DeclaredRecord) -> frozenset[str]:
    """Return the keys that have different values; those that go together come together."""
    if one == other:
        return frozenset()
    mine, theirs = keys_of(one), keys_of(other)
    found = frozenset(key for key, value in mine.items() if theirs[key] != value)
    for family in _GO_TOGETHER:
        if found & family:
            found |= family
    return found


def with_keys(record: _Record, source: _Record, keys: Iterable[str]) -> _Record:
    """Return the record with the values that ``source`` has for these keys."""
    given = keys_of(source)
    values = {key: given[key] for key in keys}
    for nested, fields in _NESTED.items():
        inner = {key: values.pop(key) for key in fields if key in values}
        if inner:
            values[nested] = replace(getattr(record, nested), **inner)
    return replace(record, **values)
