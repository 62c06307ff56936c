"""The waker: events start when their time has come, with one timer for all of them."""

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

from forewarn.clocks import ManualClock
from forewarn.core.commands import (
    Approve,
    CancelEvent,
    HostOperation,
    OperateHost,
    OperateVm,
    Postponement,
    SetGroup,
    VmOperation,
)
from forewarn.core.facts import Started
from forewarn.core.model import Caller, CallerKind
from forewarn.journal.memory import MemoryJournal
from forewarn.node.deadlines import DeadlineScheduler
from tests.node.failing_journals import FailingJournal
from tests.node.harness import MINUTE, OPERATOR, NodeHarness, run


def test_an_event_starts_when_not_before_has_passed() -> None:
    """Nobody approved: the event starts at NotBefore, and not a moment earlier."""

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(DeadlineScheduler(harness.node))
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        started = harness.next(Started)
        harness.clock.advance(14.9 * MINUTE)
        await harness.operate("restart", "web-1")
        assert not started.done()
        harness.clock.advance(0.1 * MINUTE)

        assert (await started).event == event
        assert (await started).because == "NotBefore has passed"

    run(story)


def test_what_fell_due_while_the_service_was_down_starts_at_once() -> None:
    """Deadlines are derived from the fleet, so none is lost with the process."""
    journal = MemoryJournal()

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.operate("restart", "web-0")

    async def after(harness: NodeHarness) -> None:
        harness.clock.advance(60 * MINUTE)
        started = harness.next(Started)
        DeadlineScheduler(harness.node).load(harness.node.replica.fleet)
        harness.clock.advance(0 * MINUTE)
        await started

    run(before, journal)
    run(after, journal)


def test_an_event_that_was_canceled_wakes_nobody() -> None:
    """A deadline whose event is gone is dropped without a command."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(DeadlineScheduler(harness.node))
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        await harness.node.submit(CancelEvent(id=uuid4().hex, by=OPERATOR, event=event))
        appends = len(journal.batches)
        later = await harness.operate("restart", "web-1")
        started = harness.next(Started)
        harness.clock.advance(15 * MINUTE)

        assert (await started).event == later
        assert len(journal.batches) == appends + 2

    run(story, journal)


def test_a_wake_that_could_not_be_recorded_is_repeated() -> None:
    """While the journal fails, events that are due wait; afterwards they start."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        await harness.add_fleet()
        await harness.operate("restart", "web-0")
        journal.fails = "before"
        harness.clock.advance(15 * MINUTE)
        assert deadlines._waking
        await deadlines._waking
        journal.fails = ""
        started = harness.next(Started)
        harness.clock.advance(MINUTE)

        await started

    run(story, journal)


def test_a_clock_that_steps_back_loses_no_deadline() -> None:
    """Woken too early by a clock that was then set back, the event still starts when its time comes again."""

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(DeadlineScheduler(harness.node))
        await harness.add_fleet()
        await harness.operate("restart", "web-0")
        harness.clock.advance(15 * MINUTE)
        harness.clock._now -= 2 * MINUTE
        await harness.operate("restart", "web-1")
        started = harness.next(Started)
        harness.clock.advance(2 * MINUTE)

        await started

    run(story)


def test_an_event_that_was_postponed_is_looked_at_once_at_its_first_time() -> None:
    """It is put back to its new time, and the waker rests until then."""

    async def story(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        harness.node.replica.subscribe(deadlines)
        await harness.add_fleet()
        await harness.node.submit(SetGroup(id=uuid4().hex, by=OPERATOR, group="web", postpone_limit=3600))
        event = await harness.operate("restart", "web-0")
        later = Postponement(event, 600)
        await harness.node.submit(Approve(id=uuid4().hex, by=Caller(CallerKind.VM, "web-0"), postponements=(later,)))
        started = harness.next(Started)
        harness.clock.advance(15 * MINUTE)
        for _ in range(100):
            await asyncio.sleep(0)
        await harness.operate("restart", "web-1")

        assert deadlines.is_idle
        assert not started.done()
        harness.clock.advance(10 * MINUTE)
        assert (await started).event == event

    run(story)


def test_what_was_approved_in_quiet_hours_starts_when_they_end_also_after_a_restart() -> None:
    """Its NotBefore may be hours away."""
    journal = MemoryJournal()
    night = ManualClock(datetime(2026, 1, 1, 1, tzinfo=UTC))

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.node.submit(SetGroup(id=uuid4().hex, by=OPERATOR, group="web", quiet_hours=("00:00-06:00",)))
        freeze = VmOperation.FREEZE
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        await harness.node.submit(
            OperateVm(id=uuid4().hex, by=OPERATOR, operation=freeze, vm="web-0", not_before=noon)
        )
        (event,) = harness.node.replica.fleet.events
        await harness.approve(event)

    async def after(harness: NodeHarness) -> None:
        deadlines = DeadlineScheduler(harness.node)
        deadlines.load(harness.node.replica.fleet)
        started = harness.next(Started)
        harness.clock.advance(0 * MINUTE)
        while not deadlines.is_idle:  # noqa: ASYNC110 - it is idle within a few turns of the loop
            await asyncio.sleep(0)
        harness.clock.advance(4 * 60 * MINUTE)
        await harness.operate("restart", "web-1")
        assert not started.done()
        harness.clock.advance(60 * MINUTE)

        assert (await started).at == datetime(2026, 1, 1, 6, tzinfo=UTC)

    run(before, journal, night)
    run(after, journal, night)


def test_an_event_that_is_brought_forward_starts_at_its_new_time() -> None:
    """The old deadline is hours away."""

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(DeadlineScheduler(harness.node))
        await harness.add_fleet()
        for minutes in (600, 60):
            later = harness.clock.now() + minutes * MINUTE
            degrade = HostOperation.DEGRADE
            await harness.node.submit(
                OperateHost(id=uuid4().hex, by=OPERATOR, operation=degrade, host="h2", not_before=later)
            )
        started = harness.next(Started)
        harness.clock.advance(60 * MINUTE)

        assert (await started).at == later

    run(story)


def test_what_is_approved_in_quiet_hours_starts_when_they_end() -> None:
    """Without a restart too."""

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(DeadlineScheduler(harness.node))
        await harness.add_fleet()
        await harness.node.submit(SetGroup(id=uuid4().hex, by=OPERATOR, group="web", quiet_hours=("00:00-06:00",)))
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        freeze = VmOperation.FREEZE
        await harness.node.submit(
            OperateVm(id=uuid4().hex, by=OPERATOR, operation=freeze, vm="web-0", not_before=noon)
        )
        await harness.approve(*harness.node.replica.fleet.events)
        started = harness.next(Started)
        harness.clock.advance(5 * 60 * MINUTE)

        assert (await started).at == datetime(2026, 1, 1, 6, tzinfo=UTC)

    run(story, clock=ManualClock(datetime(2026, 1, 1, 1, tzinfo=UTC)))
