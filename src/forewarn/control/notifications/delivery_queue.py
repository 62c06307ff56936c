"""The messages that are to be delivered next, and which of them may be tried.

Of each event only the oldest may be tried: the others wait behind it. Where a message fails again although others got
through meanwhile, the receiver refuses just this one: it waits by itself from then on, and holds back its own event
alone. Every other failure is taken for a receiver that is down.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

from forewarn.control.notifications.notification import Notification, NotificationType

_FIRST_WAIT = timedelta(seconds=1)
_LONGEST_WAIT = timedelta(minutes=5)
GIVEN_UP_AFTER = timedelta(days=1)
"""How long a message may be refused, while others get through, before it is given up."""


def retry_delay(failures: int, random: Random) -> timedelta:
    """Return how long to wait after so many failures: twice as long each time, and never just as long as others."""
    longest = min(_FIRST_WAIT * (1 << min(failures - 1, 20)), _LONGEST_WAIT)
    return longest * random.uniform(0.5, 1.0)


class PendingNotification:
    """A message that is not delivered yet."""

    def __init__(self, message: Notification) -> None:
        self.message = message
        self.tries = 0
        """How often it failed since the receiver last took anything."""
        self.refusals = 0
        """How often it failed since it is known that the receiver takes others, but not this one."""
        self.not_before: datetime | None = None
        self.is_hopeless = False
        self.refused_since: datetime | None = None
        self._failed_at: int | None = None

    @property
    def has_failed(self) -> bool:
        return self._failed_at is not None

    def fail(self, passed: int, now: datetime, random: Random) -> None:
        """Note a failure, when ``passed`` messages in all had got through."""
        others_passed = self._failed_at is not None and passed > self._failed_at
        self.tries += 1
        self._failed_at = passed
        if others_passed or self.refusals:
            self.refusals += 1
            self.not_before = now + retry_delay(self.refusals, random)
            self.refused_since = self.refused_since or now
            # A receiver that is down refuses nothing: what it did not take is kept, however long that lasts.
            self.is_hopeless = others_passed and now - self.refused_since >= GIVEN_UP_AFTER


class DeliveryQueue:
    """Pending messages, oldest first; few enough to be held in memory however many are behind them."""

    def __init__(self, size: int = 200) -> None:
        self._size = size
        self._pending: dict[str, PendingNotification] = {}

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def has_room(self) -> bool:
        return len(self._pending) < self._size

    @property
    def refused(self) -> int:
        """How many messages the receiver refuses, though it takes others."""
        return sum(each.refusals > 0 for each in self._pending.values())

    def add(self, messages: Iterable[Notification]) -> None:
        for message in messages:
            self._pending.setdefault(message.id, PendingNotification(message))

    def remove(self, pending: PendingNotification) -> None:
        del self._pending[pending.message.id]

    def reset_tries(self) -> None:
        """Go by age again: the receiver takes messages."""
        for each in self._pending.values():
            each.tries = 0

    def forget_times(self) -> None:
        """Let everything be tried now, and given up only a day later: the clock was set."""
        self.reset_tries()
        for each in self._pending.values():
            each.not_before = each.refused_since = None

    def told(self, position: int) -> int:
        """Return the revision up to which nothing is pending, where everything up to ``position`` was read."""
        first = next(iter(self._pending.values()), None)
        return first.message.revision - 1 if first else position

    def ready(self, now: datetime) -> list[PendingNotification]:
        """Return what may be tried now: the least tried first, so that one bad message does not stand for all."""
        ready = [each for each in self._heads() if each.not_before is None or each.not_before <= now]
        return sorted(ready, key=lambda each: (each.refusals > 0, each.tries))

    def next_at(self) -> datetime | None:
        """Return when the next of those that wait by themselves may be tried."""
        return min((each.not_before for each in self._heads() if each.not_before), default=None)

    def _heads(self) -> Iterable[PendingNotification]:
        lanes: dict[str, PendingNotification] = {}
        for each in self._pending.values():
            is_gap = each.message.type is NotificationType.MISSED and not each.has_failed
            if is_gap and lanes:
                break
            lanes.setdefault(each.message.ordering_key, each)
            if is_gap:
                break  # that something is missing is told before what comes after it
        return lanes.values()
