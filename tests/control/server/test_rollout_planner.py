"""Plans of rollouts, made from the committed fleet."""

from msgspec.structs import replace

from forewarn.control.server.rollout_planner import RolloutPlanner
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from forewarn.journal.memory import MemoryJournal
from forewarn.node.rollout_checks import RolloutChecker
from tests.node.harness import NodeHarness, run


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
