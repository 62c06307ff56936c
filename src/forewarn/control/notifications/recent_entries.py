"""Cache of the newest journal entries, so that followers that keep up need not read the journal."""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from forewarn.control.notifications.notification import is_notified
from forewarn.core.facts import Entry


class RecentEntries:
    """The newest entries; those without notifications are only counted."""

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
