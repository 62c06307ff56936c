"""The declaration last applied, stored as its differences from the fleet.

The declaration of a record is the fleet's own record without run-time state, unless ``differing`` has another. Only
differences cost memory, however large the fleet is.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter

import msgspec

from forewarn.core.chunks import CHUNK_SIZE, DeclarationHead, FleetChunk, chunks_of
from forewarn.core.declared_keys import (
    DeclaredRecord,
    HeldChange,
    HoldReason,
    RecordKind,
    RecordName,
    declared_form,
    kind_of,
)
from forewarn.core.model import GroupTerms, Host, Vm


class LastApplied:
    """The declaration and its held changes."""

    def __init__(self) -> None:
        self.revision = 0
        """The number of applied declarations; 0 before the first."""
        self.digest = ""
        """The digest of the file; empty if the file was not applied completely."""
        self.source = ""
        """The path of the file as given."""
        self.is_missing = False
        """The fleet is from a release that recorded no declaration."""
        self.differing: dict[RecordKind, dict[str, DeclaredRecord | None]] = {kind: {} for kind in RecordKind}
        """Declared records that differ from the fleet; None if the record is not declared."""
        self.waiting: dict[tuple[RecordKind, str], HeldChange] = {}
        """Changes that are carried out as soon as they are no longer blocked."""
        self.guarded: dict[tuple[RecordKind, str], HeldChange] = {}
        """Removals that wait for confirmation by the operator."""

    @property
    def covers_fleet(self) -> bool:
        """Return whether a record without a difference is declared (as in the fleet), or not declared."""
        return self.revision > 0 or self.is_missing

    def declared(self, kind: RecordKind, name: str, current: DeclaredRecord | None) -> DeclaredRecord | None:
        """Return the declared record of a name, given the fleet's record."""
        differing = self.differing[kind]
        if name in differing:
            return differing[name]
        return declared_form(current) if current is not None and self.covers_fleet else None

    def note(self, kind: RecordKind, name: str, before: DeclaredRecord | None, after: DeclaredRecord | None) -> None:
        """Keep the declared record while the fleet's record changes at run time."""
        if self.revision:
            self.declare(kind, name, self.declared(kind, name, before), after)

    def declare(
        self, kind: RecordKind, name: str, record: DeclaredRecord | None, current: DeclaredRecord | None
    ) -> None:
        """Declare another record, or none."""
        if record == (None if current is None else declared_form(current)):
            self.differing[kind].pop(name, None)
        else:
            self.differing[kind][name] = record

    def hold(self, changes: Iterable[HeldChange]) -> None:
        """Hold changes, each instead of an earlier one of the same record."""
        for change in changes:
            self.let_go(change.key)
            held = self.guarded if change.reason is HoldReason.TOO_MANY else self.waiting
            held[change.key] = change

    def let_go(self, key: tuple[RecordKind, str]) -> None:
        self.waiting.pop(key, None)
        self.guarded.pop(key, None)

    @property
    def held(self) -> list[HeldChange]:
        return [*self.waiting.values(), *self.guarded.values()]

    def held_change(self, kind: RecordKind, name: str) -> HeldChange | None:
        return self.waiting.get((kind, name)) or self.guarded.get((kind, name))

    def holds_removal(self, vm: str) -> bool:
        """Return whether a removal of the VM is held."""
        held = self.held_change(RecordKind.VM, vm)
        return held is not None and held.is_removal

    def absent(self, kind: RecordKind, present: Mapping[str, object]) -> Iterator[DeclaredRecord]:
        """Yield the declared records that are not in the fleet."""
        for name, record in self.differing[kind].items():
            if record is not None and name not in present:
                yield record

    def head(self) -> DeclarationHead | None:
        return None if self.is_missing else DeclarationHead(self.revision, self.digest, self.source)

    def parts(self, chunk_size: int = CHUNK_SIZE) -> Iterator[FleetChunk]:
        for kind, differing in self.differing.items():
            # Sorted by name: a fleet from a snapshot has another order.
            ordered = sorted(differing.items(), key=itemgetter(0))
            for names in chunks_of((name for name, record in ordered if record is None), chunk_size):
                yield FleetChunk(undeclared=tuple(RecordName(kind, name) for name in names))
            for records in chunks_of((record for _, record in ordered if record is not None), chunk_size):
                yield FleetChunk(
                    declared_hosts=tuple(each for each in records if isinstance(each, Host)),
                    declared_groups=tuple(each for each in records if isinstance(each, GroupTerms)),
                    declared_vms=tuple(each for each in records if isinstance(each, Vm)),
                )
        for held in chunks_of(self.held, chunk_size):
            yield FleetChunk(held=held)

    def take_in(self, part: FleetChunk) -> None:
        if part.declaration:
            self.revision, self.digest, self.source = msgspec.structs.astuple(part.declaration)
        for each in part.undeclared:
            self.differing[each.kind][each.name] = None
        records: Iterable[DeclaredRecord] = chain(part.declared_hosts, part.declared_groups, part.declared_vms)
        for record in records:
            self.differing[kind_of(record)][record.name] = record
        self.hold(part.held)
