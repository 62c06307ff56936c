"""Queue of pending notifications of one subscription, with their order and retries.

Of each event only the oldest notification may be tried; the others wait behind it. If one fails again although others
were delivered meanwhile, the receiver refuses just this one: it is then retried separately, and delays only its own
event. Every other failure means that the receiver is down.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

from forewarn.control.notifications.notification import Notification, NotificationType

_FIRST_WAIT = timedelta(seconds=1)
_LONGEST_WAIT = timedelta(minutes=5)
WINDOW = 200
"""Pending notifications of one subscription that are held in memory."""
GIVEN_UP_AFTER = timedelta(days=1)
"""How long a notification may be refused, while others are delivered, before it is dropped."""


def retry_delay(failures: int, random: Random) -> timedelta:
    """Return the delay after so many failures: doubled each time, with jitter."""
    longest = min(_FIRST_WAIT * (1 << min(failures - 1, 20)), _LONGEST_WAIT)
    return longest * random.uniform(0.5, 1.0)


class PendingNotification:
    """A notification that is not delivered yet."""

    def __init__(self, message: Notification) -> None:
        self.message = message
        self.tries = 0
        """Number of failures since the receiver last accepted anything."""
        self.refusals = 0
        """Number of failures since the receiver is known to accept others, but not this one."""
        self.not_before: datetime | None = None
        self.is_hopeless = False
        self.refused_since: datetime | None = None
        self._failed_at: int | None = None

    @property
    def has_failed(self) -> bool:
        return self._failed_at is not None

    def fail(self, passed: int, now: datetime, random: Random) -> None:
        """Record a failure; ``passed`` is the number of notifications delivered so far."""
        others_passed = self._failed_at is not None and passed > self._failed_at
        self.tries += 1
        self._failed_at = passed
        if others_passed or self.refusals:
            self.refusals += 1
            self.not_before = now + retry_delay(self.refusals, random)
            self.refused_since = self.refused_since or now
            # A receiver that is down refuses nothing: what it did not accept is kept, however long that lasts.
            self.is_hopeless = others_passed and now - self.refused_since >= GIVEN_UP_AFTER


class DeliveryQueue:
    """Pending notifications, oldest first; a bounded window of the journal."""

    def __init__(self, size: int = WINDOW) -> None:
        self._size = size
        self._pending: dict[str, PendingNotification] = {}

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def has_room(self) -> bool:
        return len(self._pending) < self._size

    @property
    def refused(self) -> int:
        """Number of notifications that the receiver refuses, while it accepts others."""
        return sum(each.refusals > 0 for each in self._pending.values())

    def add(self, messages: Iterable[Notification]) -> None:
        for message in messages:
            self._pending.setdefault(message.id, PendingNotification(message))

    def remove(self, pending: PendingNotification) -> None:
        del self._pending[pending.message.id]

    def reset_tries(self) -> None:
        """Forget failures: the receiver accepts notifications again."""
        for each in self._pending.values():
            each.tries = 0

    def forget_times(self) -> None:
        """Retry everything now, and restart the time limits: the clock was set."""
        self.reset_tries()
        for each in self._pending.values():
            each.not_before = each.refused_since = None

    def delivered(self, position: int) -> int:
        """Return the revision up to which nothing is pending, given that everything up to ``position`` was read."""
        first = next(iter(self._pending.values()), None)
        return first.message.revision - 1 if first else position

    def ready(self, now: datetime) -> list[PendingNotification]:
        """Return what may be tried now, the least tried first, so that a refused one does not block others."""
        ready = [each for each in self._heads() if each.not_before is None or each.not_before <= now]
        return sorted(ready, key=lambda each: (each.refusals > 0, each.tries))

    def next_at(self) -> datetime | None:
        """Return the time of the next separate retry."""
        return min((each.not_before for each in self._heads() if each.not_before), default=None)

    def _heads(self) -> Iterable[PendingNotification]:
        lanes: dict[str, PendingNotification] = {}
        for each in self._pending.values():
            is_gap = each.message.type is NotificationType.MISSED and not each.has_failed
            if is_gap and lanes:
                break
            lanes.setdefault(each.message.ordering_key, each)
            if is_gap:
                break  # a gap is reported before what follows it
        return lanes.values()
