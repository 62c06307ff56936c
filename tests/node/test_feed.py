"""The feed: a listener that fails is loaded again, and neither callers nor other listeners notice."""

import asyncio
from uuid import uuid4

import pytest

from forewarn.core.commands import ChangeFleet
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host
from forewarn.node.feed import Commit, Feed
from tests.node.harness import OPERATOR, NodeHarness, run


class Faulty:
    """Fails as often as it is told to."""

    def __init__(self, publishes: int = 0, loads: int = 0) -> None:
        self.publishes = publishes
        self.loads = loads
        self.heard: list[str] = []

    def load(self, fleet: Fleet) -> None:
        if self.loads:
            self.loads -= 1
            raise LookupError("load")
        self.heard.append("load")

    def publish(self, commit: Commit) -> None:
        if self.publishes:
            self.publishes -= 1
            raise LookupError("publish")
        self.heard.append("publish")


def add_host(name: str) -> ChangeFleet:
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(name),))


def test_callers_are_answered_whatever_a_listener_raises() -> None:
    """The commit is durable; who waits for it and who listens after the faulty one hears of it."""

    async def story(harness: NodeHarness) -> None:
        faulty, after = Faulty(publishes=1), Faulty()
        harness.node.replica.subscribe(faulty)
        harness.node.replica.subscribe(after)

        assert await harness.node.submit(add_host("h1"))
        assert await harness.node.submit(add_host("h2"))

        assert faulty.heard == ["load", "load", "publish"]
        assert after.heard == ["load", "publish", "publish"]
        assert harness.node.replica.feed.faults["Faulty"] == 1

    run(story)


def test_a_listener_that_reads_a_canceled_future_does_not_end_the_writer() -> None:
    """The error of a canceled future is none of those that ``except Exception`` catches."""

    class Canceled(Faulty):
        def publish(self, commit: Commit) -> None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            future.result()

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(Canceled())

        assert await harness.node.submit(add_host("h1"))
        assert await harness.node.submit(add_host("h2"))
        assert harness.node.replica.feed.faults["Canceled"] == 2

    run(story)


def test_a_listener_that_cannot_be_loaded_is_loaded_with_the_next_commit() -> None:
    """It misses nothing: a load is all that is durable."""
    feed, faulty = Feed(), Faulty(publishes=1, loads=1)
    feed.subscribe(faulty)
    commit = Commit((), Fleet())

    feed.publish(commit)
    assert faulty.heard == []
    feed.publish(commit)
    feed.publish(commit)

    assert faulty.heard == ["load", "publish"]
    assert feed.faults["Faulty"] == 2


def test_a_listener_that_fails_at_the_start_keeps_the_service_from_starting() -> None:
    """Nobody is served by half a service that never worked."""
    feed = Feed()
    feed.subscribe(Faulty(loads=1))

    with pytest.raises(LookupError):
        feed.load(Fleet())
