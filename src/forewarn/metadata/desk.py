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
    Observed,
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
from forewarn.metadata.identity import KEYS, Identity
from forewarn.node.feed import Commit
from forewarn.wire.document import render
from forewarn.wire.versions import API_VERSIONS, NEWEST

_EMPTY_KEPT = 10_000
_Tails = list[bytes | None]


class Board(msgspec.Struct, gc=False, eq=False):
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
    tails: _Tails | None = None
    """What follows the tag, by api-version; None until somebody asks."""


class Seat(msgspec.Struct, gc=False, eq=False):
    """One VM that may ask."""

    vm: Vm
    board: Board
    spent_until: float = 0.0
    shown: int = 0
    """The last incarnation with events that it was shown ..."""
    shown_in: int = 0
    """... and in which api-versions, one bit each."""


class Desk:
    """Seats by what VMs are known by, and boards by group, as the last commit left them."""

    def __init__(self, seconds: Callable[[], float], identity: Identity = Identity.ADDRESS) -> None:
        self.seats: dict[str, Seat] = {}
        """The VMs that may ask, by address, mark or tap. What two VMs have is not here: they could be either."""
        self.deallocated: dict[str, str] = {}
        """The VMs that may not ask because they are deallocated: their names, by address, mark or tap."""
        self.boards: dict[str, Board] = {}
        self.enrolled: list[Board] = []
        """The boards to sweep; one that was switched off or removed stays until the sweep comes by."""
        self.changed: Callable[[str], None] = lambda _: None
        """Called with the name of a group whose document has changed, or is gone."""
        self.left: Callable[[str], None] = lambda _: None
        """Called with the name of a group that VMs may have left."""
        self._seats_of: dict[str, Seat] = {}
        self._groups_of: dict[str, str] = {}
        """The groups of unfinished events, by id: a fact that ends an event names only the event."""
        self._empty: dict[int, _Tails] = {}
        self._seconds = seconds
        self._keys = KEYS[identity]
        self._shared: set[str] = set()

    def seat_of_vm(self, name: str) -> Seat | None:
        """Return the seat of a VM, unless it is deallocated: then nobody may ask in its name."""
        seat = self._seats_of.get(name)
        return None if seat is None or seat.vm.deallocated else seat

    def is_deallocated(self, name: str) -> bool:
        seat = self._seats_of.get(name)
        return seat is not None and seat.vm.deallocated

    def is_shared(self, key: str) -> bool:
        """Tell whether several VMs have it, so that it tells of none of them."""
        return key in self._shared

    def load(self, fleet: Fleet) -> None:
        """Show this fleet and nothing else; what is known of who asked when is kept."""
        now = self._seconds()
        self._groups_of = {event.id: event.group for event in fleet.events.values()}
        before = tuple(self.boards)
        groups = [*(self.boards.keys() - fleet.groups.keys()), *fleet.groups]
        changed = [name for name in groups if self._refresh_board(fleet, name, now, is_load=True)]
        self.seats.clear()
        self.deallocated.clear()
        for name in [*(self._seats_of.keys() - fleet.vms.keys()), *fleet.vms]:
            self._refresh_seat(fleet, name)
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
        changed = [name for name in groups if self._refresh_board(commit.fleet, name, now)]
        # Free what these VMs are known by first, so that they can change places with each other.
        keys = {self._keys.of(seat.vm) for name in vms if (seat := self._seats_of.get(name))}
        for key in keys:
            self.seats.pop(key, None)
            self.deallocated.pop(key, None)
        for name in vms:
            self._refresh_seat(commit.fleet, name)
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
                    if board := self.boards.get(mark.group):
                        board.marked = now
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
                | Observed()
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
        if seat := self._seats_of.get(name):
            groups[seat.board.terms.name] = None  # a standalone group leaves with its VM

    def _refresh_board(self, fleet: Fleet, name: str, now: float, *, is_load: bool = False) -> bool:
        """Show a group as it is; tell whether its document has changed, or is gone."""
        group = fleet.groups.get(name)
        board = self.boards.get(name)
        if group is None:
            if board is not None:
                del self.boards[name]
                board.is_enrolled = False
                self._forget_events(board.events, ())
            return board is not None
        events = tuple(fleet.events_of(name))
        if board is None:
            board = Board(
                group.terms, group.incarnation, events, is_enrolled=False, is_listed=False, asked=now, marked=now
            )
            self.boards[name] = board
        has_changed = board.incarnation != group.incarnation or board.terms.kind is not group.terms.kind
        self._forget_events(board.events, events)
        board.terms = group.terms
        board.incarnation = group.incarnation
        board.events = events
        # A group that was on before counts as asked now, but nobody asked: who did, and when, the record knows.
        by = "" if is_load else group.asked_by
        self._set_enrolled(board, is_enrolled=group.enrolled_at is not None, by=by, now=now)
        if has_changed:
            board.tails = None
        return has_changed

    def _set_enrolled(self, board: Board, *, is_enrolled: bool, by: str, now: float) -> None:
        if is_enrolled and not board.is_enrolled:
            board.asked = board.marked = now
            board.asked_by = by
            if not board.is_listed:
                board.is_listed = True
                self.enrolled.append(board)
        board.is_enrolled = is_enrolled

    def _forget_events(self, before: tuple[Event, ...], after: tuple[Event, ...]) -> None:
        if not before:
            return
        for ended in {event.id for event in before} - {event.id for event in after}:
            self._groups_of.pop(ended, None)

    def _refresh_seat(self, fleet: Fleet, name: str) -> None:
        vm = fleet.vms.get(name)
        if vm is None:
            self._seats_of.pop(name, None)
            return
        board = self.boards[vm.group]
        seat = self._seats_of.get(name)
        if seat is None:
            seat = self._seats_of[name] = Seat(vm, board)
        seat.vm = vm
        seat.board = board
        key = self._keys.of(vm)
        if key:
            self._place(key, seat)

    def _place(self, key: str, seat: Seat) -> None:
        if seat.vm.deallocated:
            self.deallocated[key] = seat.vm.name
        else:
            self.seats[key] = seat

    def _assign(self, fleet: Fleet, key: str) -> None:
        """Give the seat that is found by the key to the one VM whose it is, if it is one's alone."""
        owners = self._keys.owners(fleet)[key]
        self._shared.discard(key)
        self.seats.pop(key, None)
        self.deallocated.pop(key, None)
        if len(owners) > 1:
            self._shared.add(key)
        elif owners:
            self._place(key, self._seats_of[owners[0]])

    def prepare(self, board: Board) -> _Tails:
        """Make a board ready to be shown, in no api-version yet."""
        name = quote(board.terms.name, safe="!#$&'()*+/:;<=>?@[]^`{|}~")
        board.tag = f"{name}-{board.incarnation}".encode()
        board.tails = [None] * len(API_VERSIONS) if board.events else self._empty_tails(board.incarnation)
        return board.tails

    def render(self, board: Board, version: int) -> bytes:
        """Render a board in an api-version."""
        tail = _tail(self._body(board, version))
        if board.tails is not None:
            board.tails[version] = tail
        return tail

    def _body(self, board: Board, version: int) -> bytes:
        return render(board.events, board.incarnation, API_VERSIONS[version], board.terms.kind)

    def _empty_tails(self, incarnation: int) -> _Tails:
        """Return what all groups without events share, whatever the api-version."""
        tails = self._empty.get(incarnation)
        if tails is None:
            if len(self._empty) >= _EMPTY_KEPT:
                self._empty.clear()
            empty = _tail(render((), incarnation, NEWEST, GroupKind.STANDALONE))
            tails = self._empty[incarnation] = [empty] * len(API_VERSIONS)
        return tails


def _tail(body: bytes) -> bytes:
    return b'"\r\nContent-Length: %d\r\n\r\n%b' % (len(body), body)
