"""Follows the journal from one revision on, and makes messages of what it reads.

A fact names its event by id and group alone, and a finished event has left the fleet. What it was is remembered from
its announcement while it lives; for an event that was announced before, or was forgotten because too many live at
once, its history is read up to here.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from itertools import islice

from forewarn.audit.timeline import read_event
from forewarn.control.notifications.notification import (
    Notification,
    gap_notification,
    is_notified,
    notification_of,
    removal_notifications,
    rollout_notification,
)
from forewarn.core import lifecycle
from forewarn.core.facts import Entry, EventCreated, EventEnded, EventFact
from forewarn.core.model import Event
from forewarn.core.subjects import event_of, subject_of_event
from forewarn.journal.port import Journal
from forewarn.node.node import Node
from forewarn.wire.azure_names import show_id

log = logging.getLogger(__name__)

_BATCH = 100
_REMEMBERED = 5_000


class RecentEntries:
    """Cache of the newest entries, so that followers that keep up need not read the journal.

    Entries without notifications are only counted.
    """

    def __init__(self, size: int = 1_000) -> None:
        self._entries: deque[Entry | None] = deque(maxlen=size)
        self.head = 0
        """The last durable revision."""

    def begin(self, revision: int) -> None:
        """Clear the cache: the next entry is the one after this revision."""
        self._entries.clear()
        self.head = revision

    def extend(self, entries: Iterable[Entry]) -> bool:
        """Add entries; return whether any of them causes notifications."""
        is_any = False
        for entry in entries:
            is_news = any(map(is_notified, entry.facts))
            is_any |= is_news
            self._entries.append(entry if is_news else None)
            self.head = entry.revision
        return is_any

    def reaches(self, after: int) -> bool:
        """Return whether the cache holds everything after a revision."""
        return after >= self.head - len(self._entries)

    def after(self, revision: int, limit: int) -> tuple[list[Entry], int]:
        """Return entries with notifications after a revision, of at most ``limit``, and the last revision read."""
        begin = revision - (self.head - len(self._entries))
        taken = list(islice(self._entries, begin, begin + limit))
        return [entry for entry in taken if entry], revision + len(taken)


class JournalFollower:
    """A place in the journal, and the unfinished events as they stood there."""

    def __init__(
        self,
        node: Node,
        journal: Journal,
        recent_entries: RecentEntries,
        known: Mapping[str, Event],
        position: int,
        *,
        batch: int = _BATCH,
        remembered: int = _REMEMBERED,
    ) -> None:
        self._node = node
        self._journal = journal
        self._recent_entries = recent_entries
        self._known = known
        """Events whose announcement the journal may no longer hold."""
        self._events: OrderedDict[str, Event] = OrderedDict()
        self._batch = batch
        """Entries that are read at once."""
        self._remembered = remembered
        """Events that are kept in memory."""
        self.position = position

    @property
    def is_behind(self) -> bool:
        return self.position < self._recent_entries.head

    def skip_entries(self, before: int, after: int) -> None:
        """Leave entries out that are about no event, where they are just what comes next."""
        if self.position == before:
            self.position = after

    def fork(self) -> "JournalFollower":
        """Return another one at the same place, that goes on by itself."""
        sizes = {"batch": self._batch, "remembered": self._remembered}
        other = JournalFollower(self._node, self._journal, self._recent_entries, self._known, self.position, **sizes)
        other._events = self._events.copy()
        return other

    async def read(self) -> list[Notification]:
        """Go on by some entries; return what there is to tell of them."""
        begin = self.position
        messages: list[Notification] = []
        if self._recent_entries.reaches(begin):
            entries, end = self._recent_entries.after(begin, self._batch)
        else:
            head = self._recent_entries.head
            entries = await self._node.replica.read(lambda: list(self._journal.entries(begin, self._batch)))
            first = entries[0].revision if entries else head + 1
            end = entries[-1].revision if entries else head
            if first > begin + 1:
                messages.append(
                    gap_notification(begin + 1, first - 1, entries[0].at if entries else self._node.clock.now())
                )
        await self._recall(entries, begin)
        messages.extend(self._notifications_of(entries))
        while len(self._events) > self._remembered:  # not before: these entries may be about more
            self._events.popitem(last=False)
        self.position = end
        return messages

    async def _recall(self, entries: Iterable[Entry], position: int) -> None:
        """Remember what the events of these entries were, as far as they were announced before them."""
        born = {fact.event.id for entry in entries for fact in entry.facts if isinstance(fact, EventCreated)}
        ids = {event_of(fact) for entry in entries for fact in entry.facts if isinstance(fact, EventFact)}
        unknown = ids - born - self._events.keys()
        if not unknown:
            return

        def look() -> dict[str, list[Entry]]:
            return {id_: self._journal.history(subject_of_event(id_), before=position + 1) for id_ in unknown}

        for id_, history in (await self._node.replica.read(look)).items():
            if event := read_event(id_, history, self._known.get(id_)):
                self._remember(event)

    def _notifications_of(self, entries: Iterable[Entry]) -> Iterable[Notification]:
        for entry in entries:
            for number, fact in enumerate(entry.facts):
                if not isinstance(fact, EventFact):
                    yield from removal_notifications(entry, number)
                    if notification := rollout_notification(entry, number):
                        yield notification
                    continue
                id_ = event_of(fact)
                event = lifecycle.follow(self._events.get(id_), fact)
                if event is None:
                    log.warning(
                        "no notice of an event is sent: the journal no longer holds the event",
                        extra={"fields": {"event": show_id(id_)}},
                    )
                    continue
                if isinstance(fact, EventEnded):
                    del self._events[id_]
                else:
                    self._remember(event)
                if message := notification_of(entry, number, event):
                    yield message

    def _remember(self, event: Event) -> None:
        self._events[event.id] = event
        self._events.move_to_end(event.id)
