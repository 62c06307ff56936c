"""A change of the fleet that takes long to decide: it is decided in a thread, beside the commands of others.

    command ──▶ scope ──▶ decide, evolve a draft ──▶ encode ──▶ merge and publish aside ──▶ the writer commits it
                  │                                                                            all at once
                  └──▶ meanwhile the writer commits what concerns none of it

Everything here reads the committed fleet and writes only objects of its own, so that no reader sees a part of it.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from datetime import datetime
from threading import Lock
from typing import TypeGuard, assert_never

import msgspec

from forewarn.core.commands import ApplyDeclaration, ChangeFleet, Command
from forewarn.core.declared_keys import DeclaredRecord, RecordKind
from forewarn.core.draft import DraftFleet
from forewarn.core.event_types import moves_vms
from forewarn.core.facts import (
    AccessFact,
    AnyFact,
    ClockStepped,
    EnrolmentFact,
    EventFact,
    Fetched,
    FleetFact,
    ObservationRecorded,
    Selected,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventStatus, Vm
from forewarn.core.rollouts.facts import RolloutFact, RolloutWaveStarted
from forewarn.core.subjects import event_of, groups_of
from forewarn.journal.port import Journal, SupportsPreparing
from forewarn.node.replica import Replica


class LargeChangeSizes(msgspec.Struct, frozen=True):
    """From how many records on a change of the fleet is treated in which way."""

    decided_aside: int = 1_000
    """It is decided in a thread."""
    prepared_aside: int = 10_000
    """What it makes of the fleet is prepared aside too; less is faster done than copied."""


_UNSHARED = 2
"""What ``sys.getrefcount`` returns for an object with one reference, because its argument is another."""
_collecting = Lock()
FleetCommand = ChangeFleet | ApplyDeclaration


def is_large(command: Command, sizes: LargeChangeSizes) -> TypeGuard[FleetCommand]:
    """Return whether deciding the command in one piece would keep requests waiting."""
    if type(command) is ChangeFleet or type(command) is ApplyDeclaration:
        return _size(command) >= sizes.decided_aside
    return False


def _size(command: FleetCommand) -> int:
    return (
        len(command.vms)
        + len(command.removed_vms)
        + len(command.groups)
        + len(command.removed_groups)
        + len(command.hosts)
        + len(command.removed_hosts)
    )


class LargeChange:
    """One such change, from its beginning to its commit."""

    def __init__(
        self,
        command: FleetCommand,
        reply: asyncio.Future[tuple[AnyFact, ...]],
        replica: Replica,
        journal: Journal,
        now: datetime,
        sizes: LargeChangeSizes,
    ) -> None:
        self.command = command
        self.reply = reply
        self.decided: asyncio.Future[None] | None = None
        """Done when ``decide`` has returned or raised."""
        self.decided_at = now
        self.draft = DraftFleet(replica.fleet)
        self.facts: tuple[AnyFact, ...] = ()
        self.prepared: dict[int, object] = {}
        self.is_stale = False
        """Whether the journal was opened anew since, so that it is to be decided again."""
        self._fleet = replica.fleet
        self._feed = replica.feed
        self._journal = journal
        self._scope: _Scope | None = None
        self._least_prepared = sizes.prepared_aside

    @property
    def is_decided(self) -> bool:
        return self.decided is not None and self.decided.done()

    def find_scope(self) -> None:
        """Find out what may be committed meanwhile. Called in a thread, before anything is."""
        self._scope = _scope_of(self.command, self._fleet)

    def decide(self, enact: Callable[[DraftFleet, Command], tuple[AnyFact, ...]]) -> None:
        """Decide it and prepare its commit. Called in a thread; raises what the command is refused for."""
        is_prepared = _size(self.command) >= self._least_prepared
        with collection_paused() if is_prepared else nullcontext():
            self.facts = enact(self.draft, self.command)
            if self.facts and isinstance(self._journal, SupportsPreparing):
                self._journal.prepare(self.facts)
            if self.facts and is_prepared:
                self.draft.prepare(self._least_prepared)
                self.prepared = self._feed.prepare_commit(self.facts, self.draft)

    def lets_pass(self, facts: tuple[AnyFact, ...], fleet: Fleet) -> bool:
        """Return whether another command with these facts may be committed before this one; note it if so."""
        if not facts:
            return True
        scope = self._scope
        groups = _groups_touched(facts, fleet)
        if scope is None or groups is None or any(scope.concerns(name, self._fleet) for name in groups):
            return False
        waves = (fact.hosts for fact in facts if isinstance(fact, RolloutWaveStarted))
        if scope.hosts and any(not scope.hosts.isdisjoint(hosts) for hosts in waves):
            return False
        events = (event_of(fact) for fact in facts if isinstance(fact, EventFact)) if scope.hosts else ()
        if any(scope.hosts_used(id_, self._fleet) != scope.hosts_used(id_, fleet) for id_ in events):
            return False
        self.draft.overtaken |= groups
        return True

    def discard(self) -> None:
        """Free what is not needed after the commit, record by record. Called in a thread, as the last thing."""
        free(self._dissolve())

    def _dissolve(self) -> list[object]:
        """Return the parts of a change that was committed, to be freed from the last to the first."""
        parts: list[object] = [*vars(self._scope).values()] if self._scope else []
        parts += dissolve((self.command, *self.facts), self.prepared, self.draft)
        vars(self).clear()
        return parts


def dissolve(records: Iterable[msgspec.Struct], prepared: dict[int, object], draft: DraftFleet) -> list[object]:
    """Return the parts of a commit, of what listeners prepared for it and of its draft, for ``free``."""
    # The records come first, in lists, which can be emptied: others may still hold the tuples.
    parts: list[object] = []
    for record in records:
        values = (getattr(record, name) for name in record.__struct_fields__)
        parts.extend(list(value) for value in values if isinstance(value, tuple))
    for each in prepared.values():
        parts += msgspec.structs.astuple(each) if isinstance(each, msgspec.Struct) else ()
    prepared.clear()
    parts += draft.dissolve()
    return parts


def free(parts: list[object]) -> None:
    """Free the parts from the last to the first, each in steps, so that other threads go on."""
    while parts:
        _free(parts)


class _Scope:
    """The groups and VMs that a change may touch, and the hosts that it may remove."""

    def __init__(self) -> None:
        self.groups: set[str] = set()
        self.vms: set[str] = set()
        self.hosts: set[str] = set()

    def add(self, kind: RecordKind, name: str, record: DeclaredRecord | None) -> None:
        """Add a record that may be changed to this one, or removed."""
        match kind:
            case RecordKind.HOST:
                self.hosts.add(name)
            case RecordKind.GROUP:
                self.groups.add(name)
            case RecordKind.VM:
                self.vms.add(name)
                if isinstance(record, Vm):
                    self.groups.add(record.group)

    def concerns(self, group: str, fleet: Fleet) -> bool:
        found = fleet.groups.get(group)
        return found is None or group in self.groups or not self.vms.isdisjoint(found.vms)

    def hosts_used(self, event: str, fleet: Fleet) -> AbstractSet[str]:
        """Return the hosts that cannot be removed because of an event: those to which it moves VMs, or may do so."""
        found = fleet.events.get(event)
        if found is None:
            return frozenset()
        if found.targets:
            return self.hosts & found.targets
        # The attempt is recorded with the start; the driver then has every host to choose from.
        is_begun = found.attempts > 0 or found.status is EventStatus.STARTED
        return self.hosts if is_begun and moves_vms(found) else frozenset()


def _scope_of(command: FleetCommand, fleet: Fleet) -> _Scope | None:
    """Return what the decision goes by; None where that is the whole fleet.

    Of what other commands may change meanwhile it reads only the events, incarnations and enrolment of the groups
    of the VMs and of the groups that may change, and the targets of events if hosts may leave. Records that the
    command does not name may change too: those whose held change is tried again, and those that an exact
    declaration makes what it says.
    """
    scope, last = _Scope(), fleet.last_applied
    is_exact = isinstance(command, ApplyDeclaration) and command.exact
    if is_exact and not last.covers_fleet:
        return None
    scope.groups.update(terms.name for terms in command.groups)
    scope.groups.update(command.removed_groups)
    scope.groups.update(vm.group for vm in command.vms)
    scope.vms.update(vm.name for vm in command.vms)
    scope.vms.update(command.removed_vms)
    scope.hosts.update(command.removed_hosts)
    held = [*last.waiting]
    if isinstance(command, ApplyDeclaration) and (command.yes or is_exact):
        held += last.guarded
    for kind, name in held:
        scope.add(kind, name, fleet.declared(kind, name))
    for kind, differing in last.differing.items() if is_exact else ():
        for name, record in differing.items():
            scope.add(kind, name, record)
    return scope


def _groups_touched(facts: Iterable[AnyFact], fleet: Fleet) -> set[str] | None:
    """Return the groups of which facts change events or enrolment; None where they change more of the fleet."""
    groups: set[str] = set()
    for fact in facts:
        match fact:
            case Fetched(fetches=fetches):
                groups.update(event.group for fetch in fetches if (event := fleet.events.get(fetch.event)))
            case _ if isinstance(fact, (EventFact, EnrolmentFact)):
                named = set(groups_of(fact))
                if not named:
                    return None
                groups |= named
            case _ if isinstance(fact, (AccessFact, RolloutFact, Selected)):
                pass
            case _ if isinstance(fact, (FleetFact, ObservationRecorded, ClockStepped)):
                return None
            case _:
                assert_never(fact)
    return groups


def _free(parts: list[object]) -> None:
    """Free the last of the parts; a dictionary, list or set that nothing else refers to, in steps."""
    part = parts.pop()
    if sys.getrefcount(part) > _UNSHARED:
        return
    if isinstance(part, dict):
        while dict.__len__(part):
            dict.popitem(part)
    elif isinstance(part, (list, set)):
        while part:
            part.pop()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Let the garbage collector pass over a million new records, none of which is garbage."""
    if not gc.isenabled() or not _collecting.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        _collecting.release()
