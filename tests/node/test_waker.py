"""The waker: events start when their time has come, with one timer for all of them."""

from uuid import uuid4

from forewarn.core.commands import CancelEvent
from forewarn.core.facts import Started
from forewarn.journal.memory import MemoryJournal
from forewarn.node.waker import Waker
from tests.node.rig import MINUTE, OPERATOR, Rig, run
from tests.node.test_node import FailingJournal


def test_an_event_starts_when_not_before_has_passed() -> None:
    """Nobody approved: the event starts at NotBefore, and not a moment earlier."""

    async def story(rig: Rig) -> None:
        rig.node.feed.subscribe(Waker(rig.node))
        await rig.add_fleet()
        event = await rig.operate("restart", "web-0")
        started = rig.next(Started)
        rig.clock.advance(14.9 * MINUTE)
        await rig.operate("restart", "web-1")
        assert not started.done()
        rig.clock.advance(0.1 * MINUTE)

        assert (await started).event == event
        assert (await started).because == "NotBefore has passed"

    run(story)


def test_what_fell_due_while_the_service_was_down_starts_at_once() -> None:
    """Deadlines are derived from the fleet, so none is lost with the process."""
    journal = MemoryJournal()

    async def before(rig: Rig) -> None:
        await rig.add_fleet()
        await rig.operate("restart", "web-0")

    async def after(rig: Rig) -> None:
        rig.clock.advance(60 * MINUTE)
        started = rig.next(Started)
        Waker(rig.node).load(rig.node.fleet)
        rig.clock.advance(0 * MINUTE)
        await started

    run(before, journal)
    run(after, journal)


def test_an_event_that_was_canceled_wakes_nobody() -> None:
    """A deadline whose event is gone is dropped without a command."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        rig.node.feed.subscribe(Waker(rig.node))
        await rig.add_fleet()
        event = await rig.operate("restart", "web-0")
        await rig.node.submit(CancelEvent(id=uuid4().hex, by=OPERATOR, event=event))
        appends = len(journal.batches)
        later = await rig.operate("restart", "web-1")
        started = rig.next(Started)
        rig.clock.advance(15 * MINUTE)

        assert (await started).event == later
        assert len(journal.batches) == appends + 2

    run(story, journal)


def test_a_wake_that_could_not_be_recorded_is_repeated() -> None:
    """While the journal fails, events that are due wait; afterwards they start."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        waker = Waker(rig.node)
        rig.node.feed.subscribe(waker)
        await rig.add_fleet()
        await rig.operate("restart", "web-0")
        journal.fails = "before"
        rig.clock.advance(15 * MINUTE)
        assert waker._waking
        await waker._waking
        journal.fails = ""
        started = rig.next(Started)
        rig.clock.advance(MINUTE)

        await started

    run(story, journal)


def test_a_clock_that_steps_back_loses_no_deadline() -> None:
    """Woken too early by a clock that was then set back, the event still starts when its time comes again."""

    async def story(rig: Rig) -> None:
        rig.node.feed.subscribe(Waker(rig.node))
        await rig.add_fleet()
        await rig.operate("restart", "web-0")
        rig.clock.advance(15 * MINUTE)
        rig.clock._now -= 2 * MINUTE
        await rig.operate("restart", "web-1")
        started = rig.next(Started)
        rig.clock.advance(2 * MINUTE)

        await started

    run(story)
