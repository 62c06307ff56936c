"""Looking at the fleet: only ever at what is durable."""

import asyncio
import threading
from collections.abc import Sequence
from uuid import uuid4

import pytest

from forewarn.core.commands import ChangeFleet
from forewarn.core.errors import Unavailable, Unknown
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed, Recovered
from tests.node.harness import OPERATOR, NodeHarness, run


class SlowJournal(MemoryJournal):
    """Appends when it is let, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.fails = False

    def load(self) -> Recovered:
        if self.fails:
            raise JournalFailed("the disk is gone")
        return super().load()

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        self.gate.wait(20)
        if self.fails:
            raise JournalFailed("the disk is gone")
        super().append(expected_revision, entries)


def hosts(fleet: Fleet) -> list[str]:
    return list(fleet.hosts)


def add_host(name: str) -> ChangeFleet:
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(name),))


def test_what_is_being_appended_is_not_seen_until_it_is_durable() -> None:
    """A look during an append is answered after it."""
    journal = SlowJournal()

    async def story(harness: NodeHarness) -> None:
        adding = asyncio.create_task(harness.node.submit(add_host("h1")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert hosts(harness.node.fleet) == ["h1"]  # decided, not durable
        looking = asyncio.create_task(harness.node.look(lambda fleet: (hosts(fleet), len(list(journal.entries())))))
        await asyncio.sleep(0)
        assert not looking.done()

        journal.gate.set()

        assert await looking == (["h1"], 1)
        await adding

    run(story, journal)


def test_a_look_at_a_fleet_at_rest_is_answered_at_once() -> None:
    """Nothing is in the way."""

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))

        assert await harness.node.look(hosts) == ["h1"]

    run(story)


def test_after_a_failed_append_the_fleet_is_read_anew_before_it_is_looked_at() -> None:
    """What was decided and lost is never shown; while the journal is gone, that is what is said."""
    journal = SlowJournal()
    journal.gate.set()

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))
        journal.fails = True
        with pytest.raises(Unavailable):
            await harness.node.submit(add_host("h2"))
        with pytest.raises(Unavailable, match="the disk is gone"):
            await harness.node.look(hosts)
        journal.fails = False
        harness.clock.advance(harness.node.retry_after)

        assert await harness.node.look(hosts) == ["h1"]

    run(story, journal)


def test_a_question_may_be_refused() -> None:
    """What it raises comes back to who asked, also when it had to wait."""
    journal = SlowJournal()

    def refuse(fleet: Fleet) -> None:
        raise Unknown(f"not among {len(fleet.hosts)}")

    async def story(harness: NodeHarness) -> None:
        adding = asyncio.create_task(harness.node.submit(add_host("h1")))
        await asyncio.sleep(0)
        looking = asyncio.create_task(harness.node.look(refuse))
        await asyncio.sleep(0)
        journal.gate.set()

        with pytest.raises(Unknown, match="not among 1"):
            await looking
        await adding

    run(story, journal)
