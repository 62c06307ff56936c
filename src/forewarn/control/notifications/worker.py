"""Worker of one subscription: reads the journal ahead, delivers, and retries.

    journal ──▶ follower ──▶ queue ──▶ channel ──▶ receiver
                               │
                   delivered: the revision before the oldest pending notification

While the receiver is down the queue stays as it is, and later notifications are only counted; they are read from the
journal again when there is room.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

import msgspec

from forewarn.clocks import Clock
from forewarn.control.notifications.channels import Channel, NotDelivered
from forewarn.control.notifications.delivery_queue import DeliveryQueue, PendingNotification, retry_delay
from forewarn.control.notifications.journal_follower import JournalFollower
from forewarn.control.notifications.notification import Notification, NotificationType, matches_subscription
from forewarn.core.errors import ForewarnError
from forewarn.core.model import Subscription, SubscriptionKind

log = logging.getLogger(__name__)

_SIDE_BY_SIDE = 4
"""Concurrent deliveries to a webhook; chat and mail get one after the other."""
_JOURNAL_RETRY = timedelta(seconds=5)


class DeliveryState(StrEnum):
    """Delivery state of a subscription."""

    HEALTHY = "healthy"
    PARKED = "parked"
    """The receiver is down or refuses; deliveries are retried, and nothing is lost."""
    GONE = "gone"
    """The receiver answered 410 Gone; it is not tried again until a test notification is delivered."""


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delivery status of one subscription."""

    state: DeliveryState = DeliveryState.HEALTHY
    waiting: int = 0
    """Number of pending notifications."""
    since: datetime | None = None
    """Since when deliveries fail."""
    next_try_at: datetime | None = None
    last_error: str = ""
    refused: int = 0
    """Number of pending notifications that the receiver refuses, while it accepts others."""
    missed: int = 0
    """Number of revisions that were never delivered: no longer in the journal, or refused for long."""


class DeliveryWorker:
    """Delivers notifications to one subscription, from after ``subscription.delivered_revision``."""

    def __init__(
        self,
        subscription: Subscription,
        follower: JournalFollower,
        channel: Channel,
        clock: Clock,
        threads: Executor,
        random: Random,
        moved: Callable[[bool], None],
        window: int,
    ) -> None:
        self.subscription = subscription
        self.recorded = subscription.delivered_revision
        """The recorded progress."""
        self.has_news = False
        """Whether there is progress to record."""
        self._follower = follower
        self._channel = channel
        self._clock = clock
        self._threads = threads
        self._random = random
        self._moved = moved
        """Called when there is progress to record; True if something was delivered."""
        self._delivery_queue = DeliveryQueue(window)
        self._lookahead: JournalFollower | None = None
        """Reads ahead of the follower, to count what is pending beyond the queue."""
        self._beyond = 0
        self._delivered = 0
        self._failures = 0
        self._retry_at: datetime | None = None
        self._since: datetime | None = None
        self._error = ""
        self._missed = 0
        self._is_gone = False
        self._is_stopping = False
        self._woken = asyncio.Event()
        self.is_idle = False
        """Whether it waits for nothing but the clock and new facts."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._report)

    @property
    def delivered(self) -> int:
        """The revision up to which everything was delivered."""
        return self._delivery_queue.delivered(self._follower.position)

    @property
    def delivery(self) -> DeliveryStatus:
        refused = self._delivery_queue.refused
        return DeliveryStatus(
            state=self._state,
            waiting=len(self._delivery_queue) + self._beyond,
            since=self._since,
            next_try_at=self._next_try_at(),
            last_error=self._error if self._since or refused else "",
            refused=refused,
            missed=self._missed,
        )

    def wake(self) -> None:
        self.is_idle = False
        self._woken.set()

    def skip_entries(self, before: int, after: int) -> None:
        self._follower.skip_entries(before, after)

    def resume(self) -> None:
        """Retry now: the receiver accepted something."""
        self._mark_reachable()
        self.wake()

    def forget_times(self) -> None:
        """Retry now: the clock was set, so the times of the next attempts are invalid."""
        self._retry_at = None
        self._delivery_queue.forget_times()
        self.wake()

    async def stop(self, grace: float = 0.0) -> None:
        """Stop; a delivery in progress may take ``grace`` seconds."""
        self._is_stopping = True
        self.wake()
        if grace:
            await asyncio.wait([self._task], timeout=grace)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _state(self) -> DeliveryState:
        if self._is_gone:
            return DeliveryState.GONE
        return DeliveryState.PARKED if self._since else DeliveryState.HEALTHY

    def _next_try_at(self) -> datetime | None:
        if self._is_gone:
            return None
        return self._retry_at or self._delivery_queue.next_at()

    async def _run(self) -> None:
        while not self._is_stopping:
            self._woken.clear()
            try:
                await self._read_on()
                if due := self._due():
                    await asyncio.gather(*(self._deliver(each) for each in due))
                    continue
                if await self._count_on():
                    continue
            except ForewarnError as error:
                log.warning("subscription waits for the journal", extra={"fields": self._fields(error)})
                await self._wait(self._clock.now() + _JOURNAL_RETRY)
            else:
                await self._wait(self._next_try_at())

    async def _wait(self, until: datetime | None) -> None:
        timer = self._clock.call_at(until, self.wake) if until else None
        self.is_idle = not self._woken.is_set()
        try:
            await self._woken.wait()
        finally:
            self.is_idle = False
            if timer:
                timer.cancel()

    async def _read_on(self) -> None:
        while self._delivery_queue.has_room and self._follower.is_behind and not self._is_stopping:
            read = await self._follower.read()
            messages = self._wanted(read)
            self._missed += sum(_missing_revisions(message) for message in messages)
            self._delivery_queue.add(messages)
            if self._lookahead is None or self._follower.position >= self._lookahead.position:
                self._lookahead, self._beyond = None, 0
            else:
                self._beyond -= len(messages)
            # After a restart the only new entry is the record itself.
            if read or self._follower.position > self.recorded + 1:
                self.has_news = True
                self._moved(False)
            await asyncio.sleep(0)  # let other workers run

    async def _count_on(self) -> bool:
        """Count some of what is pending beyond the queue; return whether there was something."""
        lookahead = self._lookahead or self._follower
        if not lookahead.is_behind:
            return False
        self._lookahead = self._lookahead or self._follower.fork()
        self._beyond += len(self._wanted(await self._lookahead.read()))
        await asyncio.sleep(0)
        return True

    def _wanted(self, messages: list[Notification]) -> list[Notification]:
        return [message for message in messages if matches_subscription(message, self.subscription)]

    def _due(self) -> list[PendingNotification]:
        now = self._clock.now()
        if self._is_gone or (self._retry_at and now < self._retry_at):
            return []
        is_program = self.subscription.kind is SubscriptionKind.WEBHOOK
        return self._delivery_queue.ready(now)[: _SIDE_BY_SIDE if is_program and not self._failures else 1]

    async def _deliver(self, pending: PendingNotification) -> None:
        deliver = self._channel.deliver
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, deliver, pending.message)
        except NotDelivered as error:
            self._fail(pending, error)
        else:
            self._delivered += 1
            self._delivery_queue.remove(pending)
            self._mark_reachable()
            self.has_news = True
            self._moved(True)

    def _mark_reachable(self) -> None:
        if self._since:
            log.info("deliveries to a subscription succeed again", extra={"fields": self._fields()})
        self._failures = 0
        self._is_gone = False
        self._retry_at = self._since = None
        self._delivery_queue.reset_tries()

    def _fail(self, pending: PendingNotification, error: NotDelivered) -> None:
        now = self._clock.now()
        self._error = str(error)
        pending.fail(self._delivered, now, self._random)
        if pending.is_hopeless:
            self._give_up(pending)
        if pending.refusals:
            return
        if self._since is None:
            self._since = now
            log.warning("deliveries to a subscription fail and are repeated", extra={"fields": self._fields(error)})
        self._is_gone = self._is_gone or error.is_gone
        if self._retry_at is None or self._retry_at <= now:  # concurrent failures count as one
            self._failures += 1
            wait = max(retry_delay(self._failures, self._random), timedelta(seconds=error.wait))
            self._retry_at = now + wait

    def _report(self, ended: asyncio.Task[None]) -> None:
        """Log unexpected errors of the worker."""
        if not ended.cancelled() and (error := ended.exception()):
            log.error("deliveries to a subscription ended", exc_info=error, extra={"fields": self._fields()})

    def _give_up(self, pending: PendingNotification) -> None:
        self._delivery_queue.remove(pending)
        self._missed += 1
        log.error(
            "notification dropped: the receiver refused it for a day while it accepted others",
            extra={"fields": {**self._fields(self._error), "message_id": pending.message.id}},
        )

    def _fields(self, reason: object = "") -> dict[str, str]:
        return {"subscription": self.subscription.name} | ({"reason": str(reason)} if reason else {})


def _missing_revisions(message: Notification) -> int:
    """Return how many revisions a notification reports as missing."""
    if message.type is not NotificationType.MISSED:
        return 0
    _, first, last = message.id.split("-")
    return int(last) - int(first) + 1
