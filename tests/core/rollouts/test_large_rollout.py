"""A rollout of 100,000 VMs on virtual time, checked from outside after every step."""

import pytest

from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from tests.core.rollouts.rollout_checker import RolloutFactChecker
from tests.core.rollouts.virtual_rollout import VirtualRollout, large_fleet

TERMS = RolloutTerms(
    operation=RolloutOperation.REBOOT, all_hosts=True, parallel=100, fleet_share=0.05, group_share=0.5
)


@pytest.mark.end_to_end
def test_a_rollout_of_100_000_vms_keeps_every_promise() -> None:
    """What each step touched is checked after it, and everything every 1,000 steps."""
    fleet = large_fleet(100_000, 5_000, 2_000)
    checker = RolloutFactChecker(fleet.vms.values(), TERMS.parallel)
    VirtualRollout(fleet, TERMS, checker).run()

    assert fleet.rollouts == {}
    assert fleet.events == {}
    checker.check_all(fleet)
    assert len(checker.impacted) == 100_000
    assert set(checker.impacted.values()) == {1}
