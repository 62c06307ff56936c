"""Bodies that change or describe the fleet: hosts and groups, fleet files, and what differs from them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forewarn.control.bodies.fields import ApiBody, Name, OneLine
from forewarn.core.commands import ApplyDeclaration
from forewarn.core.declared_keys import DeclarationConflict, RecordDifference, RecordKind, ReplacedValue
from forewarn.core.model import ApprovalRule, Caller, EvictionPolicy, GroupKind, GroupTerms, Host, Policy, Vm
from forewarn.core.quiet_hours import MOST_PERIODS
from forewarn.core.terms import LONGEST_POSTPONEMENT, MOST_VMS, TERMINATE_NOTICE


class NewHostBody(ApiBody, frozen=True, kw_only=True):
    """A host to be added."""

    name: Name
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class TermsBody(ApiBody, frozen=True, kw_only=True):
    """Terms of a group; omitted fields are not changed."""

    approval: ApprovalRule | UnsetType = UNSET
    quorum: Annotated[int, Meta(ge=0, le=MOST_VMS)] | UnsetType = UNSET
    approve_user_reboot: bool | UnsetType = UNSET
    approve_user_redeploy: bool | UnsetType = UNSET
    approve_all_down: bool | UnsetType = UNSET
    restart_after_crash: bool | UnsetType = UNSET
    postpone_limit: Annotated[int, Meta(ge=0, le=LONGEST_POSTPONEMENT)] | UnsetType = UNSET
    """Seconds; 0 means no postponement."""
    quiet_hours: Annotated[tuple[OneLine, ...], Meta(max_length=MOST_PERIODS)] | UnsetType = UNSET
    terminate_notice: Annotated[int, Meta(ge=TERMINATE_NOTICE[0], le=TERMINATE_NOTICE[-1])] | UnsetType | None = UNSET
    """Seconds; null means none."""
    eviction: EvictionPolicy | UnsetType = UNSET


class NewGroupBody(TermsBody, frozen=True, kw_only=True):
    """A group to be added, with its terms."""

    name: Name
    kind: GroupKind

    def terms(self) -> GroupTerms:
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not UNSET}
        policy = Policy(**{key: given.pop(key) for key in Policy.__struct_fields__ if key in given})
        return GroupTerms(**given, policy=policy)


class _FleetDiffBody(ApiBody, frozen=True, kw_only=True):
    """Records that are new, changed or removed."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    removed_hosts: tuple[str, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()


class FleetBody(_FleetDiffBody, frozen=True, kw_only=True):
    """Change of the fleet: new, changed and removed records. It is applied as a whole or not at all."""

    only_new: bool = False
    """Refuse records that exist, instead of changing them."""
    cancel_events: bool = False
    """Cancel Scheduled events of removed VMs, instead of refusing."""
    seen: int | None = None
    """``changes`` of the fleet that the change is based on; refused if it is out of date."""


class DeclaredPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the declared fleet: hosts, then groups, then VMs."""

    changes: int
    """Number of changes of the fleet; a change with this number as ``seen`` applies to exactly this fleet."""
    hosts: tuple[Host, ...] = ()
    groups: tuple[GroupTerms, ...] = ()
    vms: tuple[Vm, ...] = ()
    next: str | None = None


class DeclarationBody(_FleetDiffBody, frozen=True, kw_only=True):
    """A fleet file, as its diff to the declaration last applied."""

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
        """Return what identifies the request: the file, if known, and not its diff.

        The diff changes as soon as the file was applied.
        """
        if not self.digest:
            return self
        return DeclarationBody(
            digest=self.digest, source=self.source, exact=self.exact, cancel_events=self.cancel_events, yes=self.yes
        )

    def command(self, id_: str, by: Caller) -> ApplyDeclaration:
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
