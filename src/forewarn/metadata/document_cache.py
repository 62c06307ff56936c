"""What VMs are shown, ready as bytes. Only what is committed ever lies here.

A *seat* is a VM that may ask; a *board* is what its group is shown. A board is rendered when somebody first asks for
it in an api-version, and kept until the next change. Both are small and hold no cycles: a million of them that nobody
asks cost memory only, and not much of it.
"""

from collections.abc import Callable, Iterable
from urllib.parse import quote

import msgspec

from forewarn.core import lifecycle
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Asked,
    ChangesHeld,
    ClockStepped,
    Delivered,
    Enrolled,
    Fetched,
    FleetChanged,
    FleetDeclared,
    GroupSet,
    HostCordonSet,
    HostStateSet,
    IncarnationsRaised,
    ObservationRecorded,
    StartedAtOnce,
    SubscriptionRemoved,
    SubscriptionSet,
    SwitchedOff,
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
from forewarn.metadata.identity import CALLER_LOOKUPS, Identity
from forewarn.node.feed import Commit
from forewarn.wire.document import render
from forewarn.wire.versions import API_VERSIONS, NEWEST

_EMPTY_KEPT = 10_000
_RenderedByVersion = list[bytes | None]


class GroupDocuments(msgspec.Struct, gc=False, eq=False):
    """What one group is shown."""

    terms: GroupTerms
    incarnation: int
    events: tuple[Event, ...]
    is_enrolled: bool
    is_listed: bool
    """It stands in the list that is swept."""
    asked: float
    """When one of its VMs last asked, in the desk's seconds."""
    marked: float
    """When that was last recorded."""
    asked_by: str = ""
    tag: bytes = b""
    """What stands between the quotes of its ETag."""
    rendered: _RenderedByVersion | None = None
    """What follows the tag, by api-version; None until somebody asks."""


class VmEntry(msgspec.Struct, gc=False, eq=False):
    """One VM that may ask."""

    vm: Vm
    documents: GroupDocuments
    spent_until: float = 0.0
    shown: int = 0
    """The last incarnation with events that it was shown ..."""
    shown_in: int = 0
    """... and in which api-versions, one bit each."""


class DocumentCache:
    """Seats by what VMs are known by, and boards by group, as the last commit left them."""

    def __init__(self, seconds: Callable[[], float], identity: Identity = Identity.ADDRESS) -> None:
        self.vm_entries: dict[str, VmEntry] = {}
        """The VMs that may ask, by address, mark or tap. What two VMs have is not here: they could be either."""
        self.deallocated: dict[str, str] = {}
        """The VMs that may not ask because they are deallocated: their names, by address, mark or tap."""
        self.groups: dict[str, GroupDocuments] = {}
        self.enrolled: list[GroupDocuments] = []
        """The boards to sweep; one that was switched off or removed stays until the sweep comes by."""
        self.changed: Callable[[str], None] = lambda _: None
        """Called with the name of a group whose document has changed, or is gone."""
        self.left: Callable[[str], None] = lambda _: None
        """Called with the name of a group that VMs may have left."""
        self._entries_by_vm: dict[str, VmEntry] = {}
        self._groups_of: dict[str, str] = {}
        """The groups of unfinished events, by id: a fact that ends an event names only the event."""
        self._empty: dict[int, _RenderedByVersion] = {}
        self._seconds = seconds
        self._keys = CALLER_LOOKUPS[identity]
        self._shared: set[str] = set()

    def entry_of_vm(self, name: str) -> VmEntry | None:
        """Return the seat of a VM, unless it is deallocated: then nobody may ask in its name."""
        vm_entry = self._entries_by_vm.get(name)
        return None if vm_entry is None or vm_entry.vm.deallocated else vm_entry

    def is_deallocated(self, name: str) -> bool:
        vm_entry = self._entries_by_vm.get(name)
        return vm_entry is not None and vm_entry.vm.deallocated

    def is_shared(self, key: str) -> bool:
        """Tell whether several VMs have it, so that it tells of none of them."""
        return key in self._shared

    def load(self, fleet: Fleet) -> None:
        """Show this fleet and nothing else; what is known of who asked when is kept."""
        now = self._seconds()
        self._groups_of = {event.id: event.group for event in fleet.events.values()}
        before = tuple(self.groups)
        groups = [*(self.groups.keys() - fleet.groups.keys()), *fleet.groups]
        changed = [name for name in groups if self._refresh_group(fleet, name, now, is_load=True)]
        self.vm_entries.clear()
        self.deallocated.clear()
        for name in [*(self._entries_by_vm.keys() - fleet.vms.keys()), *fleet.vms]:
            self._refresh_vm(fleet, name)
        for key in self._keys.owners(fleet).shared:
            self._assign(fleet, key)
        self._tell(changed, before)

    def publish(self, commit: Commit) -> None:
        """Show what the commit changed."""
        now = self._seconds()
        groups: dict[str, None] = {}
        vms: dict[str, None] = {}
        for entry in commit.entries:
            for fact in entry.facts:
                self._trace(fact, groups, vms, now)
        changed = [name for name in groups if self._refresh_group(commit.fleet, name, now)]
        # Free what these VMs are known by first, so that they can change places with each other.
        keys = {self._keys.of(vm_entry.vm) for name in vms if (vm_entry := self._entries_by_vm.get(name))}
        for key in keys:
            self.vm_entries.pop(key, None)
            self.deallocated.pop(key, None)
        for name in vms:
            self._refresh_vm(commit.fleet, name)
        if self._shared or self._keys.owners(commit.fleet).shared:
            for key in keys | {self._keys.of(vm) for name in vms if (vm := commit.fleet.vms.get(name))}:
                self._assign(commit.fleet, key)
        self._tell(changed, groups if vms else ())

    def _tell(self, changed: Iterable[str], left: Iterable[str]) -> None:
        """Say what changed, once everybody has the seat that the fleet gives: whoever waits is answered by it."""
        for name in left:
            self.left(name)
        for name in changed:
            self.changed(name)

    def _trace(self, fact: AnyFact, groups: dict[str, None], vms: dict[str, None], now: float) -> None:
        """Note which groups and VMs the fact touches."""
        match fact:
            case Announced(event=event) | StartedAtOnce(event=event):
                self._groups_of[event.id] = event.group
                groups[event.group] = None
            case Enrolled(group=name) | SwitchedOff(group=name):
                groups[name] = None
            case GroupSet(terms=terms):
                groups[terms.name] = None
            case Asked(marks=marks):
                for mark in marks:
                    if documents := self.groups.get(mark.group):
                        documents.marked = now
            case Fetched(fetches=fetches):
                groups.update(
                    (self._groups_of[fetch.event], None) for fetch in fetches if fetch.event in self._groups_of
                )
            case FleetChanged():
                groups.update((terms.name, None) for terms in fact.groups)
                groups.update((vm.group, None) for vm in fact.vms)
                groups.update((name, None) for name in fact.removed_groups)
                for name in (*(vm.name for vm in fact.vms), *fact.removed_vms):
                    self._trace_vm(name, groups, vms)
            case VmRemoved(vm=name) | VmDeallocated(vm=name) | VmStarted(vm=name) | VmMoved(vm=name):
                self._trace_vm(name, groups, vms)
            case IncarnationsRaised(groups=raised):
                groups.update(dict.fromkeys(raised))
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
                pass  # for operators alone; no VM is shown any of it
            case _:
                if group := self._groups_of.get(lifecycle.event_of(fact)):
                    groups[group] = None

    def _trace_vm(self, name: str, groups: dict[str, None], vms: dict[str, None]) -> None:
        vms[name] = None
        if vm_entry := self._entries_by_vm.get(name):
            groups[vm_entry.documents.terms.name] = None  # a standalone group leaves with its VM

    def _refresh_group(self, fleet: Fleet, name: str, now: float, *, is_load: bool = False) -> bool:
        """Show a group as it is; tell whether its document has changed, or is gone."""
        group = fleet.groups.get(name)
        documents = self.groups.get(name)
        if group is None:
            if documents is not None:
                del self.groups[name]
                documents.is_enrolled = False
                self._forget_events(documents.events, ())
            return documents is not None
        events = tuple(fleet.events_of(name))
        if documents is None:
            documents = GroupDocuments(
                group.terms, group.incarnation, events, is_enrolled=False, is_listed=False, asked=now, marked=now
            )
            self.groups[name] = documents
        has_changed = documents.incarnation != group.incarnation or documents.terms.kind is not group.terms.kind
        self._forget_events(documents.events, events)
        documents.terms = group.terms
        documents.incarnation = group.incarnation
        documents.events = events
        # A group that was on before counts as asked now, but nobody asked: who did, and when, the record knows.
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

    def _forget_events(self, before: tuple[Event, ...], after: tuple[Event, ...]) -> None:
        if not before:
            return
        for ended in {event.id for event in before} - {event.id for event in after}:
            self._groups_of.pop(ended, None)

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
        """Give the seat that is found by the key to the one VM whose it is, if it is one's alone."""
        owners = self._keys.owners(fleet)[key]
        self._shared.discard(key)
        self.vm_entries.pop(key, None)
        self.deallocated.pop(key, None)
        if len(owners) > 1:
            self._shared.add(key)
        elif owners:
            self._place(key, self._entries_by_vm[owners[0]])

    def prepare(self, documents: GroupDocuments) -> _RenderedByVersion:
        """Make a board ready to be shown, in no api-version yet."""
        name = quote(documents.terms.name, safe="!#$&'()*+/:;<=>?@[]^`{|}~")
        documents.tag = f"{name}-{documents.incarnation}".encode()
        documents.rendered = (
            [None] * len(API_VERSIONS) if documents.events else self._rendered_empty(documents.incarnation)
        )
        return documents.rendered

    def render(self, documents: GroupDocuments, version: int) -> bytes:
        """Render a board in an api-version."""
        rendered_response = _finish_response(self._body(documents, version))
        if documents.rendered is not None:
            documents.rendered[version] = rendered_response
        return rendered_response

    def _body(self, documents: GroupDocuments, version: int) -> bytes:
        return render(documents.events, documents.incarnation, API_VERSIONS[version], documents.terms.kind)

    def _rendered_empty(self, incarnation: int) -> _RenderedByVersion:
        """Return what all groups without events share, whatever the api-version."""
        rendered = self._empty.get(incarnation)
        if rendered is None:
            if len(self._empty) >= _EMPTY_KEPT:
                self._empty.clear()
            empty = _finish_response(render((), incarnation, NEWEST, GroupKind.STANDALONE))
            rendered = self._empty[incarnation] = [empty] * len(API_VERSIONS)
        return rendered


def _finish_response(body: bytes) -> bytes:
    return b'"\r\nContent-Length: %d\r\n\r\n%b' % (len(body), body)
