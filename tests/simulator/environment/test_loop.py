"""The event loop on simulated time."""

import asyncio
from random import Random

import pytest

from forewarn.simulator.environment.loop import Livelock, SimulatedLoop, SimulatedProcess


def test_code_of_a_killed_process_ends_with_its_simulation() -> None:
    """Its ``finally`` runs neither when it is killed nor within a later simulation."""
    loop = SimulatedLoop(Random(1))
    ended: list[float] = []

    async def wait() -> None:
        try:
            await loop.create_future()
        finally:
            ended.append(loop.time())

    def run(seconds: float) -> None:
        loop.call_later(seconds, loop.stop)
        loop.run_forever()

    process = SimulatedProcess("guest")
    waiting = loop.spawn(process, wait())
    run(1.0)
    loop.kill(process)
    run(20.0)
    assert not ended

    loop.dispose()
    assert ended == [21.0]
    assert not waiting.done()


@pytest.mark.end_to_end
def test_callbacks_that_let_no_time_pass_are_given_up() -> None:
    """Else a simulation of a busy loop would never end."""
    loop = SimulatedLoop(Random(1))

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - that is the fault
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="no time passes at second 0"):
        loop.run_until_complete(spin())
    loop.dispose()
