"""Cache of rendered documents, with an index from callers to VMs. It contains committed state only.

A ``VmEntry`` is a VM that may call; a ``GroupDocuments`` holds the documents of its group. A document is rendered at
its first request in an api-version and kept until the next change. Both records are small and contain no reference
cycles, so a million idle groups cost little memory and no garbage collection.
"""

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    ChangesHeld,
    ClockStepped,
    Delivered,
    EventStep,
    Fetched,
    FleetChanged,
    FleetDeclared,
    HostCordonSet,
    HostStateSet,
    ObservationRecorded,
    StartedAtOnce,
    SubscriptionRemoved,
    SubscriptionSet,
    TokenCreated,
    TokenRevoked,
    VmDeallocated,
    VmMoved,
    VmRemoved,
    VmStarted,
    VmSwitched,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, GroupKind, GroupTerms, Vm
from forewarn.core.rollouts.facts import RolloutFact
from forewarn.core.subjects import groups_of
from forewarn.metadata.identity import CALLER_LOOKUPS, Identity
from forewarn.node.feed import Commit
from forewarn.wire.document import render
from forewarn.wire.versions import API_VERSIONS, NEWEST

_EMPTY_KEPT = 10_000
_RenderedByVersion = list[bytes | None]


class GroupDocuments(msgspec.Struct, gc=False, eq=False):
    """Documents of one group."""

    terms: GroupTerms
    incarnation: int
    events: tuple[Event, ...]
    is_enrolled: bool
    is_listed: bool
    """Whether the group is in the list ``enrolled``, which the sweep reads."""
    asked: float
    """Time of the last request by one of its VMs, in seconds of the cache's clock."""
    marked: float
    """Time at which ``asked`` was last recorded."""
    asked_by: str = ""
    tag: bytes = b""
    """The ETag without its quotes."""
    rendered: _RenderedByVersion | None = None
    """The part of the response after the ETag, by api-version; None until the first request."""


class VmEntry(msgspec.Struct, gc=False, eq=False):
    """One VM that may call."""

    vm: Vm
    documents: GroupDocuments
    spent_until: float = 0.0
    shown: int = 0
    """The last incarnation with events that the VM was shown."""
    shown_in: int = 0
    """The api-versions in which it was shown, one bit each."""


class DocumentCache:
    """Documents by group, and VM entries by caller key, as of the last commit."""

    def __init__(self, seconds: Callable[[], float], identity: Identity = Identity.ADDRESS) -> None:
        self.vm_entries: dict[str, VmEntry] = {}
        """Entries of VMs that may call, by address, mark or tap. Keys that several VMs share are not included."""
        self.deallocated: dict[str, str] = {}
        """Names of deallocated VMs, which may not call, by address, mark or tap."""
        self.groups: dict[str, GroupDocuments] = {}
        self.enrolled: list[GroupDocuments] = []
        """The groups to sweep; a group that was switched off or removed stays until the next sweep."""
        self.changed: Callable[[str], None] = lambda _: None
        """Called with the name of a group after its document has changed or was removed."""
        self.left: Callable[[str], None] = lambda _: None
        """Called with the name of a group that VMs may have left."""
        self._entries_by_vm: dict[str, VmEntry] = {}
        self._empty: dict[int, _RenderedByVersion] = {}
        self._seconds = seconds
        self._keys = CALLER_LOOKUPS[identity]
        self._shared: set[str] = set()
        self._loads = 0
        self.replaced: Callable[[dict[str, VmEntry]], None] = lambda _: None
        """Called with ``vm_entries`` after a large commit has put another dictionary there."""
        self.awaited: Mapping[str, object] | None = None
        """The groups that ``changed`` and ``left`` are called for; all where there is None."""

    def entry_of_vm(self, name: str) -> VmEntry | None:
        """Return the entry of a VM; None if the VM is deallocated, because it may not call."""
        vm_entry = self._entries_by_vm.get(name)
        return None if vm_entry is None or vm_entry.vm.deallocated else vm_entry

    def is_deallocated(self, name: str) -> bool:
        vm_entry = self._entries_by_vm.get(name)
        return vm_entry is not None and vm_entry.vm.deallocated

    def is_shared(self, key: str) -> bool:
        """Return whether several VMs have this key, so that it identifies none of them."""
        return key in self._shared

    def load(self, fleet: Fleet) -> None:
        """Replace the content with this fleet; request times are kept."""
        self._loads += 1
        now = self._seconds()
        before = tuple(self.groups)
        groups = [*(self.groups.keys() - fleet.groups.keys()), *fleet.groups]
        changed = [name for name in groups if self._refresh_group(fleet, name, now, is_load=True)]
        self.vm_entries.clear()
        self.deallocated.clear()
        for name in [*(self._entries_by_vm.keys() - fleet.vms.keys()), *fleet.vms]:
            self._refresh_vm(fleet, name)
        for key in self._keys.owners(fleet).shared:
            self._assign(fleet, key)
        self._notify(changed, before)

    def prepare_commit(self, facts: tuple[AnyFact, ...], fleet: Fleet) -> "_PreparedContent":
        """Apply the changes of a large commit to a copy of the content; callers see none of it."""
        aside = DocumentCache(self._seconds)
        aside._keys = self._keys
        aside.vm_entries, aside.deallocated = self.vm_entries.copy(), self.deallocated.copy()
        aside.groups, aside._entries_by_vm = self.groups.copy(), self._entries_by_vm.copy()
        aside._shared = self._shared.copy()
        groups: dict[str, None] = {}
        vms: dict[str, None] = {}
        for fact in facts:
            self._collect(fact, fleet, groups, vms, self._seconds())
        made = _PreparedContent(
            self._loads,
            aside.vm_entries,
            aside.groups,
            aside._entries_by_vm,
            aside.deallocated,
            aside._shared,
            aside.enrolled,
            left=groups if vms else {},
        )
        for name in groups:
            aside._prepare_group(fleet, name, made)
        for name in vms:
            if name in fleet.vms and (vm_entry := aside._entries_by_vm.get(name)):
                aside._entries_by_vm[name] = copied = replace(vm_entry)
                made.copied.append((vm_entry, copied))
        aside._refresh_vms(fleet, vms)
        return made

    def _prepare_group(self, fleet: Fleet, name: str, made: "_PreparedContent") -> None:
        """Add or remove a group; one that callers may be reading now is changed when the commit is published."""
        group, documents = fleet.groups.get(name), self.groups.get(name)
        if documents is None:
            self._refresh_group(fleet, name, self._seconds())
        elif group is None:
            made.removed.append(self.groups.pop(name))
            made.changed.append(name)
        elif (
            documents.terms != group.terms
            or documents.incarnation != group.incarnation
            or documents.events != tuple(fleet.events_of(name))
        ):
            made.refreshed.append(name)

    def _take_over(self, made: "_PreparedContent", fleet: Fleet) -> None:
        """Show what was prepared, at once; what was noted of requests meanwhile is kept."""
        for old, new in made.copied:
            new.spent_until, new.shown, new.shown_in = old.spent_until, old.shown, old.shown_in
        for documents in made.removed:
            documents.is_enrolled = False
        # What is replaced goes to where it was prepared: freeing a million records takes long, and is done later.
        self.vm_entries, made.vm_entries = made.vm_entries, self.vm_entries
        self.groups, made.groups = made.groups, self.groups
        self._entries_by_vm, made.entries_by_vm = made.entries_by_vm, self._entries_by_vm
        self.deallocated, self._shared = made.deallocated, made.shared
        self.enrolled.extend(made.enrolled)
        self.replaced(self.vm_entries)
        now = self._seconds()
        changed = made.changed + [name for name in made.refreshed if self._refresh_group(fleet, name, now)]
        self._notify(changed, made.left)

    def publish(self, commit: Commit) -> None:
        """Apply the changes of one commit."""
        prepared = commit.prepared.get(id(self))
        if isinstance(prepared, _PreparedContent) and prepared.loads == self._loads:
            self._take_over(prepared, commit.fleet)
            return
        now = self._seconds()
        groups: dict[str, None] = {}
        vms: dict[str, None] = {}
        for entry in commit.entries:
            for fact in entry.facts:
                self._collect(fact, commit.fleet, groups, vms, now)
        changed = [name for name in groups if self._refresh_group(commit.fleet, name, now)]
        self._refresh_vms(commit.fleet, vms)
        self._notify(changed, groups if vms else ())

    def _refresh_vms(self, fleet: Fleet, vms: Iterable[str]) -> None:
        # First remove the keys of all changed VMs, so that two VMs can exchange keys.
        keys = {self._keys.of(vm_entry.vm) for name in vms if (vm_entry := self._entries_by_vm.get(name))}
        for key in keys:
            self.vm_entries.pop(key, None)
            self.deallocated.pop(key, None)
        for name in vms:
            self._refresh_vm(fleet, name)
        if self._shared or self._keys.owners(fleet).shared:
            for key in keys | {self._keys.of(vm) for name in vms if (vm := fleet.vms.get(name))}:
                self._assign(fleet, key)

    def _notify(self, changed: Iterable[str], left: Iterable[str]) -> None:
        """Call the change callbacks, once all entries are up to date: long polls are answered from them."""
        if (awaited := self.awaited) is not None:
            left = [name for name in left if name in awaited] if awaited else ()
            changed = [name for name in changed if name in awaited] if awaited else ()
        for name in left:
            self.left(name)
        for name in changed:
            self.changed(name)

    def _collect(
        self, fact: AnyFact, fleet: Fleet, groups: dict[str, None], vms: dict[str, None], now: float
    ) -> None:
        """Collect the groups and VMs that the fact affects."""
        match fact:
            case EventStep(group=group) if group:
                groups[group] = None
            case Announced(event=event) | StartedAtOnce(event=event):
                groups[event.group] = None
            case Asked(marks=marks):
                for mark in marks:
                    if documents := self.groups.get(mark.group):
                        documents.marked = now
            case Fetched(fetches=fetches):
                found = (fleet.events.get(fetch.event) for fetch in fetches)
                groups.update((event.group, None) for event in found if event)
            case FleetChanged():
                for name in groups_of(fact):  # a loop lets other threads go on, ``dict.fromkeys`` does not
                    groups[name] = None
                for vm in fact.vms:
                    self._collect_vm(vm.name, groups, vms)
                for name in fact.removed_vms:
                    self._collect_vm(name, groups, vms)
            case VmRemoved(vm=name) | VmDeallocated(vm=name) | VmStarted(vm=name) | VmMoved(vm=name):
                self._collect_vm(name, groups, vms)
            case (
                FleetDeclared()
                | ChangesHeld()
                | TokenCreated()
                | TokenRevoked()
                | SubscriptionSet()
                | SubscriptionRemoved()
                | Delivered()
                | ObservationRecorded()
                | HostStateSet()
                | HostCordonSet()
                | VmSwitched()
                | ClockStepped()
            ):
                pass  # for operators only; VMs are shown none of it
            case _ if isinstance(fact, RolloutFact):
                pass  # likewise; their events are facts of their own
            case _:
                groups.update(dict.fromkeys(groups_of(fact)))

    def _collect_vm(self, name: str, groups: dict[str, None], vms: dict[str, None]) -> None:
        vms[name] = None
        if vm_entry := self._entries_by_vm.get(name):
            groups[vm_entry.documents.terms.name] = None  # a standalone group is removed with its VM

    def _refresh_group(self, fleet: Fleet, name: str, now: float, *, is_load: bool = False) -> bool:
        """Update a group; return whether its document has changed or was removed."""
        group = fleet.groups.get(name)
        documents = self.groups.get(name)
        if group is None:
            if documents is not None:
                del self.groups[name]
                documents.is_enrolled = False
            return documents is not None
        events = tuple(fleet.events_of(name))
        if documents is None:
            documents = GroupDocuments(
                group.terms, group.incarnation, events, is_enrolled=False, is_listed=False, asked=now, marked=now
            )
            self.groups[name] = documents
        has_changed = documents.incarnation != group.incarnation or documents.terms.kind is not group.terms.kind
        # A journal that lost entries may have come to the same incarnation with other events.
        has_changed = has_changed or (is_load and documents.events != events)
        documents.terms = group.terms
        documents.incarnation = group.incarnation
        documents.events = events
        # A group that was already enrolled counts as having asked now; the journal knows which VM really asked, and
        # when.
        by = "" if is_load else group.asked_by
        self._set_enrolled(documents, is_enrolled=group.enrolled_at is not None, by=by, now=now)
        if has_changed:
            documents.rendered = None
        return has_changed

    def _set_enrolled(self, documents: GroupDocuments, *, is_enrolled: bool, by: str, now: float) -> None:
        if is_enrolled and not documents.is_enrolled:
            documents.asked = documents.marked = now
            documents.asked_by = by
            if not documents.is_listed:
                documents.is_listed = True
                self.enrolled.append(documents)
        documents.is_enrolled = is_enrolled

    def _refresh_vm(self, fleet: Fleet, name: str) -> None:
        vm = fleet.vms.get(name)
        if vm is None:
            self._entries_by_vm.pop(name, None)
            return
        documents = self.groups[vm.group]
        vm_entry = self._entries_by_vm.get(name)
        if vm_entry is None:
            vm_entry = self._entries_by_vm[name] = VmEntry(vm, documents)
        vm_entry.vm = vm
        vm_entry.documents = documents
        key = self._keys.of(vm)
        if key:
            self._place(key, vm_entry)

    def _place(self, key: str, vm_entry: VmEntry) -> None:
        if vm_entry.vm.deallocated:
            self.deallocated[key] = vm_entry.vm.name
        else:
            self.vm_entries[key] = vm_entry

    def _assign(self, fleet: Fleet, key: str) -> None:
        """Assign the key to the entry of its only owner; a key with several owners is marked as shared."""
        owners = self._keys.owners(fleet)[key]
        self._shared.discard(key)
        self.vm_entries.pop(key, None)
        self.deallocated.pop(key, None)
        if len(owners) > 1:
            self._shared.add(key)
        elif owners:
            self._place(key, self._entries_by_vm[owners[0]])

    def prepare(self, documents: GroupDocuments) -> _RenderedByVersion:
        """Prepare a group's documents for rendering; no api-version is rendered yet."""
        name = quote(documents.terms.name, safe="!#$&'()*+/:;<=>?@[]^`{|}~")
        documents.tag = f"{name}-{documents.incarnation}".encode()
        documents.rendered = (
            [None] * len(API_VERSIONS) if documents.events else self._rendered_empty(documents.incarnation)
        )
        return documents.rendered

    def render(self, documents: GroupDocuments, version: int) -> bytes:
        """Render a group's document in one api-version."""
        rendered_response = _finish_response(self._body(documents, version))
        if documents.rendered is not None:
            documents.rendered[version] = rendered_response
        return rendered_response

    def _body(self, documents: GroupDocuments, version: int) -> bytes:
        return render(documents.events, documents.incarnation, API_VERSIONS[version], documents.terms.kind)

    def _rendered_empty(self, incarnation: int) -> _RenderedByVersion:
        """Return the document that all groups without events share, in every api-version."""
        rendered = self._empty.get(incarnation)
        if rendered is None:
            if len(self._empty) >= _EMPTY_KEPT:
                self._empty.clear()
            empty = _finish_response(render((), incarnation, NEWEST, GroupKind.STANDALONE))
            rendered = self._empty[incarnation] = [empty] * len(API_VERSIONS)
        return rendered


class _PreparedContent(msgspec.Struct, eq=False):
    """What a large commit makes of the cache, before it is shown."""

    loads: int
    """How often the cache had been loaded then."""
    vm_entries: dict[str, VmEntry]
    groups: dict[str, GroupDocuments]
    entries_by_vm: dict[str, VmEntry]
    deallocated: dict[str, str]
    shared: set[str]
    enrolled: list[GroupDocuments]
    left: dict[str, None]
    """The groups that VMs may have left."""
    changed: list[str] = []
    """The groups that are removed."""
    refreshed: list[str] = []
    """The groups that are there before and after, and differ."""
    removed: list[GroupDocuments] = []
    copied: list[tuple[VmEntry, VmEntry]] = []
    """The entries of VMs that changed, as they were and as they will be."""


def _finish_response(body: bytes) -> bytes:
    return b'"\r\nContent-Length: %d\r\n\r\n%b' % (len(body), body)
