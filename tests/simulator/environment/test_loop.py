"""The event loop on simulated time."""

from random import Random

from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess


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
