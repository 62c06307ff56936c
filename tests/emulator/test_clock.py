"""The running clock: the wall's time, and ahead of it by as much as it was moved."""

import asyncio
from datetime import UTC, datetime, timedelta

from forewarn.emulator.clock import RunningClock

HOUR = timedelta(hours=1)


def test_it_goes_by_the_wall_until_it_is_moved() -> None:
    """Then it stays ahead."""

    async def play() -> None:
        before = datetime.now(UTC)
        clock = RunningClock()
        assert before <= clock.now() <= datetime.now(UTC)
        seconds = clock.seconds()
        clock.advance(HOUR)
        assert before + HOUR <= clock.now() <= datetime.now(UTC) + HOUR
        assert clock.seconds() - seconds >= HOUR.total_seconds()

    asyncio.run(play())


def test_calls_come_when_it_is_moved_past_them_and_in_their_order() -> None:
    """A canceled one does not come, nor one that is still ahead."""

    async def play() -> list[str]:
        clock = RunningClock()
        made: list[str] = []
        clock.call_at(clock.now() + 2 * HOUR, lambda: made.append("second"))
        clock.call_at(clock.now() + HOUR, lambda: made.append("first"))
        clock.call_at(clock.now() + HOUR, lambda: made.append("never")).cancel()
        clock.call_at(clock.now() + 9 * HOUR, lambda: made.append("too early"))
        clock.advance(3 * HOUR)
        clock.close()
        return made

    assert asyncio.run(play()) == ["first", "second"]


def test_calls_come_by_themselves() -> None:
    """When their time has come by the wall, and never within the call that asks for them."""

    async def play() -> None:
        clock = RunningClock()
        came = asyncio.Event()
        clock.call_at(clock.now(), came.set)
        assert not came.is_set()
        await asyncio.wait_for(came.wait(), 60)
        clock.close()

    asyncio.run(play())
