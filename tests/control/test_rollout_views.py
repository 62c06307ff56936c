"""What is shown of a rollout: what it waits for, and when it is expected to end."""

from datetime import datetime, timedelta

from forewarn.control.rollout_views import count_waves, detail_rollout, read_ended
from forewarn.core.facts import Entry
from forewarn.core.model import NODE
from forewarn.core.rollouts.model import HostStep
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness


def test_quiet_hours_and_windows_are_told_apart() -> None:
    """An approved event waits for the one or the other."""
    quiet = RolloutHarness(WEB, "ann sets web quiet_hours=12:00-14:00", "ann rolls out k: reboot hosts=h3")
    window = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 windows=12:10-14:00")
    for harness, expected in ((quiet, "quiet hours"), (window, "window")):
        harness.advance()
        harness.say("web-2 approves E1")
        (event,) = detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).events
        assert event.waits_for == expected


def test_a_gate_that_is_asked_is_shown() -> None:
    """Until it has answered."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 gate=http://h/")
    harness.advance()
    assert detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).is_checking
    harness.say("rollout k finds wave 1 well: answered 200")
    harness.advance()
    assert not detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).is_checking


def finish(harness: RolloutHarness) -> datetime | None:
    return detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).predicted_finish


def test_only_hosts_that_are_done_count_for_the_rate() -> None:
    """Skipped ones took no time; nothing is expected of a rollout that is paused."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.say("ann skips h1 of rollout k")
    harness.now = NOON + timedelta(hours=1)
    assert detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).rate is None
    while harness.fleet.rollouts["k"].done < 1:
        harness.finish("k", most=1)
    taken = harness.now - NOON
    assert finish(harness) == harness.now + taken
    harness.say("ann pauses rollout k")
    assert finish(harness) is None


def test_a_canceled_rollout_does_not_begin_again() -> None:
    """Also if it was to recur."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h9 every=3600")
    harness.advance()
    harness.say("ann cancels rollout k")
    found = read_ended([Entry(1, NOON, "", NODE, tuple(harness.facts))], "k")
    assert found is not None
    assert (found.detail.state, found.detail.begins_at) == ("canceled", None)


def test_the_waves_of_a_rollout_are_kept_after_its_end() -> None:
    """As they were when it ended: from the journal, because the fleet forgets them."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true parallel=2")
    rollout = harness.fleet.rollouts["k"]
    while "k" in harness.fleet.rollouts:
        rollout = harness.fleet.rollouts["k"]
        waves = count_waves(harness.fleet, rollout)
        harness.finish("k", most=1)
    assert count_waves(harness.fleet, rollout) == {}
    found = read_ended([Entry(1, NOON, "", NODE, tuple(harness.facts))], "k")
    assert found is not None
    assert found.waves.keys() == waves.keys()
    assert sum(steps[HostStep.DONE] for steps in found.waves.values()) == len(rollout.hosts)
