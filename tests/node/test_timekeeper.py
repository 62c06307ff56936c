"""Time: a clock that is wrong for a while deletes no history, starts no event, switches off no group, and is seen."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from forewarn.clocks import ManualClock
from forewarn.core.commands import Approve, ChangeFleet, Postponement, SetGroup
from forewarn.core.facts import Announced, ClockStepped, Entry, FleetChanged, Started, SwitchedOff
from forewarn.core.model import Caller, CallerKind, Host
from forewarn.journal.memory import MemoryJournal
from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.request_records import RequestRecorder, RequestRecords
from forewarn.node.deadlines import DeadlineScheduler
from forewarn.node.node import Node
from forewarn.node.timekeeper import CAUTION
from tests.node.failing_journals import FailingJournal
from tests.node.harness import MINUTE, OPERATOR, NodeHarness, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 60 * MINUTE
DAY = 24 * HOUR
TEN_YEARS = 3650 * DAY


class GrowingJournal(MemoryJournal):
    """A journal that always wants a snapshot, and notes whether it may delete anything."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot_due = True
        self.releases: list[bool] = []
        self.compactions = 0

    def take_snapshot(self, *, release: bool = True, now: datetime | None = None) -> None:
        self.releases.append(release)

    def compact(self, limit: int = 500) -> bool:
        self.compactions += 1
        return False

    def keep_history(self, history: timedelta) -> None:
        raise NotImplementedError


async def add_host(harness: NodeHarness) -> None:
    await harness.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(uuid4().hex),)))


def steps(harness: NodeHarness) -> list[tuple[datetime, datetime]]:
    return [(fact.expected, fact.at) for fact in harness.facts if isinstance(fact, ClockStepped)]


def has_started(harness: NodeHarness) -> bool:
    return any(isinstance(fact, Started) for fact in harness.facts)


async def settled(*parts: Node | DeadlineScheduler | RequestRecorder) -> None:
    while not all(part.is_idle for part in parts):  # noqa: ASYNC110 - they are idle within a few turns of the loop
        await asyncio.sleep(0)


def test_one_start_ten_years_ahead_is_got_over() -> None:
    """The next start, with the right clock, records the step; what follows is of the present."""
    journal = MemoryJournal()
    run(add_host, journal, ManualClock(NOW))
    run(add_host, journal, ManualClock(NOW + TEN_YEARS))

    async def after(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")

        assert steps(harness) == [(NOW + TEN_YEARS, NOW + HOUR)]
        assert {entry.at for entry in harness.entries} == {NOW + HOUR}
        (announced,) = (fact for fact in harness.facts if isinstance(fact, Announced))
        assert announced.event.not_before == NOW + HOUR + 15 * MINUTE
        assert "2035-12-30T00:00:00Z was expected" in harness.node.warnings["clock"]

    run(after, journal, ManualClock(NOW + HOUR))


@pytest.mark.parametrize("behind", [61, 3600])
def test_a_clock_far_behind_the_last_fact_is_recorded(behind: int) -> None:
    """At a start: with both times, before anything else happens, and once."""
    journal = MemoryJournal()
    run(add_host, journal, ManualClock(NOW))

    async def after(harness: NodeHarness) -> None:
        await add_host(harness)
        await add_host(harness)

        assert [type(fact) for fact in harness.facts] == [ClockStepped, FleetChanged, FleetChanged]
        assert steps(harness) == [(NOW, NOW - timedelta(seconds=behind))]
        assert [entry.revision for entry in harness.entries] == [2, 3, 4]

    run(after, journal, ManualClock(NOW - timedelta(seconds=behind)))


@pytest.mark.parametrize("jump", [TEN_YEARS, 2 * MINUTE, -2 * MINUTE, -TEN_YEARS])
def test_a_jump_while_it_runs_is_recorded(jump: timedelta) -> None:
    """Also where no fact is near: the time that has passed tells. The warning goes after a day."""

    async def story(harness: NodeHarness) -> None:
        await add_host(harness)
        harness.clock.advance(DAY)
        harness.clock.step(jump)
        await harness.node.check_clock()
        await harness.node.check_clock()

        assert steps(harness) == [(NOW + DAY, NOW + DAY + jump)]
        assert "clock" in harness.node.warnings
        harness.clock.advance(CAUTION)
        await harness.node.check_clock()
        assert "clock" not in harness.node.warnings

    run(story)


def test_small_corrections_and_suspension_are_no_steps() -> None:
    """A minute is nothing; time that passes while the machine is suspended has passed."""

    async def story(harness: NodeHarness) -> None:
        for second in (60, -60, 59):
            harness.clock.step(timedelta(seconds=second))
            await add_host(harness)
        harness.clock.advance(9 * DAY)
        await add_host(harness)

        assert steps(harness) == []

    run(story)


def test_two_steps_in_a_row_are_two_facts() -> None:
    """Ahead and back again: each is recorded with what was expected."""

    async def story(harness: NodeHarness) -> None:
        await add_host(harness)
        harness.clock.step(TEN_YEARS)
        await add_host(harness)
        harness.clock.step(-TEN_YEARS)
        await add_host(harness)

        assert steps(harness) == [(NOW, NOW + TEN_YEARS), (NOW + TEN_YEARS, NOW)]
        assert harness.node.replica.fleet.last_at == NOW

    run(story)


def test_a_step_that_could_not_be_recorded_is_recorded_later() -> None:
    """With the first entry that can be."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        await add_host(harness)
        harness.clock.step(TEN_YEARS)
        journal.fails = "before"
        with pytest.raises(Exception, match="nothing was changed"):
            await add_host(harness)
        journal.fails = ""
        await add_host(harness)

        assert steps(harness) == [(NOW, NOW + TEN_YEARS)]

    run(story, journal)


def test_an_event_announced_here_starts_only_when_its_notice_has_really_passed() -> None:
    """Ten years ahead on the wall, fourteen minutes really; then it starts, though nobody asks."""

    async def story(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        await harness.add_fleet()
        await harness.operate("restart", "web-0")
        harness.clock.step(TEN_YEARS)
        await settled(deadlines, harness.node)
        harness.clock.advance(14.9 * MINUTE)
        await add_host(harness)
        await settled(deadlines, harness.node)
        assert not has_started(harness)

        harness.clock.advance(0.2 * MINUTE)
        await settled(deadlines, harness.node)
        assert has_started(harness)

    run(story)


def test_a_start_that_could_not_be_recorded_is_tried_again_at_once() -> None:
    """Its notice began when it was announced, also where the clock had been set ahead before."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        await harness.add_fleet()
        harness.clock.step(HOUR)
        await harness.operate("restart", "web-0")
        journal.fails = "before"
        harness.clock.advance(15.1 * MINUTE)
        await settled(deadlines, harness.node)
        assert not has_started(harness)

        journal.fails = ""
        harness.clock.advance(MINUTE)
        await settled(deadlines, harness.node)
        assert has_started(harness)

    run(story, journal)


def test_the_notice_of_an_event_that_was_recorded_late_counts_from_then() -> None:
    """Before, no VM could see it."""
    clock = ManualClock(NOW)

    class SlowJournal(MemoryJournal):
        lasts = timedelta()

        def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
            super().append(expected_revision, entries)
            clock.advance(self.lasts)

    journal = SlowJournal()

    async def story(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        await harness.add_fleet()
        journal.lasts = timedelta(seconds=5)
        await harness.operate("restart", "web-0")
        journal.lasts = timedelta()
        clock.advance(15 * MINUTE - timedelta(seconds=1))
        await settled(deadlines, harness.node)
        assert not has_started(harness)

        clock.advance(timedelta(seconds=2))
        await settled(deadlines, harness.node)
        assert has_started(harness)

    run(story, journal, clock)


def test_an_event_from_before_the_start_is_held_as_well() -> None:
    """Its notice has an hour to go when the service starts, so that no jump of the clock may start it sooner."""
    journal = MemoryJournal()

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")

    async def after(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        deadlines.load(harness.node.replica.fleet)
        harness.clock.step(TEN_YEARS)
        await settled(deadlines, harness.node)
        assert not has_started(harness)
        harness.clock.advance(11 * MINUTE)
        await settled(deadlines, harness.node)
        assert has_started(harness)

    run(before, journal)
    run(after, journal, ManualClock(NOW + 5 * MINUTE))


def test_a_start_long_after_the_last_fact_gives_notice_anew() -> None:
    """Perhaps the clock is wrong: nothing starts, and the step is on record for the next start too."""
    journal = MemoryJournal()

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")

    async def after(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        deadlines.load(harness.node.replica.fleet)
        harness.clock.advance(14 * MINUTE)
        await settled(deadlines, harness.node)

        assert not has_started(harness)
        assert harness.node.writer.timekeeper.is_cautious

    run(before, journal)
    run(after, journal, ManualClock(NOW + TEN_YEARS))
    (step,) = (fact for entry in journal.entries() for fact in entry.facts if isinstance(fact, ClockStepped))
    assert (step.expected, step.at) == (NOW, NOW + TEN_YEARS)


@pytest.mark.parametrize(
    ("ahead", "may_release"), [(timedelta(), True), (29 * DAY, True), (31 * DAY, False), (TEN_YEARS, False)]
)
def test_a_start_long_after_the_last_fact_compacts_nothing(ahead: timedelta, *, may_release: bool) -> None:
    """Snapshots are taken all the same; a restart soon after is no way around it."""
    journal = GrowingJournal()
    run(add_host, journal)

    async def after(harness: NodeHarness) -> None:
        await harness.node.take_snapshot_if_due()

        assert journal.releases.pop() is may_release
        assert bool(journal.compactions) is may_release

    run(after, journal, ManualClock(NOW + ahead))
    run(after, journal, ManualClock(NOW + ahead - MINUTE / 2))
    run(after, journal, ManualClock(NOW + ahead + HOUR))


def test_nothing_is_compacted_for_a_day_after_a_step() -> None:
    """Of time that really passes, whatever the clock shows."""
    journal = GrowingJournal()

    async def story(harness: NodeHarness) -> None:
        await add_host(harness)
        harness.clock.step(400 * DAY)
        await harness.node.take_snapshot_if_due()
        harness.clock.advance(23 * HOUR)
        await harness.node.take_snapshot_if_due()
        assert (journal.releases, journal.compactions) == ([False, False], 0)
        harness.clock.advance(HOUR)
        await harness.node.take_snapshot_if_due()
        assert (journal.releases[-1], journal.compactions) == (True, 1)

    run(story, journal)


def test_no_group_is_switched_off_within_a_day_after_a_step() -> None:
    """It asked 23 hours before the step; only after 24 hours more without a question it is off."""

    async def story(harness: NodeHarness) -> None:
        document_cache = DocumentCache(harness.clock.seconds)
        records = RequestRecords(document_cache, harness.node.writer.rules, harness.clock.seconds, harness.clock.now)
        recorder = RequestRecorder(harness.node, records)
        harness.node.replica.subscribe(document_cache)
        await harness.add_fleet()
        recorder.start()

        async def pass_by(hours: int) -> bool:
            for _ in range(hours):
                harness.clock.advance(HOUR)
                await settled(recorder, harness.node)
            return any(isinstance(fact, SwitchedOff) for fact in harness.facts)

        assert not await pass_by(23)
        harness.clock.step(TEN_YEARS)
        assert not await pass_by(24)
        assert await pass_by(2)
        await recorder.stop()

    run(story)


@pytest.mark.parametrize("is_running", [True, False])
def test_starts_with_a_clock_that_stays_wrong_start_no_event(*, is_running: bool) -> None:
    """The step is on record, whether it was seen by a running service or at a start; each start goes by it."""
    journal = MemoryJournal()

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")
        if is_running:
            harness.clock.step(TEN_YEARS)
            await harness.node.check_clock()

    async def wait(harness: NodeHarness) -> bool:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        deadlines.load(harness.node.replica.fleet)
        harness.clock.advance(0 * MINUTE)
        await settled(deadlines, harness.node)
        return has_started(harness)

    run(before, journal, ManualClock(NOW))
    for minutes in (1, 2, 14):
        assert not run(wait, journal, ManualClock(NOW + TEN_YEARS + minutes * MINUTE))
    assert run(wait, journal, ManualClock(NOW + TEN_YEARS + 17 * MINUTE))


def test_what_is_postponed_after_a_step_counts_from_the_present_clock() -> None:
    """Else it would wait for as long as the clock jumped."""

    async def story(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        await harness.add_fleet()
        await harness.node.submit(SetGroup(id=uuid4().hex, by=OPERATOR, group="web", postpone_limit=3600))
        event = await harness.operate("restart", "web-0")
        harness.clock.step(TEN_YEARS)
        await settled(deadlines, harness.node)
        vm = Caller(CallerKind.VM, "web-0")
        await harness.node.submit(Approve(id=uuid4().hex, by=vm, postponements=(Postponement(event, 1200),)))
        harness.clock.advance(19 * MINUTE)
        await settled(deadlines, harness.node)
        assert not has_started(harness)
        harness.clock.advance(MINUTE)
        await settled(deadlines, harness.node)
        assert has_started(harness)

    run(story)


def test_a_start_with_the_right_clock_after_one_that_was_ahead_is_held_too() -> None:
    """The clock is set ahead once more: the event's notice has not passed by that."""
    journal = MemoryJournal()

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")
        harness.clock.step(TEN_YEARS)
        await harness.node.check_clock()
        await add_host(harness)

    async def after(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        deadlines.load(harness.node.replica.fleet)
        harness.clock.step(TEN_YEARS)
        await settled(deadlines, harness.node)
        assert not has_started(harness)
        harness.clock.advance(14 * MINUTE)
        await settled(deadlines, harness.node)
        assert has_started(harness)

    run(before, journal, ManualClock(NOW))
    run(after, journal, ManualClock(NOW + 2 * MINUTE))
