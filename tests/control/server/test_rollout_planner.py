"""Plans of rollouts, made from the committed fleet, and from what was recorded of earlier events."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.control.server.rollout_planner import RolloutPlanner
from forewarn.core.facts import Completed
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import ImpactDone, ImpactUnderway
from forewarn.node.leader import Leader
from forewarn.node.rollout_checks import RolloutChecker
from tests.node.harness import NodeHarness, run
from tests.node.test_performer import ScriptedDriver


def test_a_plan_finds_that_hosts_of_one_wave_have_nowhere_to_move_their_vms() -> None:
    """They cannot take each other's."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        planner = RolloutPlanner(harness.node, journal, RolloutChecker(), None, runs_commands=True, moves_live=False)
        terms = RolloutTerms(operation=RolloutOperation.COMMAND, all_hosts=True, command="update")
        assert (await planner.plan("k", terms)).problems == ()
        together = await planner.plan("k", replace(terms, parallel=2))
        assert "cannot leave h1: no other host is up" in together.problems[0]

    run(story, journal)


@pytest.mark.parametrize("is_immediate", [False, True])
def test_a_changed_driver_has_no_experience(*, is_immediate: bool) -> None:
    """What the journal tells of an operation is recorded with the driver that the settings name."""
    journal = MemoryJournal()
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        harness.node.driver_name = "libvirt"
        driver = ScriptedDriver(ImpactUnderway(harness.clock.now() + timedelta(seconds=30)), ImpactDone())
        driver.is_immediate = is_immediate
        leader = Leader(harness.node, driver)
        await leader.lead()
        done = harness.next(Completed)
        await harness.approve(*(await harness.operate_host("reboot", "h2")))
        while not driver.asked or leader.busy:
            await asyncio.to_thread(bool)
        harness.clock.advance(timedelta(seconds=30))
        await done
        await leader.resign()
        for name, recorded in (("libvirt", 30.0), ("qemu", 0.0)):
            harness.node.driver_name = name
            planner = RolloutPlanner(
                harness.node, journal, RolloutChecker(), None, runs_commands=True, moves_live=False
            )
            assert (await planner.plan("k", terms)).recorded.host == recorded

    run(story, journal)
