"""A writer takes commands while it leads, and what it did before is continued by whichever leads next."""

import asyncio
from uuid import uuid4

import pytest

from forewarn.core.commands import Approve, ChangeFleet
from forewarn.core.errors import Refused
from forewarn.core.fact import FORMAT
from forewarn.core.facts import Announced, FleetChanged
from forewarn.core.model import Caller, CallerKind, Host, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.shared import LeaseLost
from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome
from forewarn.node.driver_calls import DriverCalls
from forewarn.node.large_change import LargeChangeSizes
from forewarn.node.writer import NotLeading
from tests.node.harness import OPERATOR, NodeHarness, run


def add_host(name: str) -> ChangeFleet:
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(name),))


class LeasedJournal(MemoryJournal):
    """A journal of which the lease can be lost."""

    is_lost = False

    def append(self, expected_revision: int, entries: object) -> None:
        if self.is_lost:
            raise LeaseLost
        super().append(expected_revision, entries)  # type: ignore[arg-type]


def test_a_writer_that_does_not_lead_refuses() -> None:
    """It says what to do; after it leads again it continues at the journal's revision."""

    async def story(harness: NodeHarness) -> None:
        node = harness.node
        await node.submit(add_host("h1"))
        await node.resign()
        assert not node.writer.is_leading
        for refused in (node.submit(add_host("h2")), node.writer.confirm(), node.writer.recorded("x")):
            with pytest.raises(NotLeading, match="send it again"):
                await refused
        await node.lead(7)
        assert node.term == 7
        await node.submit(add_host("h2"))
        assert set(node.replica.fleet.hosts) == {"h1", "h2"}
        await node.resign()
        assert node.term == 0

    run(story)


def test_what_another_node_appended_is_taken_in_before_commands_are() -> None:
    """The first decision of a leader knows everything that is durable."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))
        await harness.node.resign()
        other = NodeHarness(journal)
        await other.node.start()
        await other.node.submit(add_host("h2"))
        await other.node.resign()
        await harness.node.lead(2)
        assert set(harness.node.replica.fleet.hosts) == {"h1", "h2"}
        await harness.node.submit(add_host("h3"))
        assert harness.node.replica.revision == 3

    run(story, journal)


def test_a_writer_that_resigns_finishes_what_was_submitted() -> None:
    """No caller is refused that came before."""

    async def story(harness: NodeHarness) -> None:
        asked = [harness.node.writer.begin(add_host(f"h{n}")) for n in range(10)]
        await harness.node.resign()
        assert all(len(facts) for facts in await asyncio.gather(*asked))

    run(story)


def test_a_writer_that_resigns_at_once_refuses_what_waits() -> None:
    """What is being appended is answered by what came of it; of the rest nothing was changed."""

    async def story(harness: NodeHarness) -> None:
        asked = [harness.node.writer.begin(add_host("h0"))]
        while not harness.node.writer.append_age:  # noqa: ASYNC110 - a thread is at work
            await asyncio.sleep(0)
        asked += [harness.node.writer.begin(add_host(f"h{n}")) for n in (1, 2)]
        await harness.node.resign(at_once=True)
        first, *others = await asyncio.gather(*asked, return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert [type(each) for each in others] == [NotLeading, NotLeading]
        assert set(harness.node.replica.fleet.hosts) == {"h0"}

    run(story)


def test_a_large_change_that_is_being_decided_is_refused_at_once() -> None:
    """The next leader need not wait for a decision that nobody can append."""

    async def story(harness: NodeHarness) -> None:
        harness.node.writer.large_change_sizes = LargeChangeSizes(decided_aside=1)
        asked = harness.node.writer.begin(
            ChangeFleet(id=uuid4().hex, by=OPERATOR, vms=tuple(Vm(f"v{n}", f"v{n}") for n in range(50)))
        )
        await asyncio.sleep(0)
        await harness.node.resign(at_once=True)
        with pytest.raises((NotLeading, Refused)):
            await asked
        await harness.node.lead(2)
        await harness.node.submit(add_host("h1"))

    run(story)


def test_a_lost_lease_stops_the_writer_before_it_reads_what_another_did() -> None:
    """Callers learn that nothing was changed; who cares for the lease is told once."""
    journal = LeasedJournal()

    async def story(harness: NodeHarness) -> None:
        result: list[str] = []
        harness.node.writer.on_lease_lost = lambda: result.append("lost")
        await harness.node.submit(add_host("h1"))
        journal.is_lost = True
        asked = [harness.node.writer.begin(add_host(f"h{n}")) for n in range(3)]
        for each in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(each, NotLeading)
            assert "othing was changed" in str(each)
        assert result == ["lost"]
        assert not harness.node.writer.is_leading
        journal.is_lost = False
        await harness.node.resign(at_once=True)
        await harness.node.lead(2)
        await harness.node.submit(add_host("h2"))

    run(story, journal)


def test_a_leader_that_may_be_replaced_answers_only_what_it_appends() -> None:
    """What it would refuse, the next leader may know; a refusal is final for a VM, and is in no entry."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        harness.node.writer.large_change_sizes = LargeChangeSizes(decided_aside=2)
        unknown = Approve(id=uuid4().hex, by=Caller(CallerKind.VM, "web-0"), events=("no-event",))
        large = ChangeFleet(id=uuid4().hex, by=OPERATOR, removed_hosts=("h8", "h9"))
        for may_answer, expected in ((True, Refused), (False, NotLeading)):
            harness.node.writer.may_answer = lambda may_answer=may_answer: may_answer
            for command in (unknown, large):
                with pytest.raises(expected):
                    await harness.node.submit(command)
        await harness.node.submit(add_host("h7"))
        assert "h7" in harness.node.replica.fleet.hosts

    run(story)


def test_nothing_is_written_that_a_node_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that would need it is refused, those beside it are not; when all are upgraded it is done."""
    monkeypatch.setattr(FleetChanged, "since_format", FORMAT + 1)

    async def story(harness: NodeHarness) -> None:
        harness.node.writer.newest_format = harness.node.writer.format = FORMAT + 1
        await harness.add_fleet()
        harness.node.writer.format = FORMAT
        harness.node.writer.large_change_sizes = LargeChangeSizes(decided_aside=2)
        large = ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host("h8"), Host("h9")))
        refused = [harness.node.writer.begin(command) for command in (add_host("h7"), large)]
        event = await harness.operate("restart", "web-0")
        assert event
        for each in await asyncio.gather(*refused, return_exceptions=True):
            assert isinstance(each, Refused)
            assert "upgrade all nodes" in str(each)
        assert any(isinstance(fact, Announced) for entry in harness.entries for fact in entry.facts)
        harness.node.writer.format = FORMAT + 1
        await harness.node.submit(add_host("h7"))
        assert "h7" in harness.node.replica.fleet.hosts

    run(story)


class CountingDriver:
    """Counts its calls."""

    moves_live = False

    def __init__(self, *, is_immediate: bool) -> None:
        self.is_immediate = is_immediate
        self.calls = 0

    def perform(self, impact: Impact) -> ImpactOutcome:
        self.calls += 1
        return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone()

    def close(self) -> None:
        """Nothing is to be closed."""


@pytest.mark.parametrize("is_immediate", [True, False])
def test_a_driver_is_called_only_while_the_node_may_act(*, is_immediate: bool) -> None:
    """The call waits, and is made when the lease was renewed."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet(enrolled=False)
        driver = CountingDriver(is_immediate=is_immediate)
        asked: list[int] = []

        def may_call(_: int) -> bool:
            asked.append(driver.calls)
            return len(asked) > 2

        calls = DriverCalls(driver, 1, may_call=may_call)
        await harness.operate("restart", "web-0")
        (event,) = harness.node.replica.fleet.events.values()
        impact = Impact(event, (harness.node.replica.fleet.vms["web-0"],), harness.clock.now())
        assert await calls.perform(impact) == ImpactDone()
        assert asked == [0, 0, 0]
        assert driver.calls == 1

    run(story)
