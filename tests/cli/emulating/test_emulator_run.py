"""How a run of the emulator begins and ends."""

import asyncio

from forewarn.cli.emulating.emulator_run import EmulatorRun
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.scenario import parse
from tests.cli.test_emulate import emulated

SCENARIO = parse('title = "one step"\n[[step]]\nat = "1h"\ndo = "freeze"\nvm = "web-0"\n', "one.toml", "one")


async def follow(run: EmulatorRun, rounds: int) -> None:
    """Draw so many times, each at once, and leave."""
    left = rounds

    def draw() -> None:
        nonlocal left
        left -= 1
        run._controls.is_leaving = not left
        asyncio.get_running_loop().call_soon(run._changed.set)

    await run._follow(draw)


def test_without_a_scenario_it_runs_until_it_is_left() -> None:
    """There is nothing that could be over."""

    async def story(emulation: Emulation) -> None:
        run = EmulatorRun(emulation, None, patience=0.0, stays=False, as_json=True)
        await follow(run, 3)

        assert run._result().is_good

    emulated(story)


def test_a_scenario_begins_once() -> None:
    """However often the screen is drawn."""
    begun: list[str] = []

    async def story(emulation: Emulation) -> None:
        run = EmulatorRun(emulation, SCENARIO, patience=0.0, stays=False, as_json=True)
        player = run._player
        assert player
        begin = player.begin

        def count() -> None:
            begun.append(player.scenario.name)
            begin()

        player.begin = count  # type: ignore[method-assign]  # it is counted
        await follow(run, 3)

    emulated(story)

    assert begun == ["one"]
