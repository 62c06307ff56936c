"""The event loop on simulated time."""

import asyncio
from random import Random

from forewarn.simulator.loop import SimulatedLoop, SimulatedProcess


def test_code_of_a_killed_process_ends_with_its_simulation() -> None:
    """Its ``finally`` runs neither when it is killed nor within a later simulation."""
    loop = SimulatedLoop(Random(1))
    ended: list[float] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(10.0)
        finally:
            ended.append(loop.time())

    process = SimulatedProcess("guest")
    waiting = loop.spawn(process, wait())
    loop.run_until_complete(asyncio.sleep(1.0))
    loop.kill(process)
    loop.run_until_complete(asyncio.sleep(20.0))
    assert not ended

    loop.dispose()
    assert ended == [21.0]
    assert not waiting.done()
