"""The fleet file as it is sent to the control API, and what is told of it: records that both ends know."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from forewarn.control.bodies import ApiBody, OneLine
from forewarn.core.commands import ApplyDeclaration
from forewarn.core.declared_keys import DeclarationConflict, RecordDifference, RecordKind, ReplacedValue
from forewarn.core.model import Caller, GroupTerms, Host, Vm


class DeclarationBody(ApiBody, frozen=True, kw_only=True):
    """A fleet file, as its difference to the declaration last applied."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
    seen: int = 0
    """``revision`` of the declaration that the difference was computed from; 409 when it is out of date."""
    digest: Annotated[str, Meta(max_length=64, pattern="^[0-9a-f]*$")] = ""
    """The SHA-256 of the file's bytes, by which a start recognises the same file."""
    source: OneLine = ""
    """The file's name."""
    exact: bool = False
    """Make the fleet equal to the file, whatever was changed at run time."""
    cancel_events: bool = False
    """Cancel what is Scheduled for VMs that leave their place, instead of refusing."""
    yes: bool = False
    """Carry out removals that a start held back because there were too many."""

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
        """Return what is asked for."""
        return ApplyDeclaration(id=id_, by=by, **msgspec.structs.asdict(self))


class DeclarationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the declaration last applied."""

    revision: int
    """How many declarations were applied; 0 before the first."""
    digest: str
    source: str
    is_missing: bool
    """The fleet was made by a release that recorded no declaration; the fleet itself stands for it here."""
    changes: int
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    next: str | None = None


class HeldView(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is held."""

    kind: RecordKind
    name: str
    change: str
    """``removal``, ``addition``, or which keys change."""
    reason: str
    detail: str
    """The whole of it in one sentence."""


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is added, changed or removed."""

    action: Literal["add", "change", "remove"]
    kind: RecordKind
    name: str
    keys: dict[str, tuple[object, object]] = {}
    """The old value and the new one."""


class BlockedView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is in the way of a change."""

    vm: str
    event: str
    status: str


class PlanView(msgspec.Struct, frozen=True, kw_only=True):
    """What applying a fleet file would do."""

    revision: int
    is_first: bool
    """Nothing is changed: the release before recorded no declaration, so that this one is recorded first."""
    changes: tuple[RecordChange, ...] = ()
    blocked: tuple[BlockedView, ...] = ()
    """The events in the way; without ``cancel_events`` the file is refused."""
    conflicts: tuple[DeclarationConflict, ...] = ()
    """The entries that the fleet has no room for; the file is refused."""
    canceled: tuple[str, ...] = ()
    held: tuple[HeldView, ...] = ()
    replaced: tuple[ReplacedValue, ...] = ()
    differences: tuple[RecordDifference, ...] = ()
    """What stays otherwise than the file has it."""


class DifferencesView(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet has otherwise than the fleet file, and what is held."""

    revision: int
    source: str
    total: int
    differences: tuple[RecordDifference, ...]
    held: tuple[HeldView, ...]
