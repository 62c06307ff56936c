"""A node that tells others, on a clock that stands still, for the tests of this folder."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

from forewarn.clocks import ManualClock
from forewarn.config.settings import Mail
from forewarn.control.notices.deliverer import Deliverer
from forewarn.control.notices.delivery import Delivery
from forewarn.core.commands import Attempt, RemoveSubscription, Report, Result, SetSubscription
from forewarn.core.model import NODE, EventType
from forewarn.core.outsiders import Subscription, SubscriptionKind
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Journal
from tests.node.rig import OPERATOR, Rig

SECRET = "whsec_" + "QUJD" * 8
Story = Callable[["Site"], Awaitable[None]]


def play(
    story: Story,
    journal: Journal | None = None,
    clock: ManualClock | None = None,
    mail: Mail | None = None,
    *,
    crashes: bool = False,
) -> None:
    """Play a story on a service that starts, and stops behind it, or ends without a word."""

    async def run() -> None:
        site = Site(journal or MemoryJournal(), clock or ManualClock(), mail or Mail())
        async with asyncio.timeout(60):
            await site.rig.node.start()
            try:
                await story(site)
            finally:
                if crashes:
                    await site.rig.node.stop()
                    await site.deliverer.stop()
                else:
                    await site.deliverer.stop()
                    await site.rig.node.stop()

    asyncio.run(run())


class Site:
    """A node, its deliverer, and what an operator does."""

    def __init__(self, journal: Journal, clock: ManualClock, mail: Mail) -> None:
        self.journal = journal
        self.rig = Rig(journal, clock)
        self.clock = clock
        self.deliverer = Deliverer(self.rig.node, journal, mail, origin="site", timeout=5.0)
        self.rig.node.feed.subscribe(self.deliverer)

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
        told = self.rig.node.revision
        wished = Subscription(str(uuid4()), name, kind, target, secret, groups, types, told)
        await self.set(wished)
        return wished

    async def set(self, wished: Subscription) -> None:
        await self.rig.node.submit(SetSubscription(id=uuid4().hex, by=OPERATOR, subscription=wished))

    async def unsubscribe(self, subscription: Subscription) -> None:
        await self.rig.node.submit(RemoveSubscription(id=uuid4().hex, by=OPERATOR, subscription=subscription.id))

    async def complete(self, event: str) -> None:
        await self.rig.node.submit(Attempt(id=uuid4().hex, by=NODE, event=event))
        await self.rig.node.submit(Report(id=uuid4().hex, by=NODE, event=event, result=Result.DONE))

    async def whole_life(self, vm: str = "web-0") -> str:
        """Let an event be announced, approved, started and completed."""
        event = await self.rig.operate("restart", vm)
        await self.rig.approve(event, vm=vm)
        await self.complete(event)
        return event

    async def settled(self) -> None:
        """Return once nothing happens any more before the clock moves."""
        while not (self.rig.node.is_idle and self.deliverer.is_idle):  # noqa: ASYNC110 - threads are at work
            await asyncio.sleep(0)

    async def advance(self, step: timedelta, times: int = 1) -> None:
        await self.settled()
        for _ in range(times):
            self.clock.advance(step)
            await self.settled()

    def delivery(self, subscription: Subscription) -> Delivery:
        return self.deliverer.delivery_of(subscription.id)

    def told(self, subscription: Subscription) -> int:
        """How far somebody was told, as the journal has it."""
        return self.rig.node.fleet.subscriptions[subscription.id].told
