"""The node: one way in, nothing told before it is durable, and recovery after a failed append."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest

from forewarn.core.commands import CancelEvent, ChangeFleet
from forewarn.core.errors import Refused, Unavailable
from forewarn.core.facts import Announced, Entry, FleetChanged
from forewarn.core.model import Host
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed, Recovered
from tests.node.rig import MINUTE, OPERATOR, Rig, run


class FailingJournal(MemoryJournal):
    """Fails on demand: before the entries are kept, or after."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: str = ""
        self.batches: list[int] = []

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        self.batches.append(len(entries))
        if self.fails == "before":
            raise JournalFailed("the disk is full")
        super().append(expected_revision, entries)
        if self.fails == "after":
            raise JournalFailed("the disk went away")

    def load(self) -> Recovered:
        if self.fails == "load":
            raise JournalFailed("the disk is gone")
        return super().load()


def add_host(name: str) -> ChangeFleet:
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(name),))


def test_what_was_answered_can_be_read_in_the_journal() -> None:
    """A reply comes after the append, and the listeners heard of it before."""
    journal = MemoryJournal()

    async def story(rig: Rig) -> None:
        facts = await rig.node.submit(add_host("h1"))

        assert facts == (FleetChanged(hosts=(Host("h1"),)),)
        assert [entry.facts for entry in journal.entries()] == [facts]
        assert rig.facts == list(facts)

    run(story, journal)


def test_commands_that_wait_together_are_committed_together() -> None:
    """Whatever arrives during one append shares the next."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        await asyncio.gather(*(rig.node.submit(add_host(f"h{number}")) for number in range(20)))

        assert sum(journal.batches) == 20
        assert len(journal.batches) < 20
        assert set(rig.node.fleet.hosts) == {f"h{number}" for number in range(20)}

    run(story, journal)


def test_callers_that_ask_again_at_once_share_the_next_commit_with_those_who_waited() -> None:
    """However they came to be apart, they are committed together from then on."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        async def ask(caller: str) -> None:
            for number in range(5):
                await rig.node.submit(add_host(f"{caller}-{number}"))

        first = asyncio.create_task(ask("early"))
        while not rig.node.fleet.hosts:  # noqa: ASYNC110 - nobody tells that it is on its way to the journal
            await asyncio.sleep(0)
        await asyncio.gather(first, ask("late"))

        assert journal.batches == [1, 2, 2, 2, 2, 1]

    run(story, journal)


def test_a_refused_command_leaves_no_entry() -> None:
    """A refusal changes nothing and is not recorded."""

    async def story(rig: Rig) -> None:
        with pytest.raises(Refused):
            await rig.node.submit(CancelEvent(id=uuid4().hex, by=OPERATOR, event=str(uuid4())))

        assert rig.entries == []

    run(story)


@pytest.mark.parametrize(("fails", "kept"), [("before", {"h1", "h3"}), ("after", {"h1", "h2", "h3"})])
def test_a_failed_append_poisons_the_writer_until_the_journal_was_read_anew(fails: str, kept: set[str]) -> None:
    """The caller gets one clear error, listeners hear nothing, and the truth is what the journal holds."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        await rig.node.submit(add_host("h1"))
        journal.fails = fails
        with pytest.raises(Unavailable, match="nothing was changed: the disk"):
            await rig.node.submit(add_host("h2"))
        assert len(rig.entries) == 1
        journal.fails = ""

        await rig.node.submit(add_host("h3"))

        assert rig.loads == 2
        assert set(rig.node.fleet.hosts) == kept

    run(story, journal)


def test_while_the_journal_cannot_be_read_every_command_is_told_so() -> None:
    """A poisoned writer that cannot reload answers at once instead of hanging."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        journal.fails = "before"
        with pytest.raises(Unavailable):
            await rig.node.submit(add_host("h1"))
        journal.fails = "load"

        with pytest.raises(Unavailable, match="nothing can be changed: the disk is gone"):
            await rig.node.submit(add_host("h2"))

    run(story, journal)


def test_a_repeated_command_happens_once() -> None:
    """The id is the idempotency key: at the same time, later, and after a restart of the node."""
    journal = MemoryJournal()
    command = add_host("h1")

    async def story(rig: Rig) -> tuple[object, ...]:
        first, second = await asyncio.gather(rig.node.submit_once(command), rig.node.submit_once(command))
        third = await rig.node.submit_once(command)
        assert first == second == third
        return first

    assert run(story, journal) == run(story, journal)
    assert len(list(journal.entries())) == 1


def test_the_time_of_facts_never_falls() -> None:
    """A clock that was set back does not make a fact older than the one before."""

    async def story(rig: Rig) -> None:
        await rig.node.submit(add_host("h1"))
        rig.clock._now -= timedelta(hours=1)
        await rig.node.submit(add_host("h2"))

        assert rig.entries[1].at == rig.entries[0].at

    run(story)


def test_a_restarted_node_continues_where_the_journal_ends() -> None:
    """Revisions go on without a gap, and the fleet is the fold of what was there."""
    journal = MemoryJournal()

    async def begin(rig: Rig) -> None:
        await rig.add_fleet()
        await rig.operate("restart", "web-0")

    async def go_on(rig: Rig) -> None:
        assert len(rig.node.fleet.events) == 1
        rig.clock.advance(MINUTE)
        await rig.operate("redeploy", "web-1")

    run(begin, journal)
    run(go_on, journal)

    assert [entry.revision for entry in journal.entries()] == [1, 2, 3, 4]


def test_history_finds_an_event_by_its_id() -> None:
    """What the journal knows of a subject can be asked for while the node runs."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        event = await rig.operate("restart", "web-0")

        (entry,) = await rig.node.history(f"event:{event}")

        assert isinstance(entry.facts[0], Announced)

    run(story)


def test_a_stopped_node_takes_nothing_more_in() -> None:
    """Whoever comes too late is told so."""

    async def story(rig: Rig) -> None:
        await rig.node.stop()
        with pytest.raises(Unavailable, match="stopping"):
            await rig.node.submit(add_host("h1"))

    run(story)
