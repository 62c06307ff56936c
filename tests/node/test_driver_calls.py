"""Sixteen ways in which somebody else's driver can be wrong: each ends its own event, and nothing else."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from forewarn.core.errors import BadInput
from forewarn.core.facts import Attempted, Completed, Failed
from forewarn.node import driver_calls
from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome, ImpactUnderway, ImpactUnknown
from forewarn.node.driver import ImpactFailed as FailedOutcome
from forewarn.node.driver_calls import DriverCalls, check_driver, close_driver
from forewarn.node.performer import Performer
from tests.node.harness import NodeHarness, run
from tests.node.wrong_drivers import ANSWERS, INCOMPLETE, RELEASED, Hurried, WrongDriver, hang


@pytest.mark.parametrize("way", ANSWERS)
def test_a_wrong_answer_ends_its_event_as_failed(way: str) -> None:
    """With the driver's name and place; the next event is carried out, and the service stops when it is told to."""
    answer, said = ANSWERS[way]
    RELEASED.clear()

    async def story(harness: NodeHarness) -> None:
        driver = WrongDriver(answer)
        calls = DriverCalls(driver, 1, longest_call=0.05 if answer is hang else 20.0)
        performer = Performer(harness.node, driver, calls)
        harness.node.replica.subscribe(performer)
        await harness.add_fleet(enrolled=False)
        failed, completed = harness.next(Failed), harness.next(Completed)
        await harness.operate("restart", "web-0")
        reason = (await failed).reason
        await harness.operate("restart", "web-1")
        await completed
        await performer.stop()

        assert "tests.node.wrong_drivers.WrongDriver.perform" in reason
        assert said in reason

    run(story)
    RELEASED.set()


def test_calls_that_never_return_keep_no_other_event_waiting() -> None:
    """A call that takes longer than the contract allows gives its place to the next; the end does not wait for it."""
    hanging, released = threading.Semaphore(0), threading.Event()

    class Hanging(WrongDriver):
        def perform(self, impact: Impact) -> ImpactOutcome:
            if impact.vms[0].name != "web-2":
                hanging.release()
                released.wait(20)
            return ImpactDone()

        def close(self) -> None:
            released.wait(20)

    async def story(harness: NodeHarness) -> None:
        driver = Hanging(ImpactDone)
        performer = Performer(harness.node, driver, DriverCalls(driver, 2, expected_call=0.05))
        harness.node.replica.subscribe(performer)
        await harness.add_fleet(enrolled=False)
        for vm in ("web-0", "web-1"):
            await harness.operate("restart", vm)
            await asyncio.to_thread(hanging.acquire)
        completed = harness.next(Completed)
        await harness.operate("restart", "web-2")
        await completed
        await performer.stop()
        await close_driver(driver, longest=0.05)
        assert not released.is_set()

    run(story)
    released.set()


def test_a_driver_that_is_async_is_told_so() -> None:
    """Nothing is left that nobody awaits."""

    async def perform() -> ImpactOutcome:
        return ImpactDone()

    answer = perform()

    assert driver_calls.check_outcome("its.perform", answer) == FailedOutcome(
        "its.perform returned a coroutine, which is not an outcome: drivers are plain functions, not async"
    )
    assert inspect.getcoroutinestate(answer) == inspect.CORO_CLOSED


def test_an_error_that_cannot_be_shown_is_reported_all_the_same() -> None:
    """Neither an error without a readable text nor an answer without one is lost."""

    class Unspeakable(RuntimeError):
        def __str__(self) -> str:
            raise ValueError

        __repr__ = __str__

    def fail() -> None:
        raise Unspeakable

    async def story(harness: NodeHarness) -> None:
        performer = Performer(harness.node, WrongDriver(fail))
        harness.node.replica.subscribe(performer)
        await harness.add_fleet(enrolled=False)
        failed = harness.next(Failed)
        await harness.operate("restart", "web-0")
        assert "raised Unspeakable at tests.node.test_driver_calls:" in (await failed).reason
        await performer.stop()

    run(story)


def test_a_driver_that_is_always_in_a_hurry_is_asked_once_a_second() -> None:
    """The fourteenth way: a time to ask again that has always passed must not keep everybody busy."""

    async def story(harness: NodeHarness) -> None:
        driver = Hurried(harness.clock.now)
        performer = Performer(harness.node, driver)
        harness.node.replica.subscribe(performer)
        await harness.add_fleet(enrolled=False)
        completed = harness.next(Completed)
        await harness.operate("restart", "web-0")
        while not completed.done():
            harness.clock.advance(timedelta(seconds=1))
            await asyncio.sleep(0)
        await performer.stop()

        assert len(driver.asked_at) == 5
        assert all(later - earlier >= timedelta(seconds=1) for earlier, later in pairwise(driver.asked_at[1:]))

    run(story)


def test_a_driver_that_names_a_time_far_ahead_is_asked_within_the_hour() -> None:
    """Its event does not stay Started for ever because of a time that was computed wrongly."""

    class Patient(WrongDriver):
        def outcome_of(self, impact: Impact) -> ImpactOutcome:
            return ImpactDone(detail=impact.event.id)

    async def story(harness: NodeHarness) -> None:
        performer = Performer(harness.node, Patient(lambda: ImpactUnderway(datetime.max.replace(tzinfo=UTC))))
        harness.node.replica.subscribe(performer)
        await harness.add_fleet(enrolled=False)
        attempted, completed = harness.next(Attempted), harness.next(Completed)
        await harness.operate("restart", "web-0")
        await attempted
        async with asyncio.timeout(20):
            while not completed.done():
                harness.clock.advance(timedelta(minutes=1))
                await asyncio.sleep(0)
        await performer.stop()

    run(story)


WORDS = "one\ntwo\x00 \x1b[31mred" + "x" * 1_000_000


def _fail() -> None:
    raise RuntimeError(WORDS)


@pytest.mark.parametrize("answer", [lambda: FailedOutcome(WORDS), lambda: ImpactUnknown(WORDS), _fail])
def test_words_are_one_line_that_ends(answer: Callable[[], ImpactOutcome]) -> None:
    """They stand in the journal, in the log, in notifications and on operators' terminals."""

    async def story(harness: NodeHarness) -> None:
        performer = Performer(harness.node, WrongDriver(answer))
        harness.node.replica.subscribe(performer)
        await harness.add_fleet(enrolled=False)
        failed = harness.next(Failed)
        await harness.operate("restart", "web-0")
        words = (await failed).reason
        await performer.stop()

        assert "one two   [31mredxxx" in words
        assert len(words) < 2000
        assert words.isprintable()

    run(story)


@pytest.mark.parametrize("way", INCOMPLETE)
def test_what_lacks_a_part_of_a_driver_is_refused_at_the_start(way: str) -> None:
    """The fifteenth and sixteenth: a driver that was not made, and one with a part missing."""
    with pytest.raises(BadInput, match=r"driver 'mine' made .* which lacks .*outcome_of, close.*mend it"):
        check_driver("mine", INCOMPLETE[way])
