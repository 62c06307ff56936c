"""The hosts of the wave under way: their next steps, their limits, and when they fail."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.commands import AdvanceRollout, DrainRolloutHost
from forewarn.core.facts import Canceled, FleetChanged, Postponed, RolloutEnded, RolloutHostChanged
from forewarn.core.model import NODE, EventStatus
from forewarn.core.notice import Rules
from forewarn.core.rollouts.active_hosts import limit_of
from forewarn.core.rollouts.advance import wake_at
from forewarn.core.rollouts.model import HostStep
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

EMPTY = f"{WEB}; host h9"
LATER = "windows=13:00-14:00 lead=10800"


def rolling_out(terms: str, *sentences: str, fleet: str = WEB) -> RolloutHarness:
    harness = RolloutHarness(fleet, *sentences, f"ann rolls out k: {terms}")
    harness.advance()
    return harness


def drain(harness: RolloutHarness, placements: dict[str, str], *cold: str) -> None:
    harness.give(
        DrainRolloutHost(
            id=harness.new_id(),
            by=NODE,
            rollout="k",
            host="h1",
            placements=placements,
            live=bool(cold),
            cold=cold,
        )
    )


def test_a_host_that_cannot_be_drained_any_more_withdraws_its_other_events() -> None:
    """It fails when these have ended."""
    harness = rolling_out("drain hosts=h1")
    drain(harness, {"web-0": "h3", "db-0": "h2"})
    harness.say("ann fails host h3")
    harness.advance()
    withdrawn = [fact.group for fact in harness.said(Canceled) if fact.because == "withdrawn by rollout k"]
    assert (withdrawn, harness.run("h1").step) == (["db"], HostStep.FAILED)
    assert "an event was canceled: " in harness.run("h1").reason


def test_a_host_that_failed_in_its_wave_has_failed_also_if_its_vms_left() -> None:
    """Its operation was not done."""
    harness = rolling_out("reboot hosts=h3")
    harness.say("ann fails host h3")
    harness.say("the driver is done with E2, web-2 on h1")
    harness.advance()
    assert harness.run("h3").step is HostStep.FAILED


def test_a_host_does_not_fail_by_the_event_of_a_vm_that_has_moved() -> None:
    """There is nothing left to be done to it."""
    harness = rolling_out("reboot hosts=h1,h3 parallel=2")
    harness.say("the driver sees web-2 moved to h2")
    harness.advance()
    assert harness.run("h3").step is HostStep.DONE


@pytest.mark.parametrize(
    ("terms", "sentences", "step"),
    [
        ("reboot hosts=h9 asks=test", (), HostStep.ASKING),
        ("drain hosts=h9", (), HostStep.PLANNING),
        (f"drain hosts=h9 {LATER}", ("rollout k drains h9",), HostStep.ANNOUNCED),
        ("command hosts=h9 command=update", ("rollout k drains h9", "rollout k goes on"), HostStep.COMMAND),
    ],
)
def test_a_host_that_is_gone_fails_in_every_step(terms: str, sentences: tuple[str, ...], step: HostStep) -> None:
    """A journal of an earlier version may tell of one."""
    harness = rolling_out(terms, fleet=EMPTY)
    for sentence in sentences:
        harness.say(sentence)
    assert harness.run("h9").step is step
    harness.fleet.evolve(FleetChanged(removed_hosts=("h9",)))
    harness.advance()
    assert (harness.run("h9").step, harness.run("h9").reason) == (
        HostStep.FAILED,
        "the host was removed from the fleet",
    )


def test_only_commands_wait_for_a_window() -> None:
    """A host without VMs is drained at once."""
    harness = rolling_out(f"drain hosts=h9 settle=5 {LATER}", fleet=EMPTY)
    harness.say("rollout k drains h9")
    harness.advance()
    assert harness.run("h9").step is HostStep.SETTLING


def test_the_node_that_begins_a_command_is_recorded() -> None:
    """With its term and its driver."""
    harness = rolling_out("command hosts=h9 command=update", fleet=EMPTY)
    harness.say("rollout k drains h9")
    round_ = AdvanceRollout(id=harness.new_id(), by=NODE, rollout="k", node="n1", term=3, driver="libvirt")
    (begun,) = harness.give(round_)
    assert begun == RolloutHostChanged("k", "h9", NOON, HostStep.COMMAND, node="n1", term=3, driver="libvirt")
    assert (harness.run("h9").node, harness.run("h9").term) == ("n1", 3)


def test_the_command_begins_as_soon_as_a_window_is_long_enough_for_it() -> None:
    """The drain before it is over, and needs no time any more."""
    harness = rolling_out(f"command hosts=h9 command=update {LATER}", fleet=EMPTY)
    harness.say("rollout k drains h9")
    assert harness.rollout.lasts == 120
    harness.now = NOON + timedelta(hours=2, seconds=-60)
    harness.advance()
    assert harness.run("h9").step is HostStep.COMMAND


def test_a_host_has_its_limit_from_the_earliest_not_before_on() -> None:
    """VMs that are moved live have a longer notice than the others."""
    harness = rolling_out("drain hosts=h1 host_limit=60")
    drain(harness, {"web-0": "h3", "db-0": "h2"}, "db-0")
    limit = NOON + timedelta(minutes=10, seconds=60)
    assert limit_of(harness.fleet, harness.rollout, harness.run("h1"), Rules()) == limit
    assert wake_at(harness.fleet, harness.rollout, NOON, Rules()) == limit
    harness.wait(659)
    assert harness.run("h1").failure == ""
    assert harness.run("h1").step is HostStep.ANNOUNCED
    harness.wait(1)
    assert harness.run("h1").failure == "it took longer than 60 s"


def test_the_limit_of_a_host_is_hurried() -> None:
    """As are all durations."""
    harness = rolling_out("reboot hosts=h1 host_limit=60")
    run = harness.run("h1")
    hurried = limit_of(harness.fleet, harness.rollout, run, Rules().hurried(60))
    assert hurried == NOON + timedelta(minutes=15, seconds=1)


def test_a_host_that_waits_for_its_command_has_no_limit() -> None:
    """Nor one that fails already, once its Started events have ended."""
    harness = rolling_out(f"command hosts=h9 command=update host_limit=60 {LATER}", fleet=EMPTY)
    harness.say("rollout k drains h9")
    assert limit_of(harness.fleet, harness.rollout, harness.run("h9"), Rules()) is None

    failing = rolling_out("reboot hosts=h1 host_limit=60")
    failing.wait(900)
    run = replace(failing.run("h1"), failure="an event failed")
    assert limit_of(failing.fleet, failing.rollout, run, Rules()) is None


def test_a_postponement_names_the_group_and_the_window() -> None:
    """By which those are told who watch it."""
    harness = rolling_out("reboot hosts=h3 windows=12:00-13:00 expected=600", "ann freezes web-0", "ann approves E1")
    harness.wait(3_100)
    (postponed,) = harness.said(Postponed)
    reason = "the maintenance window of rollout k has closed"
    assert (postponed.group, postponed.by, postponed.reason) == ("web", NODE, reason)


def test_an_event_stays_where_no_window_opens_any_more() -> None:
    """The windows of the fleet have changed, and nothing can be said of a later time."""
    harness = rolling_out("reboot hosts=h3 windows=12:00-13:00")
    harness._rules = Rules(maintenance_windows=("20:00-21:00",))
    harness.advance()
    assert [event.status for event in harness.fleet.events.values()] == [EventStatus.SCHEDULED]
    assert harness.said(Postponed) == []


def test_a_host_that_fails_does_not_hold_up_the_others_of_its_round() -> None:
    """One that is done then is not skipped when the failure stops the rollout."""
    harness = rolling_out("reboot hosts=h1,h3 parallel=2 on_failure=stop")
    for sentence in ("ann cancels E1", "ann cancels E2", "web-2 approves E3"):
        harness.say(sentence)
    harness.perform()
    (ended,) = harness.said(RolloutEnded)
    assert (ended.done, ended.failed, ended.skipped) == (1, 1, 0)


def test_a_rollout_that_pauses_names_the_last_of_the_hosts_that_failed() -> None:
    """They failed in the same round."""
    harness = rolling_out("reboot hosts=h1,h3 parallel=2")
    for event in ("E1", "E2", "E3"):
        harness.say(f"ann cancels {event}")
    harness.advance()
    assert harness.rollout.reason == "host h3 failed: an event was canceled by ann"


def test_only_a_drained_host_waits_for_vms_that_may_arrive() -> None:
    """One that is rebooted need not be empty."""
    harness = RolloutHarness(EMPTY, "ann redeploys web-0")
    harness.wait(1_000)
    harness.say("ann rolls out k: reboot hosts=h9 settle=5")
    harness.advance()
    assert harness.run("h9").step is HostStep.SETTLING


@pytest.mark.parametrize("sentence", ["ann deallocates web-2", "ann declares: no vm web-2; cancel events"])
@pytest.mark.parametrize("operation", ["reboot", "drain"])
def test_vms_that_are_gone_or_deallocated_are_in_nobodys_way(operation: str, sentence: str) -> None:
    """Their events are canceled, and nothing is left to be done to them."""
    harness = rolling_out(f"{operation} hosts=h3 settle=5")
    if operation == "drain":
        harness.say("rollout k drains h3")
    harness.say(sentence)
    harness.advance()
    assert harness.run("h3").step is HostStep.SETTLING
