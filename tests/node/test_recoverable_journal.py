"""The journal of a writer: after a failure it is opened anew, and what it returns is checked."""

import asyncio

import pytest

from forewarn.core.errors import OutcomeUnknown, Unavailable
from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed, Recovered
from tests.node.failing_journals import FailingJournal, FoldingJournal
from tests.node.harness import MINUTE, OPERATOR, NodeHarness, add_host, run

WRONG_LOADS: list[object] = [None, "fleet", Recovered(None, 1), Recovered(Fleet(), "1"), Recovered(Fleet(), -1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("number", range(len(WRONG_LOADS)))
def test_a_wrong_load_is_a_failure_of_the_journal(number: int) -> None:
    """A start says so, and a running node answers and goes on when the journal is right again."""

    class Wrong(FoldingJournal):
        def load(self) -> Recovered:
            return WRONG_LOADS[number] if self.fails else super().load()  # type: ignore[return-value]

    journal = Wrong()

    async def story(harness: NodeHarness) -> None:
        journal.fails = "unsure"
        with pytest.raises(OutcomeUnknown):
            await harness.node.submit(add_host("h1"))
        with pytest.raises(Unavailable):
            await harness.node.submit(add_host("h1"))
        journal.fails = ""
        harness.clock.advance(MINUTE)
        await harness.node.submit(add_host("h2"))
        assert set(harness.node.replica.fleet.hosts) == {"h2"}

    run(story, journal)
    journal.fails = "unsure"
    with pytest.raises(JournalFailed, match="mend the journal"):
        run(story, journal)


def test_after_a_failed_append_the_journal_is_not_folded_again() -> None:
    """Its revision is confirmed, and what the replica lacks is read; listeners are not loaded anew."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        fleet = harness.node.replica.fleet
        for fails in ("before", "unsure", "after", ""):
            journal.fails = fails
            await asyncio.gather(harness.node.submit(add_host(fails or "last")), return_exceptions=True)
            harness.clock.advance(MINUTE)

        assert harness.node.replica.fleet is fleet
        assert harness.loads == 1
        assert [entry.revision for entry in harness.entries] == [1, 2]
        assert list(fleet.hosts) == ["after", "last"]

    run(story, journal)


def test_a_stale_writer_takes_in_what_another_one_appended() -> None:
    """The command that it lost by that changed nothing; the next one follows what is recorded now."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        other = FleetChanged(hosts=(Host("other"),), at_run_time=True)
        journal.append(0, [Entry(1, harness.clock.now(), "theirs", OPERATOR, (other,))])
        with pytest.raises(Unavailable, match="nothing was changed"):
            await harness.node.submit(add_host("h1"))
        assert list(harness.node.replica.fleet.hosts) == ["other"]

        await harness.node.submit(add_host("h1"))

        assert [entry.revision for entry in harness.entries] == [1, 2]

    run(story, journal)


def test_a_wrong_revision_is_a_failure_of_the_journal() -> None:
    """It is third-party code: what reopen returns is checked."""

    class Wrong(FailingJournal):
        def reopen(self) -> int:
            return None if self.fails else super().reopen()  # type: ignore[return-value]

    journal = Wrong()

    async def story(harness: NodeHarness) -> None:
        journal.fails = "unsure"
        with pytest.raises(OutcomeUnknown):
            await harness.node.submit(add_host("h1"))
        assert "reopen returned no revision" in harness.node.writer.failure

    run(story, journal)
