"""What facts make of rollouts."""

from datetime import timedelta

from msgspec.structs import replace

from forewarn.core.rollouts.commands import StartRollout
from forewarn.core.rollouts.facts import (
    RolloutBlocked,
    RolloutChecked,
    RolloutEdited,
    RolloutEnded,
    RolloutFact,
    RolloutHostChanged,
    RolloutPaused,
    RolloutResumed,
    RolloutStarted,
    RolloutStopping,
    RolloutWaveStarted,
)
from forewarn.core.rollouts.model import HostStep, RecordedLength, RolloutResult, RolloutState
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

LATER = NOON + timedelta(hours=1)


def after(*facts: RolloutFact, terms: str = "reboot all_hosts=true") -> RolloutHarness:
    harness = RolloutHarness(WEB, f"ann rolls out k: {terms}")
    for fact in facts:
        harness.fleet.evolve(fact)
    return harness


BLOCKED = RolloutBlocked("k", NOON, "a window is closed", LATER)


def test_an_edit_changes_terms_and_windows_and_unblocks() -> None:
    """The next round sees whether it still waits."""
    terms = replace(after().rollout.terms, parallel=2)
    found = after(BLOCKED, RolloutEdited("k", NOON, terms, ("20:00-21:00",), 90.0)).rollout
    assert (found.terms, found.fleet_windows, found.lasts) == (terms, ("20:00-21:00",), 90.0)
    assert (found.blocked, found.blocked_until) == ("", None)


def test_a_paused_rollout_waits_for_its_operator_alone() -> None:
    """Not for a window or a limit."""
    found = after(BLOCKED, RolloutPaused("k", NOON, "paused by ann")).rollout
    assert (found.state, found.reason) == (RolloutState.PAUSED, "paused by ann")
    assert (found.blocked, found.blocked_until) == ("", None)


def test_a_resumed_rollout_asks_its_alerts_at_once() -> None:
    """Why it was paused is past."""
    checked = RolloutChecked("k", NOON, 1, False, "Down fires", LATER)
    assert after(checked).rollout.check_after == LATER
    found = after(checked, RolloutPaused("k", NOON, "paused by ann"), RolloutResumed("k", NOON, "")).rollout
    assert (found.state, found.reason, found.check_after) == (RolloutState.RUNNING, "", None)


def test_a_rollout_that_stops_is_not_blocked() -> None:
    """It begins no wave any more."""
    found = after(BLOCKED, RolloutStopping("k", NOON, RolloutResult.STOPPED, "h1 failed")).rollout
    assert (found.state, found.ends_as, found.reason) == (RolloutState.STOPPING, RolloutResult.STOPPED, "h1 failed")
    assert found.blocked == ""


def test_a_gate_that_was_not_well_is_asked_again() -> None:
    """One that was well is not, until its wave is blocked."""
    assert after(RolloutChecked("k", NOON, 1, False, "")).rollout.checked == 0
    assert after(RolloutChecked("k", NOON, 1, True, "")).rollout.checked == 1
    assert after(RolloutChecked("k", NOON, 1, True, ""), BLOCKED).rollout.checked == 0


def test_the_first_failure_of_a_host_is_kept() -> None:
    """Whatever its other events end with."""
    for second in ("the driver fails E2: no disk", "ann cancels E2"):
        harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
        harness.advance()
        harness.say("ann approves E1")
        if second.startswith("the"):
            harness.say("ann approves E2")
        harness.say("the driver fails E1: no power")
        harness.say(second)
        assert harness.run("h1").failure == "no power"


def test_an_event_that_a_caller_cancels_fails_its_host_also_if_its_vm_left() -> None:
    """The operation was refused by somebody."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3")
    harness.advance()
    harness.say("ann cancels E1")
    harness.say("ann records web-2 on h1")
    assert harness.run("h3").failure == "an event was canceled by ann"
    harness.advance()
    assert harness.run("h3").step is HostStep.FAILED


def test_a_host_that_waits_again_remembers_only_vms_that_were_impacted() -> None:
    """And one that waits already can wait again."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    harness.advance()
    harness.say("ann pauses rollout k withdrawing")
    assert harness.rollout.completed == {}
    before = harness.rollout
    harness.fleet.evolve(RolloutHostChanged("k", "h1", NOON, HostStep.WAITING))
    assert harness.rollout == before


def test_a_host_that_begins_again_knows_which_vms_were_impacted_before() -> None:
    """They are spared."""
    started = replace(after().rollout, completed={"h1": ("web-0",)})
    wave = RolloutWaveStarted("k", NOON, 1, ("h1", "h2"), HostStep.ASKING)
    harness = after(RolloutStarted(started), wave)
    assert (harness.run("h1").completed, harness.run("h2").completed) == (("web-0",), ())


def test_a_host_that_is_done_keeps_nothing_of_its_events() -> None:
    """It does not wait again; the event of one of its VMs was canceled."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2")
    harness.advance()
    harness.say("ann deallocates db-0")
    assert list(harness.run("h1").canceled) == ["db-0"]
    harness.wait(900)
    harness.perform()
    run = harness.run("h1")
    assert (run.step, run.events, run.completed, run.canceled) == (HostStep.DONE, (), (), {})


def test_a_host_has_the_time_of_its_step_and_of_its_wave() -> None:
    """By which it is known what could still be moved there."""
    wave = RolloutWaveStarted("k", NOON, 1, ("h1",), HostStep.PLANNING)
    run = after(wave, RolloutHostChanged("k", "h1", LATER, HostStep.ANNOUNCED)).run("h1")
    assert (run.began_at, run.at) == (NOON, LATER)


def test_a_host_that_took_its_next_step_forgets_why_it_was_to_take_it() -> None:
    """The reason of the step remains."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.say("ann skips h1 of rollout k")
    assert (harness.run("h1").failure, harness.run("h1").then) == ("skipped by ann", HostStep.SKIPPED)
    harness.perform()
    run = harness.run("h1")
    assert (run.step, run.failure, run.then, run.reason) == (
        HostStep.SKIPPED,
        "",
        HostStep.FAILED,
        "skipped by ann",
    )


def test_the_next_run_of_a_rollout_begins_with_what_is_known_of_durations() -> None:
    """Runs are counted; all else begins anew."""
    harness = RolloutHarness(WEB)
    command = harness.read("ann rolls out k: command hosts=h1 command=update every=86400")
    assert isinstance(command, StartRollout)
    harness.give(replace(command, recorded=RecordedLength(300, 200)))
    ended = RolloutEnded("k", LATER, RolloutResult.COMPLETED, next_at=LATER + timedelta(days=1))
    for run in (2, 3):
        harness.fleet.evolve(ended)
        found = harness.rollout
        assert (found.run, found.lasts, found.command_lasts) == (run, 300, 200)
        assert (found.state, found.begins_at, found.hosts) == (RolloutState.RESTING, ended.next_at, ())
