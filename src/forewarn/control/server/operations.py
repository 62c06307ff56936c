"""Carries out commands of the API, and builds their results."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Protocol

from msgspec.structs import replace

from forewarn.audit import timeline
from forewarn.control import views
from forewarn.core import hosts, lifecycle, turns
from forewarn.core.commands import (
    Approve,
    BulkCommand,
    CancelEvent,
    Command,
    DeallocateVm,
    DrainHost,
    HostOperation,
    MoveVm,
    OperateHost,
    OperateVm,
    StartVm,
)
from forewarn.core.errors import BadInput, Refused
from forewarn.core.facts import (
    AnyFact,
    Approved,
    BroughtForward,
    ChangesHeld,
    Entry,
    EventChanged,
    EventCreated,
    Postponed,
    RecordedRequest,
    Started,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, Operation
from forewarn.core.subjects import subject_of_event
from forewarn.node.node import Node
from forewarn.wire.azure_names import show_command_id
from forewarn.wire.facts import describe_held


class WriteRequest(Protocol):
    """A request that gives a command."""

    @property
    def fingerprint(self) -> str:
        """A hash of the request."""

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be changed: the result is what the command would do."""


class OperationViews:
    """Submits commands, and returns their results."""

    def __init__(
        self,
        node: Node,
        last_asked: views.LastAsked,
        *,
        moves_live: bool,
        moves_to_host: bool = False,
        switches: bool = False,
    ) -> None:
        self._node = node
        self._last_asked = last_asked
        self.moves_live = moves_live
        self._moves_to_host = moves_to_host
        self._switches = switches

    async def submit(self, command: Command, write: WriteRequest) -> views.CommandResult:
        """Submit a command and return its result; raise if it is refused."""
        if write.is_dry_run:
            return self._preview(command)
        return await self.result_of(await self.record(command, write))

    def _preview(self, command: Command) -> views.CommandResult:
        """Return what a command would do."""
        node, command = self._node, self._completed(command)
        fleet = node.replica.fleet
        named = [fleet.events[id_] for id_ in _named(command, fleet) if id_ in fleet.events]
        facts, draft = node.writer.preview(command)
        entry = Entry(node.replica.revision, node.clock.now(), command.id, command.by, facts)
        events = [*_announced_outcomes(facts), *(_outcome_in(facts, event) for event in named)]
        events = [draft.events.get(event.id, event) for event in events]
        return replace(self._result(entry, events, draft), dry_run=True)

    async def record(self, command: Command, write: WriteRequest) -> Entry:
        """Submit a command and return its entry, even if it changes nothing."""
        if write.is_dry_run:
            raise Refused("this cannot be tried; leave out dry_run")
        request = RecordedRequest(write.fingerprint, _named(command, self._node.replica.fleet))
        command = replace(self._completed(command), request=request)
        facts = await self._node.submit(command)
        return Entry(self._node.replica.revision, self._node.clock.now(), command.id, command.by, facts, request)

    async def result_of(self, entry: Entry) -> views.CommandResult:
        """Return what a command did, with the status that its events had then."""
        named = _named_in(entry)
        past = [await self._outcome(id_, entry.revision) for id_ in named]
        return self._result(entry, [*_announced_outcomes(entry.facts), *past])

    async def current_result_of(self, entry: Entry) -> views.CommandResult:
        """Return what a command did, with the current status of its events."""
        ids = [*(outcome.id for outcome in _announced_outcomes(entry.facts)), *_named_in(entry)]
        return self._result(entry, [await self._outcome(id_) for id_ in ids])

    def _completed(self, command: Command) -> Command:
        """Fill in what only the service knows: UTC, and the abilities of its driver."""
        match command:
            case OperateHost() | DrainHost():
                return replace(command, live=self.moves_live, not_before=_in_utc(command.not_before))
            case MoveVm():
                can_move, not_before = self._moves_to_host, _in_utc(command.not_before)
                return replace(command, can_move=can_move, live=self.moves_live, not_before=not_before)
            case OperateVm():
                return replace(command, not_before=_in_utc(command.not_before))
            case StartVm() | DeallocateVm():
                return replace(command, can_switch=self._switches)
            case BulkCommand(commands=commands):
                return replace(command, commands={name: self._completed(each) for name, each in commands.items()})
            case _:
                return command

    def _result(
        self, entry: Entry, events: Iterable[Event | None], fleet: Fleet | None = None
    ) -> views.CommandResult:
        announced = (self._announcement(event, fleet or self._node.replica.fleet) for event in events if event)
        held = (each for fact in entry.facts if isinstance(fact, ChangesHeld) for each in fact.changes)
        return replace(
            views.view_changes(entry.facts),
            operation=show_command_id(entry.command),
            announcements=tuple(announced),
            held=tuple(map(describe_held, held)),
        )

    def _announcement(self, event: Event, fleet: Fleet) -> views.AnnouncementView:
        start = turns.earliest_start(fleet, event, self._node.clock.now())
        return views.view_announcement(event, fleet, self._last_asked, start)

    async def _outcome(self, id_: str, until: int | None = None) -> Event | None:
        """Return how an event stands, or stood at a revision; None where the journal no longer tells."""
        if until is None:
            event = self._node.replica.fleet.events.get(id_)
            if event is not None:
                return event
        entries = await self._node.replica.history(subject_of_event(id_))
        return timeline.read_event(id_, (entry for entry in entries if until is None or entry.revision <= until))


def _named(command: Command, fleet: Fleet) -> tuple[str, ...]:
    """Return the events that a command names, or that already exist for its cause."""
    match command:
        case Approve(events=approved, postponements=postponed):
            return (*approved, *(each.event for each in postponed))
        case CancelEvent(event=event):
            return (event,)
        case OperateHost(operation=HostOperation.DEGRADE, host=host):
            return tuple(event.id for event in hosts.unfinished(fleet, host, Operation.HOST_DEGRADE))
        case BulkCommand(commands=commands):
            return tuple(id_ for each in commands.values() for id_ in _named(each, fleet))
        case _:
            return ()


def _named_in(entry: Entry) -> list[str]:
    """Return the events that an entry concerns and did not announce."""
    facts = (fact for fact in entry.facts if isinstance(fact, Approved | Postponed | BroughtForward))
    return list(dict.fromkeys([*(fact.event for fact in facts), *(entry.request.events if entry.request else ())]))


def _announced_outcomes(facts: tuple[AnyFact, ...]) -> Iterator[Event]:
    """Yield the events that facts announce, as the last of the facts leaves them."""
    started = {fact.event: fact for fact in facts if isinstance(fact, Started)}
    for fact in facts:
        if isinstance(fact, EventCreated):
            event, start = lifecycle.begin(fact), started.get(fact.event.id)
            yield lifecycle.after(event, start) if start else event


def _outcome_in(facts: tuple[AnyFact, ...], event: Event) -> Event:
    """Return an event as facts leave it."""
    for fact in facts:
        if isinstance(fact, EventChanged) and fact.event == event.id:
            event = lifecycle.after(event, fact)
    return event


def _in_utc(when: datetime | None) -> datetime | None:
    try:
        return when.astimezone(UTC) if when else None
    except OverflowError:
        raise BadInput(f"{when} is outside of the supported range of dates") from None
