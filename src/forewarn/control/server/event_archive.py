"""Events from the journal: timelines, finished events, and shortened ids."""

import re
from collections.abc import Iterable, Iterator
from uuid import UUID

from msgspec.structs import replace

from forewarn.audit.timeline import Timeline, build_timeline, read_event
from forewarn.core import lifecycle, turns
from forewarn.core.access import Principal
from forewarn.core.errors import BadInput, Unknown
from forewarn.core.facts import Entry, EventCreated, EventEnded
from forewarn.core.model import Event
from forewarn.core.subjects import FINISHED, subject_of_event, subject_of_group
from forewarn.journal.port import Journal
from forewarn.node.node import Node
from forewarn.wire.azure_names import show_id

_PREFIX = re.compile(r"[0-9a-f-]{4,36}")
_SEARCHED = 1_000
"""Number of finished events among which a shortened id is searched."""


class EventArchive:
    """Reads events from the journal, restricted to what the principal may see."""

    def __init__(self, node: Node, journal: Journal) -> None:
        self._node = node
        self._journal = journal

    async def timeline(self, principal: Principal, given: str) -> Timeline:
        """Return the timeline of an event; its id may be shortened, and ``last`` is the event announced last."""
        id_ = await self.resolve_id(principal, given)
        found = build_timeline(id_, await self._node.replica.history(subject_of_event(id_)))
        if found is None or not principal.sees(found.group):
            raise _no_event(id_)
        event = self._node.replica.fleet.events.get(id_)
        start = turns.earliest_start(self._node.replica.fleet, event, self._node.clock.now()) if event else None
        return replace(found, progress=self._node.progress.get(id_, ""), earliest_start=start)

    async def finished(self, principal: Principal, limit: int, group: str = "") -> list[Event]:
        """Return the events that ended last, of one group or of all it may know of, the latest at the end."""
        groups = [group] if group else [] if principal.sees_all else sorted(principal.groups)

        def outcomes() -> list[Event]:
            ids = self._announced_in(groups, limit) if groups or not principal.sees_all else self._ended(limit)
            events = (read_event(id_, self._journal.history(subject_of_event(id_))) for id_ in ids)
            ended = [each for each in events if each and each.status in lifecycle.ENDS and principal.sees(each.group)]
            return ended[-limit:]

        return await self._node.replica.read(outcomes)

    async def resolve_id(self, principal: Principal, given: str) -> str:
        """Return the id of a visible event, given in full, shortened, in any case, or as ``last``."""
        text = given.strip().lower()
        if text == "last":
            return await self._last_id(principal)
        try:
            return await self._visible(principal, str(UUID(text)))
        except ValueError:
            if not _PREFIX.fullmatch(text):
                raise BadInput(
                    f"{given!r} is not an event id; use the id, or its first four or more characters,"
                    " as 'forewarn event list --all' shows it"
                ) from None
        known = list(principal.known_events(self._node.replica.fleet))
        past = await self.finished(principal, _SEARCHED)
        ids = (event.id for event in (*known, *past))
        found = {id_ for id_ in ids if id_.startswith(text)}
        if len(found) > 1:
            shown = ", ".join(show_id(id_) for id_ in sorted(found)[:3])
            raise BadInput(f"{given!r} matches {len(found)} events, such as {shown}; use more characters of the id")
        if not found:
            raise Unknown(
                f"no event begins with {given!r} among the unfinished and the last {_SEARCHED} finished ones;"
                " use the whole id of an older event"
            )
        return found.pop()

    async def _visible(self, principal: Principal, id_: str) -> str:
        if principal.sees_all:
            return id_
        event = self._node.replica.fleet.events.get(id_)
        if event is None:
            event = read_event(id_, await self._node.replica.history(subject_of_event(id_)))
        if event is None or not principal.sees(event.group):
            raise _no_event(id_)
        return id_

    async def _last_id(self, principal: Principal) -> str:
        def newest(events: Iterable[Event]) -> Event | None:
            return max(events, key=lambda event: event.announced_at, default=None)

        fleet = self._node.replica.fleet
        if principal.sees_all:
            unfinished = next(reversed(fleet.events.values()), None)
        else:
            unfinished = newest(principal.known_events(fleet))
        finished = await self.finished(principal, 1)
        last = newest([*finished, *([unfinished] if unfinished else [])])
        if last is None:
            raise Unknown("there has been no event yet")
        return last.id

    def _ended(self, limit: int) -> list[str]:
        entries = self._journal.history(FINISHED, limit=limit)
        ends = (fact for entry in entries for fact in entry.facts if isinstance(fact, EventEnded))
        return [fact.event for fact in ends][-limit:]

    def _announced_in(self, groups: Iterable[str], limit: int) -> list[str]:
        """Return the events last announced in some groups, in the order of announcement."""
        entries = {
            entry.revision: entry
            for group in groups
            for entry in self._journal.history(subject_of_group(group), limit=limit)
        }
        return list(dict.fromkeys(_announced_ids(entries[revision] for revision in sorted(entries))))


def _announced_ids(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        yield from (fact.event.id for fact in entry.facts if isinstance(fact, EventCreated))


def _no_event(id_: str) -> Unknown:
    return Unknown(f"there is no event {show_id(id_)}, and the journal contains none with that id")
