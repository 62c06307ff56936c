"""What the screen of the emulator shows."""

import pytest

from forewarn.cli.emulating.activity import ActivityLog
from forewarn.cli.emulating.controls import Controls
from forewarn.cli.emulating.screen import Screen
from forewarn.emulator.emulation import Emulation
from forewarn.emulator.setup import EmulationSetup, fleet_of
from tests.cli.test_emulate import emulated


def lines_of(emulation: Emulation) -> list[str]:
    screen = Screen(emulation, None, ActivityLog(), Controls(emulation))
    return [line.plain for line in screen.lines(60)]


@pytest.mark.parametrize(("count", "is_counted"), [(6, False), (7, True)])
def test_vms_are_counted_where_they_are_more_than_fit(count: int, *, is_counted: bool) -> None:
    """Six are shown."""

    async def story(emulation: Emulation) -> None:
        assert (f"  {count} VMs in all" in lines_of(emulation)) is is_counted

    emulated(story, EmulationSetup(fleet=fleet_of(f"web-{number}" for number in range(count))))


def test_the_title_has_the_speed_where_time_is_shortened() -> None:
    """Real time is not mentioned."""

    async def story(emulation: Emulation) -> None:
        assert "times as fast" not in lines_of(emulation)[0]

    emulated(story)
