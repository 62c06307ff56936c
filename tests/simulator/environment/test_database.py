"""The database of simulated nodes keeps the rules of shared journals, and fails as it is told to."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from random import Random
from typing import TypeVar

import pytest

from forewarn.clocks import SystemClock
from forewarn.journal.port import AppendUnknown, JournalFailed, NotWritten
from forewarn.journal.shared import JournalDiverged, LeaseLost
from forewarn.journal.shared_memory import SharedMemoryJournal
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.database import DatabaseFault, SimulatedDatabase, SimulatedSharedJournal
from forewarn.simulator.environment.loop import SimulatedLoop
from forewarn.testing.journal_contract import hosts
from forewarn.testing.shared_journal_contract import LONG, OpenJournal, SharedJournalContract, lead, report
from forewarn.threads import THREADS

_Value = TypeVar("_Value")


class _BlockingJournal(SimulatedSharedJournal):
    """Waits in a real thread, as the contract suite needs it."""

    def follow(self, after: int, timeout: float) -> bool:
        return SharedMemoryJournal.follow(self, after, timeout)


class TestSimulatedDatabase(SharedJournalContract):
    """Without faults it is a shared journal."""

    @pytest.fixture
    def open_journal(self) -> Iterator[OpenJournal]:
        database = SimulatedDatabase(SystemClock())
        with ExitStack() as opened:
            yield lambda: opened.enter_context(closing(_BlockingJournal(database, "one", Random(1))))
        assert database.wrong == []


def play(
    story: Callable[[SimulatedDatabase, SimulatedSharedJournal, SimulatedSharedJournal], Awaitable[_Value]],
) -> _Value:
    """Play a story with two nodes, the first of which leads, in simulated time."""
    random = Random(1)
    loop = SimulatedLoop(random)
    database = SimulatedDatabase(SimulatedClock(loop))
    one, other = (SimulatedSharedJournal(database, name, random) for name in ("one", "other"))

    async def run() -> _Value:
        one.load()
        other.load()
        lead(one)
        return await story(database, one, other)

    try:
        return loop.run_until_complete(run())
    finally:
        loop.dispose()


async def call(do: Callable[[], _Value]) -> _Value:
    """Make a call in a simulated thread."""
    return await asyncio.get_running_loop().run_in_executor(THREADS, do)


def test_a_follower_waits_for_an_entry() -> None:
    """It is woken by the append, or looks by itself where the notification is lost."""

    async def story(
        database: SimulatedDatabase, one: SimulatedSharedJournal, other: SimulatedSharedJournal
    ) -> list[float]:
        loop = asyncio.get_running_loop()
        waited = []
        for number in range(2):
            database.is_silent = bool(number)
            began = loop.time()
            loop.call_later(1.0, one.append, number, hosts(number + 1, number + 1))
            assert await call(lambda: other.follow(database.revision, 5.0))
            waited.append(loop.time() - began)
        return waited

    prompt, late = play(story)
    assert 1.0 <= prompt < 1.1
    assert 5.0 <= late < 5.1


def test_an_append_may_take_effect_after_its_answer_was_lost() -> None:
    """``load`` returns only when that can not happen any more, and then tells what became of it."""

    async def story(
        database: SimulatedDatabase, one: SimulatedSharedJournal, _: SimulatedSharedJournal
    ) -> tuple[int, int]:
        database.next_faults = [DatabaseFault.LATE]
        with pytest.raises(AppendUnknown):
            await call(lambda: one.append(0, hosts(1, 1)))
        before = database.revision
        return before, (await call(one.load)).revision

    assert play(story) == (0, 1)


def test_a_late_append_of_an_earlier_term_adds_nothing() -> None:
    """The next leader is not disturbed by it."""

    async def story(
        database: SimulatedDatabase, one: SimulatedSharedJournal, other: SimulatedSharedJournal
    ) -> list[object]:
        database.next_faults = [DatabaseFault.LATE]
        with pytest.raises(AppendUnknown):
            await call(lambda: one.append(0, hosts(1, 1)))
        one.release_lease("one", database.term)
        lead(other, "other")
        await call(one.load)
        return list(other.entries())

    assert play(story) == []


def test_a_database_that_is_down_answers_nobody() -> None:
    """Nothing is written, and the lease is not renewed."""

    async def story(database: SimulatedDatabase, one: SimulatedSharedJournal, _: SimulatedSharedJournal) -> None:
        database.is_down = True
        with pytest.raises(NotWritten):
            await call(lambda: one.append(0, hosts(1, 1)))
        with pytest.raises(JournalFailed):
            await call(lambda: one.heartbeat(report("one"), LONG))
        database.is_down = False
        one.append(0, hosts(1, 1))

    play(story)


def test_a_standby_without_the_last_entries_is_noticed() -> None:
    """A node that has read them does not continue them."""

    async def story(database: SimulatedDatabase, one: SimulatedSharedJournal, other: SimulatedSharedJournal) -> None:
        one.append(0, hosts(1, 2))
        assert len(list(other.entries())) == 2
        database.fail_over(1)
        with pytest.raises(JournalDiverged):
            other.follow(2, 0.0)
        one.append(1, hosts(2, 2))
        with pytest.raises(JournalDiverged):
            other.follow(2, 0.0)

    play(story)


def test_an_append_without_the_lease_is_noticed() -> None:
    """The database keeps a record of its own of who may append."""

    async def story(database: SimulatedDatabase, one: SimulatedSharedJournal, _: SimulatedSharedJournal) -> list[str]:
        one.release_lease("one", database.term)
        with pytest.raises(LeaseLost):
            one.append(0, hosts(1, 1))
        database.leader, database.lease_until = report("one"), database.clock.seconds() + 1
        one.append(0, hosts(1, 1))
        return database.wrong

    assert play(story) == ["entries were appended by a node that did not hold the lease"]
