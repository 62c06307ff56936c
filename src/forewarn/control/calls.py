"""What is answered to an operator: every call over the control socket, one method each.

Lists are taken from the fleet in one go and told in slices, so that even a million VMs hold nothing up; what
happens to a VM in between shows or does not, but every VM is told once.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar
from uuid import UUID

import msgspec

from forewarn.control import messages, story, views
from forewarn.control.difference import Difference
from forewarn.control.messages import SLICE
from forewarn.core.commands import Approve, CancelEvent, ChangeFleet, OperateHost, OperateVm, OperatorCommand
from forewarn.core.errors import BadInput, Unavailable, Unknown, unknown
from forewarn.core.facts import Announced, AnyFact, Canceled, Completed, Failed, Started, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, Event, EventStatus, Group, Host, Vm
from forewarn.core.subjects import FINISHED
from forewarn.journal.port import Journal
from forewarn.node.node import Node
from forewarn.wire.words import show_id

_Record = TypeVar("_Record")
_PREFIX = re.compile(r"[0-9a-f-]{4,36}")
_SEARCHED = 1_000
"""How many finished events a shortened id is looked for in."""
_MOST_FINISHED = 10_000


class Answer(msgspec.Struct, frozen=True):
    """Slices of a list, and what is said at the end."""

    ok: object = None
    parts: Iterable[Sequence[object]] = ()


class Calls:
    """Answers operators."""

    def __init__(self, node: Node, journal: Journal, last_asked: views.LastAsked, *, moves_live: bool) -> None:
        self._node = node
        self._journal = journal
        self._last_asked = last_asked
        self._moves_live = moves_live

    async def answer(self, call: messages.AnyCall, by: Caller, more: Sequence[Difference] = ()) -> Answer:
        """Answer a call; raise what it is refused for."""
        match call:
            case messages.Submit(command=raw):
                return await self._submit(raw, by, more)
            case messages.Vms():
                return await self._vms()
            case messages.OneVm(name=name):
                return Answer(await self._node.look(lambda fleet: views.detail_vm(fleet, _vm(fleet, name))))
            case messages.Hosts():
                return await self._hosts()
            case messages.Groups():
                return await self._groups()
            case messages.OneGroup(name=name):
                asked = self._last_asked
                look = self._node.look
                return Answer(await look(lambda fleet: views.detail_group(fleet, _group(fleet, name), asked)))
            case messages.Events(finished=finished):
                return await self._events(finished)
            case messages.OneEvent(id=id_):
                return Answer(await self._story(await self._whole_id(id_)))
            case messages.DeclaredFleet(vm=vm):
                return await self._declared(vm)
            case messages.More():
                raise BadInput("a slice of a change is answered only together with the command it belongs to")

    async def _submit(self, raw: msgspec.Raw, by: Caller, more: Sequence[Difference]) -> Answer:
        command = await self._completed(_read_command(raw, by, more))
        facts = await self._node.submit_once(command)
        match command:
            case Approve(events=approved, postponements=postponed):
                ids = (*approved, *(each.event for each in postponed))
                return Answer(views.Told(announcements=tuple([await self._announcement(id_) for id_ in ids])))
            case CancelEvent(event=id_):
                return Answer(views.Told(announcements=(await self._announcement(id_),)))
            case _:
                told = views.tell_changes(facts)
                return Answer(msgspec.structs.replace(told, announcements=tuple(self._announcements(facts))))

    async def _completed(self, command: OperatorCommand) -> OperatorCommand:
        """Fill in what only the service knows: whole ids, UTC, and whether its driver moves guests live."""
        match command:
            case OperateHost():
                when = _in_utc(command.not_before)
                return msgspec.structs.replace(command, live=self._moves_live, not_before=when)
            case OperateVm():
                return msgspec.structs.replace(command, not_before=_in_utc(command.not_before))
            case Approve(events=ids, postponements=postponed):
                return msgspec.structs.replace(
                    command,
                    events=tuple([await self._whole_id(id_) for id_ in ids]),
                    postponements=tuple(
                        [msgspec.structs.replace(each, event=await self._whole_id(each.event)) for each in postponed]
                    ),
                )
            case CancelEvent(event=id_):
                return msgspec.structs.replace(command, event=await self._whole_id(id_))
            case _:
                return command

    def _announcements(self, facts: tuple[AnyFact, ...]) -> Iterator[views.Announcement]:
        started = {fact.event for fact in facts if isinstance(fact, Started)}
        for fact in facts:
            if isinstance(fact, Announced | StartedAtOnce):
                status = EventStatus.STARTED if fact.event.id in started else fact.event.status
                yield views.tell_announcement(fact.event, status, self._last_asked)

    async def _announcement(self, id_: str) -> views.Announcement:
        told = story.outcome(id_, await self._node.history(f"event:{id_}"))
        if told is None:
            raise Unavailable(f"the command was carried out, but the journal does not tell of event {show_id(id_)}")
        return views.tell_announcement(told.event, told.status, self._last_asked)

    async def _vms(self) -> Answer:
        fleet, vms = await self._node.look(lambda fleet: (fleet, list(fleet.vms.values())))
        return Answer(len(vms), ([views.view_vm(fleet, vm) for vm in part] for part in _slices(vms)))

    async def _hosts(self) -> Answer:
        fleet, hosts = await self._node.look(lambda fleet: (fleet, list(fleet.hosts)))
        parts = ([views.HostView(name, len(fleet.vms_on(name))) for name in part] for part in _slices(hosts))
        return Answer(len(hosts), parts)

    async def _groups(self) -> Answer:
        fleet, groups = await self._node.look(lambda fleet: (fleet, list(fleet.groups.values())))
        parts = ([views.view_group(fleet, group, self._last_asked) for group in part] for part in _slices(groups))
        return Answer(len(groups), parts)

    async def _declared(self, vm: str) -> Answer:
        if vm:
            return await self._node.look(lambda fleet: _declared_vm(fleet, vm))
        changes, hosts, groups, vms = await self._node.look(
            lambda fleet: (
                fleet.changes,
                list(fleet.hosts.values()),
                list(fleet.groups.values()),
                list(fleet.vms.values()),
            )
        )
        return Answer(changes, _declared_parts(hosts, groups, vms))

    async def _events(self, finished: int) -> Answer:
        unfinished = await self._node.look(lambda fleet: list(fleet.events.values()))
        past = await self._finished(min(finished, _MOST_FINISHED)) if finished > 0 else []
        return Answer(len(unfinished) + len(past), self._event_parts(past, unfinished))

    def _event_parts(self, past: list[story.Outcome], unfinished: list[Event]) -> Iterator[list[views.EventView]]:
        yield from ([views.view_event(told.event, told.status) for told in part] for part in _slices(past))
        yield from ([views.view_event(event) for event in part] for part in _slices(unfinished))

    async def _finished(self, limit: int) -> list[story.Outcome]:
        """Return the events that ended last, the latest at the end."""
        ids = await self._finished_ids(limit)

        def outcomes() -> list[story.Outcome]:
            told = (story.outcome(id_, self._journal.history(f"event:{id_}")) for id_ in ids)
            return [each for each in told if each]

        return await self._node.read(outcomes)

    async def _finished_ids(self, limit: int) -> list[str]:
        entries = await self._node.read(lambda: self._journal.history(FINISHED, limit=limit))
        ends = (fact for entry in entries for fact in entry.facts if isinstance(fact, Completed | Failed | Canceled))
        return [fact.event for fact in ends][-limit:]

    async def _story(self, id_: str) -> story.Story:
        told = story.tell(id_, await self._node.history(f"event:{id_}"))
        if told is None:
            raise Unknown(f"there is no event {show_id(id_)}, and the journal holds none of that id")
        return told

    async def _whole_id(self, given: str) -> str:
        """Return the id that a shortened one in any case stands for, or ``last``."""
        text = given.strip().lower()
        if text == "last":
            return await self._last_id()
        try:
            return str(UUID(text))
        except ValueError:
            if not _PREFIX.fullmatch(text):
                raise BadInput(
                    f"{given!r} is no event id; give the id, or its first four or more characters,"
                    " as 'forewarn event list --all' shows it"
                ) from None
        known = await self._node.look(lambda fleet: list(fleet.events))
        found: set[str] = set()
        for part in _slices(known):
            found.update(id_ for id_ in part if id_.startswith(text))
            await asyncio.sleep(0)  # VMs are answered between two slices
        found.update(id_ for id_ in await self._finished_ids(_SEARCHED) if id_.startswith(text))
        if len(found) > 1:
            shown = ", ".join(show_id(id_) for id_ in sorted(found)[:3])
            raise BadInput(f"{given!r} could be {len(found)} events, such as {shown}; give more of the id")
        if not found:
            raise Unknown(
                f"no event begins with {given!r} among the unfinished and the last {_SEARCHED} finished ones;"
                " give the whole id of an older one"
            )
        return found.pop()

    async def _last_id(self) -> str:
        unfinished = await self._node.look(lambda fleet: next(reversed(fleet.events.values()), None))
        finished = await self._finished(1)
        known = [*(told.event for told in finished), *([unfinished] if unfinished else [])]
        if not known:
            raise Unknown("there has been no event yet")
        return max(known, key=lambda event: event.announced_at).id


def _in_utc(when: datetime | None) -> datetime | None:
    try:
        return when.astimezone(UTC) if when else None
    except OverflowError:
        raise BadInput(f"{when} lies outside of every calendar") from None


def _read_command(raw: msgspec.Raw, by: Caller, more: Sequence[Difference]) -> OperatorCommand:
    try:
        fields = msgspec.json.decode(raw)
        if not isinstance(fields, dict):
            raise BadInput("the command is not an object")
        fields["by"] = msgspec.to_builtins(by)
        command: OperatorCommand = msgspec.convert(fields, OperatorCommand)
        UUID(command.id)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadInput(f"the command cannot be understood: {error}") from None
    if more and not isinstance(command, ChangeFleet):
        raise BadInput("slices of a change were sent with a command that changes no fleet")
    for key in Difference.__struct_fields__ if more else ():
        whole = [*getattr(command, key)]
        for part in more:
            whole.extend(getattr(part, key))
        command = msgspec.structs.replace(command, **{key: tuple(whole)})
    return command


def _declared_vm(fleet: Fleet, name: str) -> Answer:
    vm = fleet.vms.get(name)
    group = fleet.groups.get(vm.group if vm else name)
    part = Difference(vms=(vm,) if vm else (), groups=(group.terms,) if group else ())
    return Answer(fleet.changes, [[part]])


def _declared_parts(hosts: list[Host], groups: list[Group], vms: list[Vm]) -> Iterator[list[Difference]]:
    yield from ([Difference(hosts=tuple(part))] for part in _slices(hosts))
    yield from ([Difference(groups=tuple(group.terms for group in part))] for part in _slices(groups))
    yield from ([Difference(vms=tuple(part))] for part in _slices(vms))


def _slices(records: Iterable[_Record]) -> Iterator[list[_Record]]:
    rest = iter(records)
    while part := list(islice(rest, SLICE)):
        yield part


def _vm(fleet: Fleet, name: str) -> Vm:
    if vm := fleet.vms.get(name):
        return vm
    raise unknown("VM", name, fleet.vms)


def _group(fleet: Fleet, name: str) -> Group:
    if group := fleet.groups.get(name):
        return group
    raise unknown("group", name, fleet.groups)
