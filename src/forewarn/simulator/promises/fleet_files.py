"""The promises about fleet files that operators apply while the service runs.

the declaration   its revision never falls, and each revision is one file
stale             a file that was compared with an older declaration is refused
acknowledged      what it adds is there, what it removes is gone; both unless it is said to be held
a removed VM      has no unfinished event of its own any more: it was refused, held or canceled before
held              what waits for an event is done when no event is left
"""

import re
from math import inf

import msgspec

from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetApply, RequestFleetChange
from forewarn.simulator.actions.host_requests import RequestHostSelection
from forewarn.simulator.exchanges import ControlExchange
from forewarn.simulator.promises.event_memory import HighWater
from forewarn.simulator.promises.memory import CheckerMemory, wall_second, words_of

_DECLARATION = "/v1/fleet/declaration"
_HELD = re.compile(r"VM (\S+): removal waits until event")
_AROUND = 1.0
_ENDED = ("Completed", "Failed", "Canceled")


class _Declaration(msgspec.Struct):
    revision: int
    digest: str


class _Named(msgspec.Struct):
    name: str


class _File(msgspec.Struct):
    seen: int = 0
    hosts: tuple[_Named, ...] = ()
    vms: tuple[_Named, ...] = ()
    removed_vms: tuple[str, ...] = ()


class _Listed(msgspec.Struct):
    items: tuple[_Named, ...]
    next: str | None = None


class _ApplyResponse(msgspec.Struct):
    held: tuple[str, ...] = ()


class _AppliedFile(msgspec.Struct, frozen=True):
    """A file that was acknowledged."""

    sent_at: float
    ended_at: float
    file: _File
    held: frozenset[str]
    """What is named by a change that waits."""
    removals: tuple[str, ...] = ()
    """The VMs that are removed when their events end."""


class FleetFilePromises:
    """Remembers which files were applied, and checks what is shown afterwards."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._memory = memory
        self._report = memory.report
        self._revisions = HighWater()
        self._digests: dict[int, str] = {}
        self._keys: set[tuple[str, str]] = set()
        self._applied: list[_AppliedFile] = []
        self._listings: dict[str, list[tuple[float, frozenset[str]]]] = {"/v1/vms": [], "/v1/hosts": []}
        actions = memory.plan.actions
        edits = [each for each in actions if isinstance(each, EditFleetFile)]
        self._may_be_added = {each.subject for each in edits if each.edit.startswith("add-")}
        """What a later file may have added again."""
        self._may_be_removed = {each.subject for each in edits if each.edit.startswith("remove-")}
        self._changes = [each.change for each in actions if isinstance(each, RequestFleetChange)]
        self._removes_hosts = any(
            isinstance(each, RequestHostSelection) and each.operation == "remove" for each in actions
        )
        self._is_exact = any(isinstance(each, RequestFleetApply) and "exact" in each.how for each in actions)

    def see_control(self, exchange: ControlExchange) -> None:
        path = exchange.path.partition("?")[0]
        if exchange.groups is not None:
            return
        if exchange.method == "GET" and exchange.status == 200:
            if path == _DECLARATION:
                self._see_declaration(exchange)
            elif exchange.path in self._listings:
                listed = msgspec.json.decode(exchange.response, type=_Listed)
                if listed.next is None:
                    names = frozenset(each.name for each in listed.items)
                    self._listings[path].append((exchange.sent_at, names))
        elif exchange.method == "POST" and path == _DECLARATION:
            self._see_apply(exchange)

    def _see_declaration(self, exchange: ControlExchange) -> None:
        shown = msgspec.json.decode(exchange.response, type=_Declaration)
        if shown.revision < (known := self._revisions.before(exchange.sent_at)):
            self._report(exchange.ended_at, f"the declaration fell from revision {known} to {shown.revision}")
        self._revisions.add(exchange.ended_at, shown.revision)
        if self._digests.setdefault(shown.revision, shown.digest) != shown.digest:
            self._report(exchange.ended_at, f"revision {shown.revision} of the declaration is of two files")

    def _see_apply(self, exchange: ControlExchange) -> None:
        principal = exchange.who, exchange.key
        is_first = principal not in self._keys
        self._keys.add(principal)
        if not (is_first and 200 <= exchange.status < 300):  # a repetition is answered as the first one was
            return
        file = msgspec.json.decode(exchange.body, type=_File)
        known = self._revisions.before(exchange.sent_at)
        if file.seen < known:
            text = f"a fleet file was applied by revision {file.seen} of the declaration, which had {known}"
            self._report(exchange.ended_at, text)
        held = " ".join(msgspec.json.decode(exchange.response, type=_ApplyResponse).held)
        self._applied.append(
            _AppliedFile(
                exchange.sent_at, exchange.ended_at, file, frozenset(words_of(held)), tuple(_HELD.findall(held))
            )
        )

    def settle(self, now: float) -> None:
        for each in self._applied:
            self._keeps_what_it_adds(each, now)
            for vm in each.removals:
                self._carries_out_what_waits(each, vm, now)
            for vm in sorted(set(each.file.removed_vms) - each.held):
                self._stays_gone(each, vm, now)
                if self._memory.clock.is_steady(0.0, now):
                    self._ended_its_events(each, vm, now)

    def _keeps_what_it_adds(self, applied: _AppliedFile, now: float) -> None:
        members, known = self._memory.members, {vm.name for vm in self._memory.plan.vms}
        vms = {vm.name for vm in applied.file.vms} - known - members.maybe_gone
        hosts = {host.name for host in applied.file.hosts} - set(self._memory.plan.hosts)
        hosts = set() if self._removes_hosts else hosts
        for path, names in (("/v1/vms", vms), ("/v1/hosts", hosts)):
            for name in sorted(names - applied.held - self._may_be_removed):
                if self._is_changed(name) or self._is_exact:
                    continue
                for sent_at, listed in self._listings[path]:
                    if sent_at > applied.ended_at and name not in listed:
                        self._report(now, f"{name} was added by a fleet file, and is not shown at {sent_at:.3f} s")

    def _stays_gone(self, applied: _AppliedFile, vm: str, now: float) -> None:
        if vm in self._may_be_added or self._is_changed(vm):
            return
        for sent_at, listed in self._listings["/v1/vms"]:
            if sent_at > applied.ended_at and vm in listed:
                self._report(now, f"{vm} was removed by a fleet file, and is shown at {sent_at:.3f} s")

    def _carries_out_what_waits(self, applied: _AppliedFile, vm: str, now: float) -> None:
        events = self._memory.events.values()
        is_left = any(vm in event.resources and event.end not in _ENDED for event in events)
        if is_left or vm in self._may_be_added or self._is_changed(vm):
            return
        for sent_at, listed in self._listings["/v1/vms"][-1:]:
            if sent_at > max(applied.ended_at, self._memory.plan.ends_at) and vm in listed:
                self._report(now, f"the removal of {vm} waited for an event, and {vm} is still there without one")

    def _is_changed(self, name: str) -> bool:
        """Return whether a request names it that changes the fleet."""
        return any(f'"{name}"' in change for change in self._changes)

    def _ended_its_events(self, applied: _AppliedFile, vm: str, now: float) -> None:
        for event in self._memory.events.values():
            if event.resources != (vm,) or event.timeline is None:
                continue
            last = event.timeline.steps[-1]
            ended = wall_second(last.at) if last.what in _ENDED else inf
            announced = wall_second(event.timeline.announced_at)
            if announced < applied.sent_at - _AROUND and ended > applied.ended_at + _AROUND:
                self._report(now, f"{vm} was removed by a fleet file, and {event} was not over")
