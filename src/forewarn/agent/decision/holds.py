"""Tracks the programs that hold approvals, and which events each of them holds until when. Pure.

    registered ──new event──▶ holds it ──"ready"──▶ is ready
                                 └──until has passed: the hold expires, whatever the program does

A hold stays when its program disconnects: a program that crashed may reconnect under its name and report ready.
Reconnecting extends no deadline, and holds no event a second time.
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
    """A program that holds approvals."""

    name: str
    within: timedelta
    """Counted from when the event is sent to it."""
    types: frozenset[EventType] = frozenset()
    """All where empty."""

    def wants(self, event: ScheduledEvent) -> bool:
        return not self.types or event.type in self.types


def read_holder(name: str, within: str, types: tuple[str, ...]) -> Holder:
    """Return the holder that a request describes; raise BadInput with what is wrong."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"name: expected 1 to {LONGEST_NAME} printable characters")
    try:
        duration = read_duration(within)
    except ValueError:
        duration = timedelta(0)
    if not timedelta(0) < duration <= LONGEST_HOLD:
        raise BadInput(f"within = {within[:40]!r}: expected a duration such as 120s, more than 0s and at most 1d")
    return Holder(name, duration, frozenset(_type(each) for each in types))


def _type(word: str) -> EventType:
    known = read_type(word)
    if not isinstance(known, EventType):
        words = TYPES.values()
        raise BadInput(f"unknown event type {word[:40]!r} (known: {', '.join(words)}){nearest(word[:40], words)}")
    return known


class Holds:
    """Holders by name, and the holds of each."""

    def __init__(self) -> None:
        self._holders: dict[str, Holder] = {}
        self._until: dict[str, dict[str, datetime]] = {}
        """By event and holder; removed together with the event."""

    def register(self, holder: Holder) -> None:
        """Add a holder; replace one of the same name."""
        if holder.name not in self._holders and len(self._holders) >= MOST_HOLDERS:
            raise LimitReached(f"there are {MOST_HOLDERS} holders already; disconnect one of them first")
        self._holders[holder.name] = holder

    def leave(self, holder: Holder) -> None:
        """Place no new holds for a program that has disconnected, unless it has reconnected under its name."""
        if self._holders.get(holder.name) is holder:
            del self._holders[holder.name]

    def take(self, event: ScheduledEvent, now: datetime) -> dict[str, datetime]:
        """Place holds of all interested holders on this event; return the new ones, by holder, with their ends."""
        until = self._until.setdefault(event.id, {})
        new = {
            holder.name: now + holder.within
            for holder in self._holders.values()
            if holder.wants(event) and holder.name not in until
        }
        # Programs that reconnect under ever new names must not fill the memory.
        new = dict(list(new.items())[: MOST_HOLDERS - len(until)])
        until.update(new)
        return new

    def holds(self, name: str, event_id: str) -> bool:
        """Return whether this holder holds the event, or did so until it was ready."""
        return name in self._until.get(event_id, ())

    def require(self, name: str) -> None:
        """Raise Unknown if no holder of that name exists, or has held an event that is still present."""
        known = {*self._holders, *(holder for until in self._until.values() for holder in until)}
        if name not in known:
            raise Unknown(
                f"there is no holder {name[:LONGEST_NAME]!r}; send hold first{nearest(name[:LONGEST_NAME], known)}"
            )

    def forget(self, event_id: str) -> None:
        self._until.pop(event_id, None)
