"""Bodies and views of the fleet file in the control API, shared by client and server."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from forewarn.control.bodies import ApiBody, OneLine
from forewarn.core.commands import ApplyDeclaration
from forewarn.core.declared_keys import DeclarationConflict, RecordDifference, RecordKind, ReplacedValue
from forewarn.core.model import Caller, GroupTerms, Host, Vm


class DeclarationBody(ApiBody, frozen=True, kw_only=True):
    """A fleet file, as its diff to the declaration last applied."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    seen: int = 0
    """``revision`` of the declaration that the diff is based on; 409 if it is out of date."""
    digest: Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]*$")] = ""
    """The SHA-256 of the file, by which a start recognises an unchanged file."""
    source: OneLine = ""
    """The file's name."""
    exact: bool = False
    """Make the fleet equal to the file, whatever was changed at run time."""
    cancel_events: bool = False
    """Cancel Scheduled events of VMs that are removed or moved, instead of refusing."""
    yes: bool = False
    """Carry out removals that a start has held because there were too many."""

    @property
    def identity(self) -> "DeclarationBody":
        """What makes it the same request as another: the file, where it is known, and not its difference.

        The difference is another one as soon as the file was applied.
        """
        if not self.digest:
            return self
        return DeclarationBody(
            digest=self.digest,
            source=self.source,
            exact=self.exact,
            cancel_events=self.cancel_events,
            yes=self.yes,
        )

    def command(self, id_: str, by: Caller) -> ApplyDeclaration:
        """Return the command."""
        return ApplyDeclaration(id=id_, by=by, **msgspec.structs.asdict(self))


class DeclarationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the declaration last applied."""

    revision: int
    """Number of declarations applied; 0 before the first."""
    digest: str
    source: str
    is_missing: bool
    """The fleet was created by a release without declarations; the fleet itself is returned instead."""
    changes: int
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    next: str | None = None


class HeldView(msgspec.Struct, frozen=True, kw_only=True):
    """A held change."""

    kind: RecordKind
    name: str
    change: str
    """``removal``, ``addition``, or the keys that change."""
    reason: str
    detail: str
    """The change in one sentence."""


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is added, changed or removed."""

    action: Literal["add", "change", "remove"]
    kind: RecordKind
    name: str
    keys: dict[str, tuple[object, object]] = {}
    """The old and the new value."""


class BlockedView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that blocks a change."""

    vm: str
    event: str
    status: str


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a fleet file would change."""

    revision: int
    is_first: bool
    """Nothing is changed: the previous release recorded no declaration, so this one is only recorded."""
    changes: tuple[RecordChange, ...] = ()
    blocked: tuple[BlockedView, ...] = ()
    """Blocking events; without ``cancel_events`` the file is refused."""
    conflicts: tuple[DeclarationConflict, ...] = ()
    """Entries that conflict with the fleet; the file is refused."""
    canceled: tuple[str, ...] = ()
    held: tuple[HeldView, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()
    differences: tuple[RecordDifference, ...] = ()
    """Differences to the file that remain."""


class DifferencesView(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between fleet and fleet file, and held changes."""

    revision: int
    source: str
    total: int
    differences: tuple[RecordDifference, ...]
    held: tuple[HeldView, ...]
