"""The newest entries, kept for those who keep up, so that they need not read the journal."""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from forewarn.control.notifications.notification import is_notified
from forewarn.core.facts import Entry


class RecentEntries:
    """As many of the newest entries as it may keep; those of which there is nothing to tell are only counted."""

    def __init__(self, size: int = 1_000) -> None:
        self._entries: deque[Entry | None] = deque(maxlen=size)
        self.head = 0
        """The last revision that is durable."""

    def begin(self, revision: int) -> None:
        """Forget everything: the next entry is the one after this."""
        self._entries.clear()
        self.head = revision

    def extend(self, entries: Iterable[Entry]) -> bool:
        """Take entries in; tell whether there is something to tell of any of them."""
        is_any = False
        for entry in entries:
            is_news = any(map(is_notified, entry.facts))
            is_any |= is_news
            self._entries.append(entry if is_news else None)
            self.head = entry.revision
        return is_any

    def reaches(self, after: int) -> bool:
        """Tell whether everything after a revision is here."""
        return after >= self.head - len(self._entries)

    def after(self, revision: int, limit: int) -> tuple[list[Entry], int]:
        """Return the entries about events after a revision, of at most ``limit``, and the last revision looked at."""
        begin = revision - (self.head - len(self._entries))
        taken = list(islice(self._entries, begin, begin + limit))
        return [entry for entry in taken if entry], revision + len(taken)
