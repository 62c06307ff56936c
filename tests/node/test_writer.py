"""The writer: nothing is told before it is durable, every caller is answered, and it recovers from failed appends."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forewarn.core import decide
from forewarn.core.commands import Approve, CancelEvent, ChangeFleet, Command, Enrol, OperateVm, VmOperation
from forewarn.core.draft import DraftFleet
from forewarn.core.errors import ForewarnError, OutcomeUnknown, Refused, Unavailable, Unknown
from forewarn.core.facts import Announced, AnyFact, Entry, FleetChanged, RecordedRequest
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind, Host, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed
from forewarn.node import writer as writer_module
from tests.core.invariant_checker import derived, packed
from tests.node.failing_journals import FailingJournal, FoldingJournal, ForgetfulJournal
from tests.node.harness import MINUTE, OPERATOR, NodeHarness, add_host, run


def test_what_was_answered_can_be_read_in_the_journal() -> None:
    """A reply comes after the append, and the listeners heard of it before."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        facts = await harness.node.submit(add_host("h1"))

        assert facts == (FleetChanged(hosts=(Host("h1"),), at_run_time=True),)
        assert [entry.facts for entry in journal.entries()] == [facts]
        assert harness.facts == list(facts)

    run(story, journal)


class Publisher:
    """Another process that shows the fleet, as far as the test lets it."""

    def __init__(self) -> None:
        self.published: list[tuple[int, int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def publish(self, revision: int, entries: Sequence[Entry] = ()) -> None:
        self.published.append((revision, len(entries)))
        await self.gate.wait()


def test_other_processes_hold_a_commit_before_it_is_shown_or_answered() -> None:
    """It is durable already; the next commit comes after it."""

    async def story(harness: NodeHarness) -> None:
        harness.node.writer.publisher = publisher = Publisher()
        publisher.gate.clear()
        adding = asyncio.create_task(harness.node.submit(add_host("h1")))
        while not publisher.published:  # noqa: ASYNC110 - the journal's thread is at work
            await asyncio.sleep(0)
        assert (harness.node.replica.revision, adding.done()) == (0, False)
        publisher.gate.set()
        await adding
        await harness.node.submit(add_host("h2"))
        assert publisher.published == [(1, 1), (2, 1)]
        assert harness.node.replica.revision == 2

    run(story)


@pytest.mark.parametrize(("journal_type", "expected"), [(FailingJournal, (1, 1)), (FoldingJournal, (1, 0))])
def test_other_processes_hold_what_turns_out_to_be_written(
    journal_type: type[FailingJournal], expected: tuple[int, int]
) -> None:
    """From the entries that were missing, or from the journal that was loaded again."""
    journal = journal_type()

    async def story(harness: NodeHarness) -> None:
        harness.node.writer.publisher = publisher = Publisher()
        journal.fails = "after"
        await harness.node.submit(add_host("h1"))
        assert publisher.published == [expected]

    run(story, journal)


def test_commands_that_wait_together_are_committed_together() -> None:
    """Whatever arrives during one append shares the next."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        await asyncio.gather(*(harness.node.submit(add_host(f"h{number}")) for number in range(20)))

        assert sum(journal.batches) == 20
        assert len(journal.batches) < 20
        assert set(harness.node.replica.fleet.hosts) == {f"h{number}" for number in range(20)}

    run(story, journal)


def test_callers_that_ask_again_at_once_share_the_next_commit_with_those_who_waited() -> None:
    """However they came to be apart, they are committed together from then on."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        async def ask(caller: str) -> None:
            for number in range(5):
                await harness.node.submit(add_host(f"{caller}-{number}"))

        first = asyncio.create_task(ask("early"))
        while not journal.batches:  # noqa: ASYNC110 - nobody tells that it is on its way to the journal
            await asyncio.sleep(0)
        await asyncio.gather(first, ask("late"))

        assert journal.batches == [1, 2, 2, 2, 2, 1]

    run(story, journal)


def test_a_refused_command_leaves_no_entry() -> None:
    """A refusal changes nothing and is not recorded."""

    async def story(harness: NodeHarness) -> None:
        with pytest.raises(Refused):
            await harness.node.submit(CancelEvent(id=uuid4().hex, by=OPERATOR, event=str(uuid4())))

        assert harness.entries == []

    run(story)


@pytest.mark.parametrize("journal_type", [FailingJournal, FoldingJournal])
@pytest.mark.parametrize("fails", ["before", "unsure"])
def test_what_is_known_not_to_be_written_is_answered_so(fails: str, journal_type: type[FailingJournal]) -> None:
    """The journal says that nothing was written, or it is found out at once; listeners hear nothing of it."""
    journal = journal_type()

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))
        journal.fails = fails
        with pytest.raises(Unavailable, match="nothing was changed: the disk") as failed:
            await harness.node.submit(add_host("h2"))
        assert not isinstance(failed.value, OutcomeUnknown)
        assert len(harness.entries) == 1
        journal.fails = ""

        await harness.node.submit(add_host("h3"))

        assert [entry.revision for entry in harness.entries] == [1, 2]
        assert set(harness.node.replica.fleet.hosts) == {"h1", "h3"}

    run(story, journal)


@pytest.mark.parametrize("journal_type", [FailingJournal, FoldingJournal])
@pytest.mark.parametrize("fails", ["after", "oddly"])
def test_what_turns_out_to_be_written_is_answered_as_done(fails: str, journal_type: type[FailingJournal]) -> None:
    """An append that failed and is durable all the same is a success for its caller, whatever the journal raised."""
    journal = journal_type()

    async def story(harness: NodeHarness) -> None:
        journal.fails = fails

        assert await harness.node.submit(add_host("h1")) == (FleetChanged(hosts=(Host("h1"),), at_run_time=True),)

        assert harness.node.replica.revision == 1
        assert set(harness.node.replica.fleet.hosts) == {"h1"}

    run(story, journal)


def test_what_cannot_be_found_out_is_answered_as_unknown() -> None:
    """A caller whose command may have been recorded is told to ask again with the same key; the next one is not."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        journal.fails = "gone"
        with pytest.raises(OutcomeUnknown, match=r"not known .* the disk is tired; ask again with the same key"):
            await harness.node.submit(add_host("h1"))
        assert not harness.node.writer.is_sound

        with pytest.raises(Unavailable, match="nothing was changed: the disk is gone") as refused:
            await harness.node.submit(add_host("h2"))
        assert not isinstance(refused.value, OutcomeUnknown)

    run(story, journal)


def test_while_the_journal_fails_it_is_tried_less_and_less_often() -> None:
    """Nobody reads the whole journal each second because its disk is full; afterwards all is as before."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        journal.fails = "before"
        for _ in range(600):
            with pytest.raises(Unavailable, match="nothing was changed: the disk is full"):
                await harness.node.submit(add_host("h1"))
            harness.clock.advance(timedelta(seconds=1))
        assert len(journal.batches) < 30
        assert journal.opened == len(journal.batches) + 1
        journal.fails = ""
        harness.clock.advance(harness.node.writer.retry_after)

        await harness.node.submit(add_host("h1"))

        assert harness.node.writer.is_sound
        assert harness.node.writer.retry_after == timedelta(seconds=1)

    run(story, journal)


def test_a_mistake_in_a_rule_is_answered_and_harms_no_other_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that a rule fails on changes nothing; those decided with it are decided again."""

    def enact(fleet: Fleet, command: Command, *rest: Any) -> tuple[AnyFact, ...]:
        facts = decide.enact(fleet, command, *rest)
        if "h2" in fleet.hosts:
            raise ZeroDivisionError
        return facts

    monkeypatch.setattr(writer_module, "enact", enact)

    async def story(harness: NodeHarness) -> None:
        said = await asyncio.gather(
            *(harness.node.submit(add_host(name)) for name in ("h1", "h2", "h3")), return_exceptions=True
        )

        assert isinstance(said[1], ForewarnError)
        assert "nothing was changed: the service made a mistake" in str(said[1])
        assert set(harness.node.replica.fleet.hosts) == {"h1", "h3"}
        assert [entry.revision for entry in harness.entries] == [1, 2]

    run(story)


def test_a_command_that_was_refused_before_a_mistake_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is decided again with the others, and nobody waits for ever."""

    def enact(fleet: Fleet, command: Command, *rest: Any) -> tuple[AnyFact, ...]:
        facts = decide.enact(fleet, command, *rest)
        if "h2" in fleet.hosts:
            raise ZeroDivisionError
        return facts

    monkeypatch.setattr(writer_module, "enact", enact)

    async def story(harness: NodeHarness) -> None:
        refused = CancelEvent(id=uuid4().hex, by=OPERATOR, event=str(uuid4()))
        said = await asyncio.gather(
            harness.node.submit(refused), harness.node.submit(add_host("h2")), return_exceptions=True
        )

        assert [type(each) for each in said] == [Unknown, ForewarnError]

    run(story)


def test_a_request_is_recorded_even_if_it_changed_nothing() -> None:
    """What a request asked for stands in the journal; what nobody asked for does not."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))
        await harness.node.submit(add_host("h1"))
        asked = replace(add_host("h1"), request=RecordedRequest("f"))

        assert await harness.node.submit(asked) == ()
        assert [(entry.facts, entry.request) for entry in harness.entries[1:]] == [((), RecordedRequest("f"))]
        assert harness.node.replica.revision == 2

    run(story, journal)
    assert [entry.request for entry in journal.entries()] == [None, RecordedRequest("f")]


def test_a_clock_that_is_a_little_behind_counts_as_the_time_of_the_last_fact() -> None:
    """A minute is corrected by every time service now and then; the time of facts does not fall by that."""

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))
        harness.clock.step(timedelta(seconds=-60))
        await harness.node.submit(add_host("h2"))

        assert harness.entries[1].at == harness.entries[0].at
        assert len(harness.entries) == 2

    run(story)


def test_a_restarted_node_continues_where_the_journal_ends() -> None:
    """Revisions go on without a gap, and the fleet is the fold of what was there."""
    journal = MemoryJournal()

    async def begin(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")

    async def go_on(harness: NodeHarness) -> None:
        assert len(harness.node.replica.fleet.events) == 1
        harness.clock.advance(MINUTE)
        await harness.operate("redeploy", "web-1")

    run(begin, journal)
    run(go_on, journal)

    assert [entry.revision for entry in journal.entries()] == [1, 2, 3, 4]


def test_history_finds_an_event_by_its_id() -> None:
    """What the journal knows of a subject can be asked for while the node runs."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")

        (entry,) = await harness.node.replica.history(f"event:{event}")

        assert isinstance(entry.facts[0], Announced)

    run(story)


def test_a_stopped_node_takes_nothing_more_in() -> None:
    """Whoever comes too late is told so."""

    async def story(harness: NodeHarness) -> None:
        await harness.node.stop()
        with pytest.raises(Unavailable, match="stopping"):
            await harness.node.submit(add_host("h1"))

    run(story)


def test_how_long_an_append_takes_is_known_while_it_does() -> None:
    """A watchdog tells a disk that hangs by it; between appends it is nothing."""

    class Hanging(MemoryJournal):
        def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
            began.set()
            assert go_on.wait(20)
            super().append(expected_revision, entries)

    began, go_on = threading.Event(), threading.Event()

    async def story(harness: NodeHarness) -> None:
        adding = asyncio.create_task(harness.node.submit(add_host("h1")))
        assert await asyncio.to_thread(began.wait, 20)
        assert harness.node.writer.append_age > 0
        go_on.set()
        await adding
        assert harness.node.writer.append_age == 0

    run(story, Hanging())


def test_a_commit_that_the_replica_cannot_take_in_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller is answered, and the fleet is what the journal holds before the next command is decided."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(DraftFleet, "merge", lambda _: 1 / 0)
            assert await harness.node.submit(add_host("h1"))
        await harness.node.submit(add_host("h2"))

        assert list(harness.node.replica.fleet.hosts) == ["h1", "h2"]
        assert journal.opened == 2

    run(story, journal)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyboardInterrupt(), KeyError()])
def test_whatever_a_journal_raises_is_answered(error: BaseException) -> None:
    """Neither the process ends nor does a caller wait for ever, also where entries and history are wrong."""

    class Raising(FailingJournal):
        def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
            if self.fails:
                raise error
            super().append(expected_revision, entries)

        def entries(self, after: int = 0, limit: int | None = None) -> Any:
            if self.fails:
                raise error
            return super().entries(after, limit)

        def history(self, *given: Any, **more: Any) -> Any:
            return None

    journal = Raising()

    async def story(harness: NodeHarness) -> None:
        journal.fails = "always"
        with pytest.raises(OutcomeUnknown):
            await harness.node.submit(add_host("h1"))
        with pytest.raises(JournalFailed, match="not a list of entries"):
            await harness.node.replica.history("host:h1")
        journal.fails = ""
        harness.clock.advance(MINUTE)
        await harness.node.submit(add_host("h2"))

    run(story, journal)


FAILURES = ["", "", "before", "after", "unsure", "oddly", "gone"]
BATCHES = st.lists(
    st.tuples(st.sampled_from(FAILURES), st.lists(st.integers(0, 9), min_size=1, max_size=6)), min_size=1, max_size=8
)


def made_by(number: int, events: list[str]) -> Command:
    """Return one of the commands of the story: some are refused, some change what the ones before them made."""
    by = Caller(CallerKind.VM, f"web-{number % 3}")
    match number:
        case 0 | 1 | 2:
            return OperateVm(id=uuid4().hex, by=OPERATOR, operation=VmOperation.RESTART, vm=f"web-{number}")
        case 3 | 4 if events:
            return Approve(id=uuid4().hex, by=by, events=(events[-1],))
        case 5 if events:
            return CancelEvent(id=uuid4().hex, by=OPERATOR, event=events[0])
        case 6:
            return ChangeFleet(id=uuid4().hex, by=OPERATOR, vms=(Vm("web-3", "web", host="h2"),))
        case 7:
            return ChangeFleet(id=uuid4().hex, by=OPERATOR, removed_vms=("web-3",))
        case 8:
            return Enrol(id=uuid4().hex, by=by, group="web", vm=by.name)
        case _:
            return add_host(f"h{number}")


@pytest.mark.end_to_end
@given(batches=BATCHES)
def test_the_replica_is_the_fold_of_the_journal_whatever_appends_fail(batches: list[tuple[str, list[int]]]) -> None:
    """At every moment: nothing that is not durable shows in it, and nothing durable that was confirmed is missing."""
    journal = FailingJournal()

    def check(harness: NodeHarness) -> None:
        replica = harness.node.replica
        folded = Fleet()
        for entry in journal.entries(limit=replica.revision):
            folded.enter(entry)
        assert packed(replica.fleet) == packed(folded)
        assert derived(replica.fleet) == derived(folded)
        assert [entry.revision for entry in harness.entries] == list(range(1, replica.revision + 1))

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        for fails, numbers in batches:
            journal.fails = fails
            events = list(harness.node.replica.fleet.events)
            submitted = [asyncio.create_task(harness.node.submit(made_by(each, events))) for each in numbers]
            for turn in count():
                if all(task.done() for task in submitted):
                    break
                if turn % 16 == 0:  # most turns only wait for the thread of the journal
                    check(harness)
                await asyncio.sleep(0)
            await asyncio.gather(*submitted, return_exceptions=True)
            journal.fails = ""
            harness.clock.advance(MINUTE)
            await harness.node.writer.confirm()
            check(harness)
            assert harness.node.replica.revision == len(list(journal.entries()))

    run(story, journal)


def test_after_an_append_of_unknown_outcome_the_next_command_follows_what_was_written() -> None:
    """The journal is asked first, so that the command is not lost to an outdated revision."""
    journal = ForgetfulJournal()

    async def story(harness: NodeHarness) -> None:
        journal.forgets = FleetChanged
        with pytest.raises(OutcomeUnknown):
            await harness.node.submit(add_host("h1"))
        journal.forgets, journal.is_gone = None, False
        harness.clock.advance(harness.node.writer.retry_after)

        await harness.node.submit(add_host("h2"))

        assert set(harness.node.replica.fleet.hosts) == {"h1", "h2"}

    run(story, journal)


def test_a_refusal_is_not_given_where_what_it_rests_on_was_lost() -> None:
    """The event that the first caller canceled is there again."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        journal.fails = "before"
        cancels = [CancelEvent(id=uuid4().hex, by=OPERATOR, event=event) for _ in range(2)]
        answers = await asyncio.gather(*map(harness.node.submit, cancels), return_exceptions=True)

        assert [type(answer) for answer in answers] == [Unavailable, Unavailable]
        assert event in harness.node.replica.fleet.events

    run(story, journal)
