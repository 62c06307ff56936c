"""The keeper: a snapshot is looked for some time after a commit, and again where it failed."""

import asyncio
from datetime import datetime, timedelta

from forewarn.core.errors import Unavailable
from forewarn.journal.memory import MemoryJournal
from forewarn.node.snapshots import SnapshotScheduler
from tests.node.harness import NodeHarness, run

SECOND = timedelta(seconds=1)


class FullJournal(MemoryJournal):
    """A journal whose snapshot is due, and fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.snapshot_due = True
        self.failures = failures
        self.looks = 0

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        self.looks += 1
        if self.looks <= self.failures:
            raise Unavailable("no room") if self.looks == 1 else ZeroDivisionError
        self.snapshot_due = False

    def compact(self, limit: int = 500) -> bool:
        return False

    def keep_history(self, history: timedelta) -> None:
        raise NotImplementedError


async def settled(snapshots: SnapshotScheduler) -> None:
    while not snapshots.is_idle:  # noqa: ASYNC110 - it is idle within a few turns of the loop
        await asyncio.sleep(0)


def test_it_looks_ten_seconds_after_a_commit_and_then_rests() -> None:
    """A service in which nothing happens is not woken."""
    journal = FullJournal(failures=0)

    async def story(harness: NodeHarness) -> None:
        snapshots = SnapshotScheduler(harness.node)
        harness.node.replica.subscribe(snapshots)
        harness.clock.advance(10 * SECOND)
        await settled(snapshots)
        journal.snapshot_due, journal.looks = True, 0
        assert harness.clock.next_call() is None
        await harness.add_fleet()
        harness.clock.advance(9 * SECOND)
        assert snapshots.is_idle
        harness.clock.advance(SECOND)
        await settled(snapshots)
        assert journal.looks == 1
        assert harness.clock.next_call() is None

    run(story, journal)


def test_a_snapshot_that_failed_is_tried_again() -> None:
    """Without waiting for the next commit."""
    journal = FullJournal(failures=2)

    async def story(harness: NodeHarness) -> None:
        snapshots = SnapshotScheduler(harness.node)
        harness.node.replica.subscribe(snapshots)
        await harness.add_fleet()
        for _ in range(5):
            harness.clock.advance(10 * SECOND)
            await settled(snapshots)
        assert journal.looks == 3

    run(story, journal)
