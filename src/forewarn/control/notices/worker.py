"""Tells one subscriber: reads ahead a little, delivers, and tries again until it gets through.

    journal ──▶ follower ──▶ window ──▶ courier ──▶ receiver
                                │
                    told: the revision before the oldest pending message

While the receiver is down the window stays as it is, and what comes behind it is only counted; it is read from the
journal again when there is room.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime, timedelta
from random import Random

from forewarn.clocks import Clock
from forewarn.control.notices.couriers import Courier
from forewarn.control.notices.delivery import Delivery, DeliveryState
from forewarn.control.notices.follower import Follower
from forewarn.control.notices.messages import Message, MessageType, is_wanted
from forewarn.control.notices.posting import NotDelivered
from forewarn.control.notices.window import Pending, Window, back_off
from forewarn.core.errors import ForewarnError
from forewarn.core.outsiders import Subscription, SubscriptionKind

log = logging.getLogger(__name__)

_SIDE_BY_SIDE = 4
"""How many events a program is told of at once; people are told of one after the other."""
_JOURNAL_RETRY = timedelta(seconds=5)


class Worker:
    """Delivers to one subscriber what happened after ``subscription.told``."""

    def __init__(
        self,
        subscription: Subscription,
        follower: Follower,
        courier: Courier,
        clock: Clock,
        threads: Executor,
        random: Random,
        moved: Callable[[bool], None],
    ) -> None:
        self.subscription = subscription
        self.recorded = subscription.told
        """How far it was told, as the journal has it."""
        self.has_news = False
        """Whether it is worth recording how far it was told since."""
        self._follower = follower
        self._courier = courier
        self._clock = clock
        self._threads = threads
        self._random = random
        self._moved = moved
        """Called when there is more to record; at once where something was delivered."""
        self._window = Window()
        self._scout: Follower | None = None
        """Reads ahead of the follower, to count what waits beyond the window."""
        self._beyond = 0
        self._delivered = 0
        self._failures = 0
        self._retry_at: datetime | None = None
        self._since: datetime | None = None
        self._error = ""
        self._missed = 0
        self._is_gone = False
        self._is_stopping = False
        self._stirred = asyncio.Event()
        self.is_idle = False
        """Whether it waits for nothing but the clock and new facts."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._report)

    @property
    def told(self) -> int:
        """The revision up to which everything was delivered."""
        return self._window.told(self._follower.position)

    @property
    def delivery(self) -> Delivery:
        refused = self._window.refused
        return Delivery(
            state=self._state,
            waiting=len(self._window) + self._beyond,
            since=self._since,
            next_try_at=self._next_try_at(),
            last_error=self._error if self._since or refused else "",
            refused=refused,
            missed=self._missed,
        )

    def stir(self) -> None:
        """Look whether there is something to do."""
        self.is_idle = False
        self._stirred.set()

    def pass_by(self, before: int, after: int) -> None:
        """Take note of entries that are about no event."""
        self._follower.pass_by(before, after)

    def resume(self) -> None:
        """Try again at once: the receiver took something."""
        self._get_through()
        self.stir()

    def forget_times(self) -> None:
        """Try again at once: the clock was set, and the times of the next attempts mean nothing any more."""
        self._retry_at = None
        self._window.forget_times()
        self.stir()

    async def stop(self, patience: float = 0.0) -> None:
        """End; what is being delivered may end too, for so many seconds."""
        self._is_stopping = True
        self.stir()
        if patience:
            await asyncio.wait([self._task], timeout=patience)
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
        return self._retry_at or self._window.next_at()

    async def _run(self) -> None:
        while not self._is_stopping:
            self._stirred.clear()
            try:
                await self._read_on()
                if due := self._due():
                    await asyncio.gather(*(self._deliver(each) for each in due))
                    continue
                if await self._count_on():
                    continue
            except ForewarnError as error:
                log.warning("a subscription waits for the journal", extra={"fields": self._fields(error)})
                await self._wait(self._clock.now() + _JOURNAL_RETRY)
            else:
                await self._wait(self._next_try_at())

    async def _wait(self, until: datetime | None) -> None:
        timer = self._clock.call_at(until, self.stir) if until else None
        self.is_idle = not self._stirred.is_set()
        try:
            await self._stirred.wait()
        finally:
            self.is_idle = False
            if timer:
                timer.cancel()

    async def _read_on(self) -> None:
        while self._window.has_room and self._follower.is_behind and not self._is_stopping:
            read = await self._follower.read()
            messages = self._wanted(read)
            self._missed += sum(_span(message) for message in messages)
            self._window.add(messages)
            if self._scout is None or self._follower.position >= self._scout.position:
                self._scout, self._beyond = None, 0
            else:
                self._beyond -= len(messages)
            # After a restart there is just the record itself, made after what it records.
            if read or self._follower.position > self.recorded + 1:
                self.has_news = True
                self._moved(False)
            await asyncio.sleep(0)  # others want to go on too

    async def _count_on(self) -> bool:
        """Count some of what waits beyond the window; tell whether there was something."""
        scout = self._scout or self._follower
        if not scout.is_behind:
            return False
        self._scout = self._scout or self._follower.fork()
        self._beyond += len(self._wanted(await self._scout.read()))
        await asyncio.sleep(0)
        return True

    def _wanted(self, messages: list[Message]) -> list[Message]:
        return [message for message in messages if is_wanted(message, self.subscription)]

    def _due(self) -> list[Pending]:
        now = self._clock.now()
        if self._is_gone or (self._retry_at and now < self._retry_at):
            return []
        is_program = self.subscription.kind is SubscriptionKind.WEBHOOK
        return self._window.ready(now)[: _SIDE_BY_SIDE if is_program and not self._failures else 1]

    async def _deliver(self, pending: Pending) -> None:
        deliver = self._courier.deliver
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, deliver, pending.message)
        except NotDelivered as error:
            self._fail(pending, error)
        else:
            self._delivered += 1
            self._window.remove(pending)
            self._get_through()
            self.has_news = True
            self._moved(True)

    def _get_through(self) -> None:
        if self._since:
            log.info("deliveries to a subscription succeed again", extra={"fields": self._fields()})
        self._failures = 0
        self._is_gone = False
        self._retry_at = self._since = None
        self._window.begin_anew()

    def _fail(self, pending: Pending, error: NotDelivered) -> None:
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
        if self._retry_at is None or self._retry_at <= now:  # what fails side by side is one failure
            self._failures += 1
            wait = max(back_off(self._failures, self._random), timedelta(seconds=error.wait))
            self._retry_at = now + wait

    def _report(self, ended: asyncio.Task[None]) -> None:
        """Let no fault of our own go unseen."""
        if not ended.cancelled() and (error := ended.exception()):
            log.error("deliveries to a subscription ended", exc_info=error, extra={"fields": self._fields()})

    def _give_up(self, pending: Pending) -> None:
        self._window.remove(pending)
        self._missed += 1
        log.error(
            "a message is given up: the subscriber refused it for a day, and took others",
            extra={"fields": {**self._fields(self._error), "message_id": pending.message.id}},
        )

    def _fields(self, reason: object = "") -> dict[str, str]:
        return {"subscription": self.subscription.name} | ({"reason": str(reason)} if reason else {})


def _span(message: Message) -> int:
    """Return how many revisions a message says are missing."""
    if message.type is not MessageType.MISSED:
        return 0
    _, first, last = message.id.split("-")
    return int(last) - int(first) + 1
