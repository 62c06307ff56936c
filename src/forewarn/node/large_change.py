"""A change of the fleet that takes long to decide: it is decided in a thread, beside the commands of others.

    command ──▶ scope ──▶ decide, evolve a draft ──▶ encode ──▶ merge and publish aside ──▶ the writer commits it
                  │                                                                            all at once
                  └──▶ meanwhile the writer commits what concerns none of it

Everything here reads the committed fleet and writes what nobody else holds, so that no reader sees a part of it.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from threading import Lock
from typing import TypeGuard, assert_never

import msgspec

from forewarn.core.commands import ApplyDeclaration, ChangeFleet, Command
from forewarn.core.draft import DraftFleet
from forewarn.core.facts import (
    AccessFact,
    AnyFact,
    ClockStepped,
    EnrolmentFact,
    EventFact,
    Fetched,
    FleetFact,
    ObservationRecorded,
)
from forewarn.core.fleet import Fleet
from forewarn.core.subjects import groups_of
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
    """Tell whether deciding the command in one piece would keep requests waiting."""
    return isinstance(command, (ChangeFleet, ApplyDeclaration)) and _size(command) >= sizes.decided_aside


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
        with _collection_paused() if is_prepared else nullcontext():
            self.facts = enact(self.draft, self.command)
            if self.facts and isinstance(self._journal, SupportsPreparing):
                self._journal.prepare(self.facts)
            if self.facts and is_prepared:
                self.draft.prepare(self._least_prepared)
                self.prepared = self._feed.prepare_commit(self.facts, self.draft)

    def lets_pass(self, facts: tuple[AnyFact, ...], fleet: Fleet) -> bool:
        """Tell whether another command with these facts may be committed before this one; note it if so."""
        if not facts:
            return True
        scope = self._scope
        groups = _groups_touched(facts, fleet)
        if scope is None or groups is None or any(scope.concerns(name, self._fleet) for name in groups):
            return False
        self.draft.overtaken |= groups
        return True

    def discard(self) -> None:
        """Free what is not needed after the commit, record by record. Called in a thread, as the last thing."""
        parts = self.draft.dissolve()
        for prepared in self.prepared.values():
            parts.extend(msgspec.structs.astuple(prepared) if isinstance(prepared, msgspec.Struct) else ())
        self.prepared.clear()
        for record in (self.command, *self.facts):
            values = (getattr(record, name) for name in record.__struct_fields__)
            parts.extend(list(value) for value in values if isinstance(value, tuple))
        self.facts = ()
        while parts:
            _free(parts)


class _Scope:
    """The groups and VMs that a change names."""

    def __init__(self, groups: set[str], vms: set[str]) -> None:
        self._groups = groups
        self._vms = vms

    def concerns(self, group: str, fleet: Fleet) -> bool:
        found = fleet.groups.get(group)
        return found is None or group in self._groups or not self._vms.isdisjoint(found.vms)


def _scope_of(command: FleetCommand, fleet: Fleet) -> _Scope | None:
    """Return what the decision goes by; None where that is more than what the command names.

    Of what other commands may change meanwhile it reads only the events, incarnations and enrolment of the groups
    of the VMs and of the groups it names. Held changes that are tried again, hosts that are to leave (an event may
    move a VM there) and the comparison with the whole fleet read more.
    """
    is_exact = isinstance(command, ApplyDeclaration) and (command.exact or command.yes)
    if is_exact or command.removed_hosts or fleet.last_applied.waiting:
        return None
    groups = {terms.name for terms in command.groups}
    groups.update(command.removed_groups)
    groups.update(vm.group for vm in command.vms)
    vms = {vm.name for vm in command.vms}
    vms.update(command.removed_vms)
    return _Scope(groups, vms)


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
            case _ if isinstance(fact, AccessFact):
                pass
            case _ if isinstance(fact, (FleetFact, ObservationRecorded, ClockStepped)):
                return None
            case _:
                assert_never(fact)
    return groups


def _free(parts: list[object]) -> None:
    """Free the last of the parts; a dictionary or list that nothing else refers to, in steps."""
    part = parts.pop()
    if sys.getrefcount(part) > _UNSHARED:
        return
    if isinstance(part, dict):
        for key in list(dict.keys(part)):
            dict.pop(part, key)
    elif isinstance(part, list):
        while part:
            part.pop()


@contextmanager
def _collection_paused() -> Iterator[None]:
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
