"""Timer wheel: deadlines of many entries in buckets of one second; extending a deadline is one assignment."""

from collections import defaultdict
from typing import Protocol

NEVER = 1 << 62


class TimerEntry(Protocol):
    """An entry with a deadline. ``expires`` may be extended at any time without notifying the wheel."""

    expires: int
    bucket: int

    def expired(self) -> None:
        """Handle the passed deadline; may set a new one."""


class TimerWheel:
    """Entries by the second of their next check."""

    def __init__(self, now: float) -> None:
        self.now = int(now)
        self._buckets: defaultdict[int, dict[TimerEntry, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def put(self, due: TimerEntry) -> None:
        """Check the entry after its deadline; call again only if the deadline was moved earlier."""
        if due.bucket != due.expires:
            self.remove(due)
            # At least one whole second from now: the current second has begun already.
            due.bucket = max(due.expires, self.now + 1)
            self._buckets[due.bucket][due] = None

    def remove(self, due: TimerEntry) -> None:
        """Remove an entry; nothing happens if it is not there."""
        bucket = self._buckets.get(due.bucket)
        if bucket is not None:
            bucket.pop(due, None)
            if not bucket:
                del self._buckets[due.bucket]
        due.bucket = 0

    def advance(self, now: float) -> None:
        """Set the current second, and expire entries that are due."""
        reached = int(now)
        if reached == self.now:
            return
        if reached - self.now > len(self._buckets):
            passed = sorted(second for second in self._buckets if second <= reached)
        else:
            passed = list(range(self.now + 1, reached + 1))
        self.now = reached
        for second in passed:
            for due in self._buckets.pop(second, ()):
                due.bucket = 0
                if due.expires <= reached:
                    due.expired()
                if due.expires > reached and due.bucket == 0 and due.expires != NEVER:
                    self.put(due)
