"""The emulator on an event loop: what settled means."""

import asyncio
from datetime import timedelta

from forewarn.emulator.emulation import Emulation
from forewarn.emulator.fleets import fleet_of
from forewarn.emulator.stage import Stage
from forewarn.emulator.verbs import Verb


def test_nothing_is_settled_before_what_was_begun_is_done() -> None:
    """Be it a step of a scenario or a note that has to be recorded."""
    done: list[str] = []

    async def work() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        done.append("work")

    async def play() -> None:
        emulation = Emulation(Stage(fleet=fleet_of(["web-0"])), virtual_time=True)
        await emulation.start()
        emulation.spawn(work())
        await emulation.settled()
        assert done == ["work"]
        await emulation.stop()

    asyncio.run(play())


def test_a_vm_can_ask_past_its_door() -> None:
    """It counts as having asked and is shown what there is, but nothing was sent."""

    async def play() -> None:
        emulation = Emulation(Stage(fleet=fleet_of(["web-0"])), virtual_time=True)
        await emulation.start()
        (life,) = await emulation.do(Verb.REBOOT, vm="web-0")
        await emulation.advance(timedelta(minutes=1))
        await emulation.ask("web-0")
        await emulation.advance(timedelta(seconds=2))
        assert list(life.fetched) == ["web-0"]
        assert not emulation.requests.sent
        await emulation.stop()

    asyncio.run(play())
