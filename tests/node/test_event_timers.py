"""Timers of events: each event is called once, at its time, whatever is done to the wall clock."""

import asyncio
from datetime import timedelta

from forewarn.clocks import ManualClock, SystemClock
from forewarn.node.event_timers import EventTimers

SECOND = timedelta(seconds=1)


def make(clock: ManualClock) -> tuple[EventTimers, list[str]]:
    rung: list[str] = []
    return EventTimers(clock, rung.append), rung


def test_each_event_is_called_once_at_its_time() -> None:
    """Also one that was set after a later one."""
    clock = ManualClock()
    timers, rung = make(clock)
    timers.set("later", clock.now() + 30 * SECOND)
    timers.set("sooner", clock.now() + 10 * SECOND)

    clock.advance(9 * SECOND)
    assert rung == []
    clock.advance(SECOND)
    assert rung == ["sooner"]
    assert "sooner" not in timers
    assert "later" in timers
    clock.advance(60 * SECOND)
    assert rung == ["sooner", "later"]
    assert clock.next_call() is None


def test_an_event_that_is_set_again_is_called_at_the_new_time() -> None:
    """The old time means nothing any more."""
    clock = ManualClock()
    timers, rung = make(clock)
    timers.set("one", clock.now() + 10 * SECOND)
    timers.set("one", clock.now() + 30 * SECOND)

    clock.advance(29 * SECOND)
    assert rung == []
    clock.advance(SECOND)
    assert rung == ["one"]


def test_a_clock_that_is_set_ahead_calls_at_the_time_that_it_shows() -> None:
    """The time of the wall clock counts."""
    clock = ManualClock()
    timers, rung = make(clock)
    timers.set("one", clock.now() + 30 * SECOND)
    clock.step(30 * SECOND)
    assert rung == ["one"]


def test_a_clock_that_is_set_back_lets_no_event_wait_longer() -> None:
    """As much time has passed as there was when it was set."""
    clock = ManualClock()
    timers, rung = make(clock)
    timers.set("one", clock.now() + 30 * SECOND)
    clock.step(-timedelta(hours=1))
    clock.advance(30 * SECOND)
    assert rung == ["one"]


def test_all_events_can_be_called_at_once_or_forgotten() -> None:
    """No timer of the clock stays behind."""
    clock = ManualClock()
    timers, rung = make(clock)
    timers.set("one", clock.now() + 30 * SECOND)
    timers.set("other", clock.now() + 60 * SECOND)
    timers.ring_all()
    assert rung == ["one", "other"]
    timers.set("one", clock.now() + 30 * SECOND)
    timers.clear()
    assert clock.next_call() is None


def test_events_that_are_due_together_are_called_in_parts() -> None:
    """The event loop turns in between, so that requests are answered."""

    async def story() -> None:
        clock = SystemClock()
        rung: list[str] = []
        timers = EventTimers(clock, rung.append)
        for number in range(250):
            timers.set(str(number), clock.now())
        most, before = 0, 0
        while len(rung) < 250:
            await asyncio.sleep(0)
            most, before = max(most, len(rung) - before), len(rung)
        assert most == 100

    asyncio.run(story())
