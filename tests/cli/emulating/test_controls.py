"""What the keys of the emulator do."""

from forewarn.cli.emulating.controls import Controls
from forewarn.core.model import EventStatus
from forewarn.emulator.emulation import Emulation
from tests.cli.test_emulate import emulated


def test_a_key_approves_the_event_of_the_chosen_vm_before_others() -> None:
    """An event of another VM of the group is approved only where the chosen one has none."""

    async def story(emulation: Emulation) -> None:
        controls = Controls(emulation)
        for key in ("r", "\t", "r", "a"):
            await controls.press(key)
        fleet = emulation.node.replica.fleet
        scheduled = [each.resources for each in fleet.events.values() if each.status is EventStatus.SCHEDULED]
        approved = [each.resources for each in fleet.events.values() if each.approvals or each.approved_by]

        assert ("web-0",) in scheduled
        assert approved == [("web-1",)]

    emulated(story)
