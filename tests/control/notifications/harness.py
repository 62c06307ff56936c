"""A node that tells others, on a clock that stands still, for the tests of this folder."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

from forewarn.clocks import ManualClock
from forewarn.config.settings import MailSettings
from forewarn.control.notifications.delivery_queue import WINDOW
from forewarn.control.notifications.dispatcher import Dispatcher
from forewarn.control.notifications.worker import DeliveryStatus
from forewarn.core.commands import ImpactResult, RecordAttempt, RemoveSubscription, ReportImpact, SetSubscription
from forewarn.core.model import NODE, EventType, Subscription, SubscriptionKind
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Journal
from tests.node.harness import OPERATOR, NodeHarness

SECRET = "whsec_" + "QUJD" * 8
Scenario = Callable[["NotificationHarness"], Awaitable[None]]


def play(
    story: Scenario,
    journal: Journal | None = None,
    clock: ManualClock | None = None,
    mail: MailSettings | None = None,
    *,
    crashes: bool = False,
    window: int = WINDOW,
) -> None:
    """Play a story on a service that starts, and stops behind it, or ends without a word."""

    async def run() -> None:
        kept, now = journal or MemoryJournal(), clock or ManualClock()
        harness = NotificationHarness(kept, now, mail or MailSettings(), window)
        async with asyncio.timeout(60):
            await harness.node_harness.node.start()
            try:
                await story(harness)
            finally:
                if crashes:
                    await harness.node_harness.node.stop()
                    await harness.dispatcher.stop()
                else:
                    await harness.dispatcher.stop()
                    await harness.node_harness.node.stop()

    asyncio.run(run())


class NotificationHarness:
    """A node, its deliverer, and what an operator does."""

    def __init__(self, journal: Journal, clock: ManualClock, mail: MailSettings, window: int = WINDOW) -> None:
        self.journal = journal
        self.node_harness = NodeHarness(journal, clock)
        self.clock = clock
        node = self.node_harness.node
        self.dispatcher = Dispatcher(node, journal, mail, origin="site", timeout=5.0, window=window)
        self.node_harness.node.replica.subscribe(self.dispatcher)

    async def subscribe(
        self,
        target: str,
        kind: SubscriptionKind = SubscriptionKind.WEBHOOK,
        *,
        name: str = "ops",
        secret: str = "",
        groups: tuple[str, ...] = (),
        types: tuple[EventType, ...] = (),
    ) -> Subscription:
        revision = self.node_harness.node.replica.revision
        wished = Subscription(str(uuid4()), name, kind, target, secret, groups, types, revision)
        await self.set(wished)
        return wished

    async def set(self, wished: Subscription) -> None:
        await self.node_harness.node.submit(SetSubscription(id=uuid4().hex, by=OPERATOR, subscription=wished))

    async def unsubscribe(self, subscription: Subscription) -> None:
        await self.node_harness.node.submit(
            RemoveSubscription(id=uuid4().hex, by=OPERATOR, subscription=subscription.id)
        )

    async def complete(self, event: str) -> None:
        await self.node_harness.node.submit(RecordAttempt(id=uuid4().hex, by=NODE, event=event))
        await self.node_harness.node.submit(
            ReportImpact(id=uuid4().hex, by=NODE, event=event, result=ImpactResult.DONE)
        )

    async def whole_life(self, vm: str = "web-0") -> str:
        """Let an event be announced, approved, started and completed."""
        event = await self.node_harness.operate("restart", vm)
        await self.node_harness.approve(event, vm=vm)
        await self.complete(event)
        return event

    async def settled(self) -> None:
        """Return once nothing happens any more before the clock moves."""
        while not (self.node_harness.node.is_idle and self.dispatcher.is_idle):  # noqa: ASYNC110 - threads are at work
            await asyncio.sleep(0.001)

    async def advance(self, step: timedelta, times: int = 1) -> None:
        await self.settled()
        for _ in range(times):
            self.clock.advance(step)
            await self.settled()

    def delivery(self, subscription: Subscription) -> DeliveryStatus:
        return self.dispatcher.delivery_of(subscription.id)

    def told(self, subscription: Subscription) -> int:
        """How far somebody was told, as the journal has it."""
        return self.node_harness.node.replica.fleet.subscriptions[subscription.id].delivered_revision
