"""Drains of one wave share an order of hosts, which is made anew when it may be another one."""

from uuid import uuid4

import pytest

from forewarn.core.commands import CordonHost, MoveVm
from forewarn.core.fleet import Fleet
from forewarn.core.placement import Capacity, TargetOrder, plan_drain
from forewarn.node.drain_plans import DrainPlanMaker
from forewarn.node.feed import Commit
from tests.node.harness import OPERATOR, NodeHarness, run


class Follower:
    """Passes commits on to a maker of plans, unless it is deaf."""

    def __init__(self, drains: DrainPlanMaker) -> None:
        self._drains = drains
        self.is_deaf = False

    def load(self, fleet: Fleet) -> None:
        self._drains.forget()

    def publish(self, commit: Commit) -> None:
        if not self.is_deaf:
            self._drains.note(commit)


def test_an_order_is_kept_until_a_commit_may_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cordon does not; a move does, and so does anything that was not noted, and another fleet."""
    made: list[TargetOrder] = []
    of = TargetOrder.of

    def make(fleet: Fleet) -> TargetOrder:
        made.append(of(fleet))
        return made[-1]

    monkeypatch.setattr(TargetOrder, "of", staticmethod(make))

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        replica = harness.node.replica
        drains = DrainPlanMaker(replica, None)
        follower = Follower(drains)
        replica.subscribe(follower)

        async def orders() -> int:
            """Plan a drain, and count the orders that were made so far."""
            plan, _ = await drains.plan("h1")
            count = len(made)
            assert plan == plan_drain(replica.fleet, "h1", Capacity(), order=of(replica.fleet))
            return count

        assert await orders() == await orders() == 1
        await harness.node.submit(CordonHost(id=uuid4().hex, by=OPERATOR, host="h2", is_cordoned=True))
        assert await orders() == 1
        await harness.node.submit(MoveVm(id=uuid4().hex, by=OPERATOR, vm="web-1", host="h1", record=True))
        assert await orders() == 2
        follower.is_deaf = True
        await harness.operate("freeze", "web-0")
        assert await orders() == 3
        follower.load(replica.fleet)
        assert await orders() == 4

    run(story)
