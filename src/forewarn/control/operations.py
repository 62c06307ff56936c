"""What commands make happen, as it is told to whoever gave them."""

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from forewarn.control import story, views
from forewarn.core.commands import Approve, CancelEvent, Command, OperateHost, OperateVm
from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.facts import Announced, AnyFact, Approved, BroughtForward, Postponed, Started, StartedAtOnce
from forewarn.core.model import EventStatus
from forewarn.node.node import Node
from forewarn.wire.words import show_id


class Operations:
    """Has commands carried out, each once however often it is sent, and tells what became of them."""

    def __init__(self, node: Node, last_asked: views.LastAsked, *, moves_live: bool) -> None:
        self._node = node
        self._last_asked = last_asked
        self._moves_live = moves_live

    async def submit(self, command: Command) -> views.Told:
        """Carry a command out and tell what happened; raise what it is refused for."""
        command = self._completed(command)
        return await self.tell(command.id, await self._node.submit_once(command), command)

    async def tell(self, id_: str, facts: tuple[AnyFact, ...], command: Command | None = None) -> views.Told:
        """Tell what facts say of events; of those that a command names, how they stand now."""
        named = [fact.event for fact in facts if isinstance(fact, Approved | Postponed | BroughtForward)]
        match command:
            case Approve(events=approved, postponements=postponed):
                named += [*approved, *(each.event for each in postponed)]
            case CancelEvent(event=event):
                named.append(event)
        announced = [*self._announcements(facts), *[await self._announcement(each) for each in dict.fromkeys(named)]]
        return replace(views.tell_changes(facts), operation=id_, announcements=tuple(announced))

    def _completed(self, command: Command) -> Command:
        """Fill in what only the service knows: UTC, and whether its driver moves guests live."""
        match command:
            case OperateHost():
                return replace(command, live=self._moves_live, not_before=_in_utc(command.not_before))
            case OperateVm():
                return replace(command, not_before=_in_utc(command.not_before))
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


def _in_utc(when: datetime | None) -> datetime | None:
    try:
        return when.astimezone(UTC) if when else None
    except OverflowError:
        raise BadInput(f"{when} lies outside of every calendar") from None
