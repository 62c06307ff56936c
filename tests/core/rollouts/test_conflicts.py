"""Rollouts beside each other."""

from forewarn.core.rollouts.conflicts import conflicts
from forewarn.core.rollouts.model import RolloutState
from tests.core.rollouts.harness import WEB, RolloutHarness


def test_a_host_that_is_done_or_skipped_is_free_for_another_rollout() -> None:
    """One that waits or failed is not: it can be retried."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.finish("k", failing=("h2",))
    harness.say("ann skips h3 of rollout k")
    assert harness.rollout.state is RolloutState.PAUSED
    for host, others in {"h1": {}, "h2": {"k": "h2"}, "h3": {}}.items():
        assert conflicts(harness.fleet, "other", (host,)) == others


def test_rollouts_that_are_queued_begin_in_their_order() -> None:
    """Each waits for those before it, and for none after it."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    for name in ("second", "third"):
        harness.say(f"ann rolls out {name}: reboot hosts=h1 on_conflict=queue")
    assert conflicts(harness.fleet, "second", ("h1",)) == {"k": "h1"}
    assert conflicts(harness.fleet, "third", ("h1",)) == {"k": "h1", "second": "h1"}
    assert harness.fleet.rollouts["third"].reason == "rollout k has host h1; rollout second has host h1"
    harness.finish("k")
    assert harness.fleet.rollouts["second"].state is RolloutState.RUNNING
    assert harness.fleet.rollouts["third"].state is RolloutState.QUEUED
