"""Calls of handlers: in threads, bounded, and whatever a handler does the agent hears of it once."""

import asyncio
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forewarn.agent.decision.actions import CallHandler
from forewarn.agent.handler import (
    Direction,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Task,
)
from forewarn.agent.runtime.clock_check import EndpointClock
from forewarn.agent.runtime.handler_runner import CallGivenUp, HandlerRunner
from forewarn.clocks import ManualClock
from tests.agent.harness import event

Outcome = HandlerOutcome | CallGivenUp


class Obedient:
    """A handler that does what a test says."""

    repeats = True
    shared = False

    def __init__(self, work: Callable[[Task], HandlerResult]) -> None:
        self.do = self.undo = work
        self.closed = 0

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        self.closed += 1


def run(seconds: float = 60.0, **fields: object) -> CallHandler:
    usual: dict[str, object] = {"handler": "drain", "direction": Direction.DO, "attempt": 1}
    deadline = datetime.now(UTC) + timedelta(seconds=seconds)
    return CallHandler(event=event(), deadline=deadline, **{**usual, **fields})  # type: ignore[arg-type]


class Ends:
    """Hears what came of calls."""

    def __init__(self) -> None:
        self.outcomes: asyncio.Queue[Outcome] = asyncio.Queue()

    def __call__(self, run: CallHandler, outcome: Outcome) -> None:
        self.outcomes.put_nowait(outcome)


def test_a_handler_is_given_its_task() -> None:
    """All that it needs to know, and what it returns is heard."""
    given: list[Task] = []

    def work(task: Task) -> HandlerResult:
        given.append(task)
        return HandlerDone(detail="well")

    async def story() -> Outcome:
        ends = Ends()
        HandlerRunner({"drain": Obedient(work)}, ends).call(run(kept={"was": "up"}, attempt=3), "web-0")
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerDone(detail="well")
    assert (given[0].vm, given[0].kept, given[0].attempt, given[0].event) == ("web-0", {"was": "up"}, 3, event())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("no route\nat all"), "OSError: no route"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError("\udcff"), "ValueError: ?"),
    ],
)
def test_an_exception_is_a_failure_with_its_text(error: BaseException, reason: str) -> None:
    """A stranger's handler may fail in any way; the agent goes on."""

    def work(_: Task) -> HandlerResult:
        raise error

    async def story() -> Outcome:
        ends = Ends()
        HandlerRunner({"drain": Obedient(work)}, ends).call(run(), "web-0")
        return await ends.outcomes.get()

    outcome = asyncio.run(story())

    assert isinstance(outcome, HandlerFailed)
    assert re.fullmatch(re.escape(reason) + r" \(.*test_handler_runner\.py:\d+\)", outcome.reason)


class Unspeakable(BaseException):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise self

    __repr__ = __str__


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Unspeakable()])
def test_whatever_a_handler_raises_the_next_call_is_made(error: BaseException) -> None:
    """Also what ends other programs, and what cannot be shown."""
    calls: list[Task] = []

    def work(task: Task) -> HandlerResult:
        calls.append(task)
        raise error

    async def story() -> list[Outcome]:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends)
        runner.call(run(), "web-0")
        first = await ends.outcomes.get()
        runner.call(run(direction=Direction.UNDO), "web-0")
        return [first, await ends.outcomes.get()]

    assert [type(each) for each in asyncio.run(story())] == [HandlerFailed, HandlerFailed]
    assert len(calls) == 2


def test_a_result_that_cannot_be_shown_is_a_failure() -> None:
    """Its class is named."""

    async def story() -> Outcome:
        ends = Ends()
        HandlerRunner({"drain": Obedient(lambda _: Unspeakable())}, ends).call(run(), "web-0")  # type: ignore[arg-type,return-value]
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerFailed(
        "TypeError: it returned a Unspeakable, which is not a handler result"
    )


def test_a_handler_without_undo_fails_and_ends_nothing() -> None:
    """One that lost the method after the configuration was read."""

    async def story() -> Outcome:
        ends = Ends()
        handler = Obedient(lambda _: HandlerDone())
        del handler.undo
        HandlerRunner({"drain": handler}, ends).call(run(direction=Direction.UNDO), "web-0")
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerFailed("AttributeError: 'Obedient' object has no attribute 'undo'")


def test_a_handler_is_a_failure_where_no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on, and the handler may be called again."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story() -> Outcome:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(lambda _: HandlerDone())}, ends)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            runner.call(run(), "web-0")
            failed = await ends.outcomes.get()
        assert runner.is_idle
        return failed

    outcome = asyncio.run(story())

    assert isinstance(outcome, HandlerFailed)
    assert outcome.reason.startswith("RuntimeError: can't start new thread")


def test_a_handler_past_its_deadline_is_told_to_stop() -> None:
    """One that listens returns in time, and what it says counts."""

    def work(task: Task) -> HandlerResult:
        return HandlerFailed("stopped") if task.stopping.wait(30) else HandlerDone()

    async def story() -> Outcome:
        ends = Ends()
        HandlerRunner({"drain": Obedient(work)}, ends).call(run(seconds=0), "web-0")
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerFailed("stopped")


def test_a_handler_that_does_not_return_is_given_up() -> None:
    """Its next call waits in vain while it hangs, what it says too late is not heard, and then it is called again."""
    may_end = threading.Event()
    ended = threading.Event()

    def work(task: Task) -> HandlerResult:
        if task.attempt == 1:
            may_end.wait(30)
            ended.set()
        return HandlerDone(detail=str(task.attempt))

    async def story() -> list[Outcome]:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends, grace=0.01)
        runner.call(run(seconds=0), "web-0")
        outcomes = [await ends.outcomes.get()]
        runner.call(run(seconds=0.01, attempt=2), "web-0")
        outcomes.append(await ends.outcomes.get())
        may_end.set()
        await asyncio.to_thread(ended.wait)
        while not runner.is_idle:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0)
        runner.call(run(attempt=3), "web-0")
        return [*outcomes, await ends.outcomes.get()]

    assert asyncio.run(story()) == [
        CallGivenUp("the handler did not return by its deadline; the agent no longer waits for it"),
        HandlerFailed("an earlier call of the handler has not returned yet"),
        HandlerDone(detail="3"),
    ]


def test_a_call_that_is_no_longer_wanted_is_told() -> None:
    """Only the call for that event."""

    def work(task: Task) -> HandlerResult:
        return HandlerFailed("stopped") if task.stopping.wait(30) else HandlerDone()

    async def story() -> Outcome:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends)
        runner.call(run(), "web-0")
        runner.stop("another", "drain")
        assert ends.outcomes.empty()
        runner.stop("e1", "drain")
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerFailed("stopped")


def test_a_handler_is_asked_once() -> None:
    """Asking it again before it has answered asks nothing."""

    async def story() -> tuple[Outcome, bool]:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(lambda _: HandlerDone())}, ends)
        runner.ask(run(), "web-0")
        runner.ask(run(), "web-0")
        answer = await ends.outcomes.get()
        return answer, ends.outcomes.empty()

    assert asyncio.run(story()) == (HandlerNotBegun(), True)


def test_a_dry_run_calls_nobody() -> None:
    """It says what would have been done."""

    def work(_: Task) -> HandlerResult:
        raise AssertionError

    async def story() -> Outcome:
        ends = Ends()
        HandlerRunner({"drain": Obedient(work)}, ends, dry_run=True).call(run(), "web-0")
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerDone(detail="dry run: nothing was done")


def test_closing_stops_calls_and_lets_go_of_handlers() -> None:
    """Whoever listens has returned by then."""

    def work(task: Task) -> HandlerResult:
        return HandlerFailed("stopped") if task.stopping.wait(30) else HandlerDone()

    handler = Obedient(work)

    async def story() -> None:
        runner = HandlerRunner({"drain": handler}, Ends())
        runner.call(run(), "web-0")
        await runner.close(30)

    asyncio.run(story())

    assert handler.closed == 1


WRONG: Any = (1, object())


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "well",
        HandlerNotBegun(),
        *(HandlerDone(kept={"was": wrong}) for wrong in WRONG),
        HandlerDone(detail="\udcff"),
    ],
)
def test_what_is_no_result_is_a_failure(returned: Any) -> None:
    """What could not be read again after a reboot must not get into the memory."""

    async def story() -> Outcome:
        ends = Ends()
        HandlerRunner({"drain": Obedient(lambda _: returned)}, ends).call(run(), "web-0")
        return await ends.outcomes.get()

    outcome = asyncio.run(story())
    assert isinstance(outcome, HandlerFailed)
    assert outcome.reason.startswith("TypeError: it returned ")


def test_a_call_waits_for_an_earlier_one_that_was_given_up() -> None:
    """So that what hangs a while is put back all the same."""
    may_end = threading.Event()

    def work(task: Task) -> HandlerResult:
        if task.direction is Direction.DO:
            may_end.wait(30)
        return HandlerDone(detail=task.direction)

    async def story() -> list[Outcome]:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends, grace=0.01)
        runner.call(run(seconds=0), "web-0")
        outcomes = [await ends.outcomes.get()]
        runner.call(run(direction=Direction.UNDO), "web-0")
        may_end.set()
        return [*outcomes, await ends.outcomes.get()]

    assert asyncio.run(story())[1] == HandlerDone(detail="undo")


def test_an_undo_waits_for_an_earlier_call_past_its_own_deadline() -> None:
    """The earlier call may still change something; the undo then has all its time."""
    may_end = threading.Event()
    left: list[float] = []

    def work(task: Task) -> HandlerResult:
        if task.direction is Direction.DO:
            may_end.wait(30)
        else:
            left.append((task.deadline - datetime.now(UTC)).total_seconds())
        return HandlerDone(detail=task.direction)

    async def story() -> Outcome:
        ends = Ends()
        clock = ManualClock(datetime.now(UTC))
        runner = HandlerRunner({"drain": Obedient(work)}, ends, grace=0.01, clock=EndpointClock(clock))
        runner.call(run(seconds=0), "web-0")
        await ends.outcomes.get()
        runner.call(run(direction=Direction.UNDO), "web-0")
        assert runner.waiting_calls == {("e1", "drain")}
        clock.advance(timedelta(minutes=5))
        may_end.set()
        return await ends.outcomes.get()

    assert asyncio.run(story()) == HandlerDone(detail="undo")
    assert left[0] > 300


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [(1, HandlerNotBegun()), (2, HandlerFailed("an earlier call of the handler has not returned yet"))],
)
def test_a_call_that_waits_can_be_told_that_it_is_not_wanted(attempt: int, expected: Outcome) -> None:
    """It never begins. Its event was handled before if it is not the first attempt: that is undone."""
    may_end = threading.Event()
    called: list[int] = []

    def work(task: Task) -> HandlerResult:
        called.append(task.attempt)
        may_end.wait(30)
        return HandlerDone()

    async def story() -> Outcome:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends, grace=0.01)
        runner.call(run(seconds=0), "web-0")
        await ends.outcomes.get()
        runner.call(run(attempt=attempt), "web-0")
        runner.stop("e1", "drain")
        outcome = await ends.outcomes.get()
        assert runner.waiting_calls == frozenset()
        may_end.set()
        await runner.close(30)
        assert ends.outcomes.empty()
        return outcome

    assert asyncio.run(story()) == expected
    assert called == [1]


def test_a_call_whose_time_is_cut_is_told_earlier() -> None:
    """And given up soon after, if it does not listen. A later time than its own changes nothing."""
    may_end = threading.Event()
    result: list[bool] = []

    def work(task: Task) -> HandlerResult:
        result.append(task.stopping.wait(30))
        may_end.wait(30)
        return HandlerDone()

    async def story() -> Outcome:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends, grace=0.01)
        runner.call(run(), "web-0")
        runner.stop("e1", "drain", datetime.now(UTC))
        runner.stop("e1", "drain", datetime.now(UTC) + timedelta(hours=1))
        outcome = await ends.outcomes.get()
        may_end.set()
        await runner.close(30)
        return outcome

    assert isinstance(asyncio.run(story()), CallGivenUp)
    assert result == [True]


@pytest.mark.parametrize("hangs", [False, True])
def test_who_cannot_answer_does_not_know(*, hangs: bool) -> None:
    """It must not be called again because a question failed."""
    may_end = threading.Event()

    class Confused(Obedient):
        def outcome_of(self, task: Task) -> HandlerOutcome:
            if hangs:
                may_end.wait(30)
            raise LookupError

    async def story() -> Outcome:
        ends = Ends()
        runner = HandlerRunner({"drain": Confused(lambda _: HandlerDone())}, ends, grace=0.01)
        runner.ask(run(seconds=0.05 if hangs else 60), "web-0")
        outcome = await ends.outcomes.get()
        may_end.set()
        await runner.close(30)
        return outcome

    assert isinstance(asyncio.run(story()), HandlerUnknown)


def test_what_came_of_a_call_that_still_runs_is_not_known() -> None:
    """The handler is not asked while an earlier call is under way, and must not be called again."""
    may_end = threading.Event()

    def work(_: Task) -> HandlerResult:
        may_end.wait(30)
        return HandlerDone()

    async def story() -> Outcome:
        ends = Ends()
        runner = HandlerRunner({"drain": Obedient(work)}, ends, grace=0.01)
        runner.call(run(seconds=0), "web-0")
        await ends.outcomes.get()
        runner.ask(run(seconds=0.01), "web-0")
        outcome = await ends.outcomes.get()
        may_end.set()
        await runner.close(30)
        return outcome

    assert asyncio.run(story()) == HandlerUnknown("an earlier call of the handler has not returned yet")


def test_a_handler_that_cannot_be_closed_does_not_keep_others_from_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is told, and everybody else is let go of."""

    class Clinging(Obedient):
        def close(self) -> None:
            raise OSError("still needed")

    other = Obedient(lambda _: HandlerDone())
    asyncio.run(_closed(HandlerRunner({"clinging": Clinging(lambda _: HandlerDone()), "other": other}, Ends())))

    assert other.closed == 1
    assert 'a handler could not be closed handler=clinging reason="OSError: still needed' in caplog.text


def test_a_handler_that_never_lets_go_keeps_nobody_waiting() -> None:
    """Closing has its time; then the agent ends all the same."""
    freed = threading.Event()

    class Hanging(Obedient):
        def close(self) -> None:
            freed.wait(60)

    async def story() -> None:
        await HandlerRunner({"hanging": Hanging(lambda _: HandlerDone())}, Ends()).close(0.05)

    try:
        asyncio.run(asyncio.wait_for(story(), 30))
    finally:
        freed.set()


async def _closed(runner: HandlerRunner) -> None:
    await runner.close(1)
