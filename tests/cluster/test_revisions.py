"""Waiting for a revision of the replica."""

import asyncio

from forewarn.cluster.revisions import RevisionWaiter
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Recovered
from forewarn.node.replica import Replica
from tests.metadata.harness import NOW, on_both_loops


def entry(revision: int) -> Entry:
    return Entry(revision, NOW, f"c{revision}", NODE, ())


@on_both_loops
async def test_a_caller_waits_until_the_replica_holds_the_revision() -> None:
    """Those that wait for less go on before."""
    replica = Replica(MemoryJournal())
    replica.load(Recovered(Fleet(), 0))
    waiter = RevisionWaiter(replica)
    replica.subscribe(waiter)
    third, first = (asyncio.create_task(waiter.wait(revision, 5)) for revision in (3, 1))
    await asyncio.sleep(0)

    replica.apply([entry(1), entry(2)])
    assert await first
    assert not third.done()
    replica.apply([entry(3)])
    assert await third
    assert await waiter.wait(2, 0)
    await replica.close()


@on_both_loops
async def test_a_replica_that_stays_behind_is_not_waited_for() -> None:
    """The caller learns that it does not hold the revision; a later commit disturbs nobody."""
    replica = Replica(MemoryJournal())
    replica.load(Recovered(Fleet(), 0))
    waiter = RevisionWaiter(replica)
    replica.subscribe(waiter)

    assert not await waiter.wait(1, 0.01)
    replica.apply([entry(1)])
    assert waiter.holds(1)
    await replica.close()
