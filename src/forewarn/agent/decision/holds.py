"""Which programs want to be waited for, and which events each of them holds until when. Pure.

    registered ──new event──▶ holds it ──"ready"──▶ is ready
                                 └──until has passed: the approval waits no longer, whatever the program does

A hold stays when its program goes away: a program that crashed may come back under its name and say ready. That it
came back moves no deadline, and makes no event wait twice.
"""

from datetime import datetime, timedelta

import msgspec

from forewarn.config.durations import read_duration
from forewarn.core.errors import BadInput, LimitReached, Unknown, nearest
from forewarn.core.model import EventType
from forewarn.wire.azure_names import TYPES, read_type
from forewarn.wire.document import ScheduledEvent

MOST_HOLDERS = 64
LONGEST_NAME = 64
LONGEST_HOLD = timedelta(days=1)


class Holder(msgspec.Struct, frozen=True):
    """A program that wants to be waited for."""

    name: str
    within: timedelta
    """From when it is told."""
    types: frozenset[EventType] = frozenset()
    """All where empty."""

    def wants(self, event: ScheduledEvent) -> bool:
        return not self.types or event.type in self.types


def read_holder(name: str, within: str, types: tuple[str, ...]) -> Holder:
    """Return the holder that a program describes; raise BadInput that says what is wrong with it."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"the name of a holder is a text of 1 to {LONGEST_NAME} characters")
    try:
        duration = read_duration(within)
    except ValueError:
        duration = timedelta(0)
    if not timedelta(0) < duration <= LONGEST_HOLD:
        raise BadInput(f"within = {within[:40]!r}: expected a duration such as 120s, above nothing and at most a day")
    return Holder(name, duration, frozenset(_type(each) for each in types))


def _type(word: str) -> EventType:
    known = read_type(word)
    if not isinstance(known, EventType):
        words = TYPES.values()
        raise BadInput(f"there is no type {word[:40]!r} (there are {', '.join(words)}){nearest(word[:40], words)}")
    return known


class Holds:
    """Holders by name, and what each of them holds."""

    def __init__(self) -> None:
        self._holders: dict[str, Holder] = {}
        self._until: dict[str, dict[str, datetime]] = {}
        """By event and holder, until they are forgotten with the event."""

    def register(self, holder: Holder) -> None:
        """Take a holder, in the place of one that has the name already."""
        if holder.name not in self._holders and len(self._holders) >= MOST_HOLDERS:
            raise LimitReached(f"{MOST_HOLDERS} programs hold already; let one of them go first")
        self._holders[holder.name] = holder

    def leave(self, holder: Holder) -> None:
        """Hold no new event for a program that is gone, unless it is back under its name already."""
        if self._holders.get(holder.name) is holder:
            del self._holders[holder.name]

    def take(self, event: ScheduledEvent, now: datetime) -> dict[str, datetime]:
        """Let every holder that wants it hold this event; return who does so from now on, and until when."""
        until = self._until.setdefault(event.id, {})
        new = {
            holder.name: now + holder.within
            for holder in self._holders.values()
            if holder.wants(event) and holder.name not in until
        }
        # Programs that come and go under ever new names must not fill the memory.
        new = dict(list(new.items())[: MOST_HOLDERS - len(until)])
        until.update(new)
        return new

    def holds(self, name: str, event_id: str) -> bool:
        """Tell whether this holder holds the event, or has held it and is ready."""
        return name in self._until.get(event_id, ())

    def require(self, name: str) -> None:
        """Raise Unknown where nobody of that name holds, or has held, anything that is still there."""
        known = {*self._holders, *(holder for until in self._until.values() for holder in until)}
        if name not in known:
            raise Unknown(
                f"no program named {name[:LONGEST_NAME]!r} holds anything{nearest(name[:LONGEST_NAME], known)}"
            )

    def forget(self, event_id: str) -> None:
        """Let go of an event that is gone."""
        self._until.pop(event_id, None)
