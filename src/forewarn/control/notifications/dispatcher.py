"""Dispatches notifications to all subscriptions, and records their progress.

Delivery is at least once: what was delivered in the last seconds before a crash is delivered again. Progress is
recorded some seconds after a delivery for all subscriptions together, and rarely if nothing was delivered; such a
record itself is not progress, so an idle service writes nothing.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random
from typing import assert_never

from forewarn.clocks import Timer
from forewarn.config.settings import MailSettings
from forewarn.control.bodies import DeliveryReceipt
from forewarn.control.notifications.channels import ChannelFactory, Channels, NotDelivered
from forewarn.control.notifications.delivery_queue import WINDOW
from forewarn.control.notifications.journal_follower import JournalFollower, RecentEntries
from forewarn.control.notifications.notification import make_test_notification
from forewarn.control.notifications.worker import DeliveryStatus, DeliveryWorker
from forewarn.core.commands import RecordDelivered
from forewarn.core.errors import ForewarnError, Refused, Unavailable
from forewarn.core.facts import (
    ClockStepped,
    Delivered,
    EnrolmentFact,
    Entry,
    EventFact,
    Fetched,
    FleetFact,
    ObservationRecorded,
    Selected,
    SubscriptionRemoved,
    SubscriptionSet,
    TokenCreated,
    TokenRevoked,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Event, Subscription, SubscriptionKind
from forewarn.core.rollouts.facts import RolloutFact
from forewarn.journal.port import Journal
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.randomness import new_id, secret_bytes

log = logging.getLogger(__name__)

_HEEDED = (SubscriptionSet, SubscriptionRemoved, ClockStepped)
"""The facts that change which workers there are, or what they do."""
_RECORD_SOON = timedelta(seconds=5)
_RECORD_RARELY = timedelta(hours=1)
_STOP_TIMEOUT = 5.0
"""Seconds that deliveries in progress may take when the service stops, where it is the only node."""


class Dispatcher:
    """Runs one worker for each subscription."""

    def __init__(
        self,
        node: Node,
        journal: Journal,
        mail: MailSettings,
        *,
        origin: str = "",
        timeout: float = 10.0,
        channels: ChannelFactory | None = None,
        window: int = WINDOW,
    ) -> None:
        """``channels``: what delivers, instead of the web and mail."""
        self._node = node
        self._journal = journal
        self._channels = channels or Channels(mail, origin or socket.gethostname(), node.clock.now, timeout)
        self._threads = _start_threads()
        self._window = window
        self._random = Random(secret_bytes(8))  # noqa: S311 - jitter of retries, not security
        self._recent_entries = RecentEntries()
        self._known: dict[str, Event] = {}
        self._workers: dict[str, DeliveryWorker] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._fires_at: float | None = None
        self._recording: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        """Return whether all workers wait for nothing but the clock and new facts."""
        return self._recording is None and not self._ending and all(each.is_idle for each in self._workers.values())

    def load(self, fleet: Fleet) -> None:
        if self._is_stopped:  # this process leads again
            self._threads, self._is_stopped = _start_threads(), False
        self._recent_entries.begin(self._node.replica.revision)
        self._known.clear()
        if fleet.subscriptions:
            self._known.update(fleet.events)
        for id_ in self._workers.keys() - fleet.subscriptions.keys():
            self._drop(id_)
        for subscription in fleet.subscriptions.values():
            worker = self._workers.get(subscription.id)
            if worker and _is_same(worker.subscription, subscription):
                worker.wake()
            else:
                self._take(subscription)

    def publish(self, commit: Commit) -> None:
        self._follow(commit.entries)
        if not commit.holds(_HEEDED):
            return
        for entry in commit.entries:
            for fact in entry.facts:
                match fact:
                    case SubscriptionSet(subscription=subscription):
                        self._known.update(commit.fleet.events)
                        self._take(subscription)
                    case SubscriptionRemoved(subscription=id_):
                        self._drop(id_)
                    case ClockStepped():
                        for worker in self._workers.values():
                            worker.forget_times()
                    case (
                        TokenCreated() | TokenRevoked() | Delivered() | Fetched() | ObservationRecorded() | Selected()
                    ):
                        pass
                    case _ if isinstance(fact, (EventFact, FleetFact, EnrolmentFact, RolloutFact)):
                        pass
                    case _:
                        assert_never(fact)

    def check(self, subscription: Subscription) -> None:
        """Refuse a mail subscription if no mail server is configured."""
        if subscription.kind is SubscriptionKind.MAIL and not self._channels.sends_mail:
            raise Refused(
                f"cannot send mail to {subscription.target}: no mail server is configured; set host and sender"
                " in [mail] of forewarn.toml, and reload the service"
            )

    def delivery_of(self, subscription: str) -> DeliveryStatus:
        worker = self._workers.get(subscription)
        return worker.delivery if worker else DeliveryStatus()

    def deliveries(self) -> dict[str, DeliveryStatus]:
        """Return the delivery status of every subscription, by id."""
        return {id_: worker.delivery for id_, worker in self._workers.items()}

    async def send_test(self, subscription: Subscription) -> DeliveryReceipt:
        """Send a test notification; raise Unavailable with the reason if it was not delivered.

        If it was delivered, pending notifications are retried immediately.
        """
        message = make_test_notification(new_id(), self._node.clock.now(), subscription.name)
        deliver = self._channels.channel_for(subscription).deliver
        try:
            said = await asyncio.get_running_loop().run_in_executor(self._threads, deliver, message)
        except NotDelivered as error:
            raise Unavailable(f"the test notification was not delivered: {error}") from None
        if worker := self._workers.get(subscription.id):
            worker.resume()
        return DeliveryReceipt(detail=said)

    def set_mail(self, mail: MailSettings) -> None:
        """Use another mail server; pending notifications by mail are retried immediately."""
        self._channels.set_mail(mail)
        for worker in list(self._workers.values()):
            if worker.subscription.kind is SubscriptionKind.MAIL:
                self._take(worker.subscription)

    async def stop(self) -> None:
        """Wait a moment for deliveries in progress, and record the progress; ``load`` starts it again.

        A node of a cluster does not wait: another one cannot lead before this one has stopped, and delivers again
        what was in progress.
        """
        self._is_stopped = True
        if self._timer:
            self._timer.cancel()
        grace = 0.0 if self._node.name else _STOP_TIMEOUT
        await asyncio.gather(*(worker.stop(grace) for worker in self._workers.values()), *self._ending)
        if self._recording:
            await self._recording
        await self._record()
        self._workers.clear()
        self._timer = self._fires_at = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _follow(self, entries: Sequence[Entry]) -> None:
        if not self._workers:
            self._recent_entries.begin(entries[-1].revision)
            return
        before = self._recent_entries.head
        if self._recent_entries.extend(entries):
            for worker in self._workers.values():
                worker.wake()
            return
        is_news = not all(isinstance(fact, Delivered) for entry in entries for fact in entry.facts)
        for worker in self._workers.values():
            worker.skip_entries(before, self._recent_entries.head)
            worker.has_news |= is_news
        if is_news:
            self._expect_record(False)

    def _take(self, subscription: Subscription) -> None:
        """Start delivering to a subscription, or restart after it has changed."""
        before = self._workers.get(subscription.id)
        delivered = max(subscription.delivered_revision, before.delivered if before else 0)
        self._drop(subscription.id)
        follower = JournalFollower(self._node, self._journal, self._recent_entries, self._known, delivered)
        channel = self._channels.channel_for(subscription)
        self._workers[subscription.id] = DeliveryWorker(
            subscription,
            follower,
            channel,
            self._node.clock,
            self._threads,
            self._random,
            self._expect_record,
            self._window,
        )

    def _drop(self, id_: str) -> None:
        if worker := self._workers.pop(id_, None):
            ending = asyncio.create_task(worker.stop())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _expect_record(self, is_soon: bool) -> None:  # noqa: FBT001 - it is called with a literal only
        wait = _RECORD_SOON if is_soon else _RECORD_RARELY
        when = self._node.clock.seconds() + wait.total_seconds()
        if self._is_stopped or (self._fires_at is not None and self._fires_at <= when):
            return
        if self._timer:
            self._timer.cancel()
        self._fires_at = when
        self._timer = self._node.clock.call_later(wait, self._fire)

    def _fire(self) -> None:
        self._timer = self._fires_at = None
        self._recording = asyncio.create_task(self._record())

    async def _record(self) -> None:
        news = {id_: worker for id_, worker in self._workers.items() if worker.has_news}
        revisions = {id_: worker.delivered for id_, worker in news.items() if worker.delivered > worker.recorded}
        for worker in news.values():
            worker.has_news = False
        try:
            if revisions:
                await self._node.submit(RecordDelivered(id=new_id(), by=NODE, revisions=revisions))
        except ForewarnError as error:
            log.warning("delivery progress was not recorded", extra={"fields": {"reason": str(error)}})
            self._recording = None
            for worker in news.values():
                worker.has_news = True
            self._expect_record(True)
            return
        for id_, revision in revisions.items():
            news[id_].recorded = revision
        self._recording = None


def _start_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(32, thread_name_prefix="notification")


def _is_same(one: Subscription, other: Subscription) -> bool:
    """Return whether two subscriptions are equal, apart from their progress."""
    names = (name for name in one.__struct_fields__ if name != "delivered_revision")
    return all(getattr(one, name) == getattr(other, name) for name in names)
