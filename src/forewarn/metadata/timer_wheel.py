"""Deadlines of many things on one timer: a second is one bucket, and putting a deadline off costs one store."""

from collections import defaultdict
from typing import Protocol

NEVER = 1 << 62


class TimerEntry(Protocol):
    """Something with a deadline. ``expires`` may be put off at any time without telling the wheel."""

    expires: int
    bucket: int

    def expired(self) -> None:
        """Do what is to be done when the deadline has passed; it may set a new one."""


class TimerWheel:
    """Things by the second in which to look at them again."""

    def __init__(self, now: float) -> None:
        self.now = int(now)
        self._buckets: defaultdict[int, set[TimerEntry]] = defaultdict(set)

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def put(self, due: TimerEntry) -> None:
        """Look at it once its deadline has passed; again needed only when the deadline was brought forward."""
        if due.bucket != due.expires:
            self.remove(due)
            # At least one whole turn from now: the present second has begun already.
            due.bucket = max(due.expires, self.now + 1)
            self._buckets[due.bucket].add(due)

    def remove(self, due: TimerEntry) -> None:
        """Forget it."""
        bucket = self._buckets.get(due.bucket)
        if bucket is not None:
            bucket.discard(due)
            if not bucket:
                del self._buckets[due.bucket]
        due.bucket = 0

    def advance(self, now: float) -> None:
        """Bring the present second up to date, and end what is due."""
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
