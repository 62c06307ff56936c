"""What is shown of a rollout: what it waits for, and when it is expected to end."""

from datetime import timedelta

import msgspec
import pytest

from forewarn.control.rollout_views import RolloutDetail, count_waves, detail_rollout, read_ended
from forewarn.core.facts import Entry
from forewarn.core.model import NODE
from forewarn.core.rollouts.model import HostStep, RolloutPrediction
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness


@pytest.mark.parametrize("is_approved", [False, True])
def test_quiet_hours_and_windows_are_told_apart(*, is_approved: bool) -> None:
    """An event waits for the one or the other, whether or not it is approved: an approval would not start it."""
    quiet = RolloutHarness(WEB, "ann sets web quiet_hours=12:00-14:00", "ann rolls out k: reboot hosts=h3")
    window = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 windows=12:10-14:00")
    for harness, expected in ((quiet, "quiet hours"), (window, "window")):
        harness.advance()
        if is_approved:
            harness.say("web-2 approves E1")
        (event,) = detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).events
        assert event.waits_for == expected
        assert event.until == NOON + (timedelta(hours=2) if expected == "quiet hours" else timedelta(minutes=10))


def test_a_gate_that_is_asked_is_shown() -> None:
    """Until it has answered."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 gate=http://h/")
    harness.advance()
    assert detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).is_checking
    harness.say("rollout k finds wave 1 well: answered 200")
    harness.advance()
    assert not detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now).is_checking


def view(harness: RolloutHarness) -> RolloutDetail:
    return detail_rollout(harness.fleet, harness.fleet.rollouts["k"], harness.now)


def test_only_hosts_that_are_done_count_for_the_rate() -> None:
    """Skipped ones took no time."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.say("ann skips h1 of rollout k")
    harness.now = NOON + timedelta(hours=1)
    assert view(harness).rate is None
    while harness.fleet.rollouts["k"].done < 1:
        harness.finish("k", most=1)
    assert view(harness).rate == 3600 / (harness.now - NOON).total_seconds()


def predicted(sentence: str, waves: int, lasts: timedelta) -> RolloutHarness:
    """Start a rollout that is expected to last so long, give or take a third."""
    harness = RolloutHarness(WEB)
    prediction = RolloutPrediction(NOON, waves, NOON + lasts, NOON + 2 * lasts / 3, NOON + 4 * lasts / 3)
    harness.give(msgspec.structs.replace(harness.read(sentence), prediction=prediction))
    return harness


def test_the_end_is_predicted_from_the_plan_until_a_host_is_done() -> None:
    """As long as nothing else is known, it ends as it was planned, in the range that was planned."""
    harness = predicted("ann rolls out k: reboot all_hosts=true", 3, timedelta(minutes=45))
    harness.advance()
    harness.now += timedelta(minutes=5)
    shown = view(harness)
    minutes = [
        (each - NOON).total_seconds() / 60
        for each in (shown.predicted_earliest, shown.predicted_finish, shown.predicted_latest)
        if each
    ]
    assert minutes == [30, 45, 60]


def test_the_end_is_predicted_from_the_waves_that_have_ended() -> None:
    """The others take as long as these did, however long the rollout was paused; the range becomes smaller."""
    harness = predicted("ann rolls out k: reboot all_hosts=true", 3, timedelta(hours=3))
    while harness.fleet.rollouts["k"].done < 1:
        harness.finish("k", most=1)
    taken = harness.now - NOON
    harness.say("ann pauses rollout k")
    assert view(harness).predicted_finish is None
    harness.now += timedelta(hours=10)
    harness.say("ann resumes rollout k")
    harness.advance()

    shown = view(harness)
    began_at = min(run.began_at for run in harness.fleet.rollout_hosts.values() if run.host in ("h2", "h3"))
    assert shown.predicted_finish == max(harness.now, began_at + 2 * taken)
    assert shown.predicted_latest is not None
    assert timedelta() < shown.predicted_latest - shown.predicted_finish < timedelta(hours=1)


def test_of_a_rollout_without_hosts_nothing_is_predicted() -> None:
    """All of its hosts may have been removed."""
    harness = predicted("ann rolls out k: reboot hosts=h1", 1, timedelta(minutes=15))
    rollout = msgspec.structs.replace(harness.fleet.rollouts["k"], hosts=())
    assert detail_rollout(harness.fleet, rollout, harness.now).predicted_finish is None


def test_the_end_is_not_before_the_next_window() -> None:
    """A rollout whose window is closed goes on when one opens."""
    harness = predicted("ann rolls out k: reboot all_hosts=true windows=12:10-12:20", 3, timedelta(minutes=5))
    harness.now += timedelta(minutes=30)
    harness.advance()
    assert view(harness).predicted_finish == NOON + timedelta(days=1, minutes=10)


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
