"""Clocks: the system's, and one that is moved by hand."""

import asyncio
from datetime import UTC, datetime, timedelta

from forewarn.clocks import ManualClock, SystemClock

SECOND = timedelta(seconds=1)


def test_a_manual_clock_makes_each_call_at_its_own_time() -> None:
    """A long step passes every call that falls due on the way, in order."""
    clock = ManualClock()
    begin = clock.now()
    calls: list[datetime] = []
    for delay in (3, 1, 2, 9):
        clock.call_at(begin + delay * SECOND, lambda: calls.append(clock.now()))

    clock.advance(5 * SECOND)

    assert calls == [begin + delay * SECOND for delay in (1, 2, 3)]
    assert clock.now() == begin + 5 * SECOND
    assert clock.next_call() == begin + 9 * SECOND


def test_a_canceled_call_does_not_happen() -> None:
    """Cancel is final, and harmless afterwards."""
    clock = ManualClock()
    calls: list[str] = []
    timer = clock.call_at(clock.now() + SECOND, lambda: calls.append("rang"))
    timer.cancel()
    clock.advance(2 * SECOND)
    timer.cancel()

    assert calls == []
    assert clock.next_call() is None


def test_a_step_of_the_wall_clock_lets_no_time_pass() -> None:
    """What waits for a time of day goes by the wall; what waits for so long does not."""
    clock = ManualClock()
    begin, seconds = clock.now(), clock.seconds()
    calls: list[str] = []
    clock.call_at(begin + 60 * SECOND, lambda: calls.append("at"))
    clock.call_later(10 * SECOND, lambda: calls.append("later"))

    clock.step(-3600 * SECOND)
    assert (clock.now(), clock.seconds()) == (begin - 3600 * SECOND, seconds)
    clock.advance(10 * SECOND)
    assert calls == ["later"]
    clock.step(7200 * SECOND)
    assert calls == ["later", "at"]
    assert clock.seconds() == seconds + 10


def test_a_call_may_set_the_next_one() -> None:
    """A call set while the clock moves falls into the same move when it is due in it."""
    clock = ManualClock()
    calls: list[datetime] = []

    def ring() -> None:
        calls.append(clock.now())
        clock.call_at(clock.now() + SECOND, ring)

    clock.call_at(clock.now() + SECOND, ring)
    clock.advance(4 * SECOND)

    assert len(calls) == 4


def test_the_system_clock_tells_utc_and_calls_back() -> None:
    """A time that has passed is called at once, but never within call_at."""
    clock = SystemClock()

    async def story() -> None:
        rang = asyncio.Event()
        clock.call_at(clock.now() - SECOND, rang.set)
        assert not rang.is_set()
        async with asyncio.timeout(60):
            await rang.wait()

    asyncio.run(story())
    assert clock.now().tzinfo is UTC


def test_a_canceled_call_of_the_system_clock_does_not_happen() -> None:
    """Also when it was due already, and when another call cancels it in the same moment."""
    clock = SystemClock()

    async def story() -> list[str]:
        calls: list[str] = []
        over = asyncio.Event()
        due = clock.now() - SECOND

        def cancel() -> None:
            second.cancel()

        clock.call_at(due, cancel)
        second = clock.call_at(due, lambda: calls.append("canceled by another"))
        clock.call_at(due, lambda: calls.append("canceled")).cancel()
        clock.call_at(due, over.set)
        async with asyncio.timeout(60):
            await over.wait()
        return calls

    assert asyncio.run(story()) == []


def test_canceled_calls_of_the_system_clock_are_forgotten() -> None:
    """Timers that are set and canceled for ever take no memory."""
    clock = SystemClock()

    async def story() -> int:
        kept = clock.call_at(clock.now() + 3600 * SECOND, lambda: None)
        for _ in range(1_000):
            clock.call_at(clock.now() + 3600 * SECOND, lambda: None).cancel()
        kept.cancel()
        assert clock._timers
        return len(clock._timers._queue)

    assert asyncio.run(story()) < 10
