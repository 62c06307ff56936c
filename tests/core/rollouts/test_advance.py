"""What a rollout does next: waves, steps of hosts, failure, gates, windows, recurrence."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.commands import ImpactResult, ReportImpact, SetMaintenance
from forewarn.core.errors import Refused
from forewarn.core.facts import Announced, Canceled, Completed, FleetChanged, Postponed
from forewarn.core.model import NODE, Caller, CallerKind, EventStatus, EventType
from forewarn.core.notice import Rules
from forewarn.core.rollouts.actions import actions_due
from forewarn.core.rollouts.advance import wake_at
from forewarn.core.rollouts.commands import DrainRolloutHost, StartRollout
from forewarn.core.rollouts.facts import (
    RolloutBlocked,
    RolloutEdited,
    RolloutEnded,
    RolloutLate,
    RolloutPaused,
    RolloutStarted,
    RolloutWaveStarted,
)
from forewarn.core.rollouts.host_steps import notice_of
from forewarn.core.rollouts.model import HostStep, RolloutPrediction, RolloutResult, RolloutState
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness, reloaded

OPERATOR = Caller(CallerKind.OPERATOR, "ann")


def waves(harness: RolloutHarness) -> list[tuple[str, ...]]:
    return [fact.hosts for fact in harness.facts if isinstance(fact, RolloutWaveStarted)]


def ended(harness: RolloutHarness) -> RolloutEnded:
    return next(fact for fact in harness.facts if isinstance(fact, RolloutEnded))


def step(harness: RolloutHarness, host: str) -> HostStep:
    return harness.fleet.rollout_hosts[f"k/{host}"].step


def test_a_wave_begins_when_all_hosts_of_the_last_have_ended() -> None:
    """Never more hosts at once than allowed."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true parallel=2")
    harness.advance()
    assert harness.hosts_with_events() == {"h1", "h2"}
    harness.finish("k")
    assert waves(harness) == [("h1", "h2"), ("h3",)]
    assert ended(harness).result is RolloutResult.COMPLETED


def test_a_rollout_goes_on_from_a_snapshot_as_from_memory() -> None:
    """After every commit of a whole rollout the fleet that is read again is the same."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true settle=5")
    while harness.fleet.rollouts:
        harness.advance()
        again = reloaded(harness.fleet)
        assert again.rollouts == harness.fleet.rollouts
        assert again.rollout_hosts == harness.fleet.rollout_hosts
        assert again.rollout_events == harness.fleet.rollout_events
        harness.finish("k", most=1)
    assert harness.fleet.rollout_hosts == {}
    assert harness.fleet.rollout_events == {}


def test_a_wave_is_computed_from_the_fleet_as_it_is_then() -> None:
    """VMs that moved meanwhile are announced where they are."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h3")
    harness.advance()
    harness.say("ann records web-1 on h3")
    harness.finish("k")
    announced = [fact.event for fact in harness.facts if isinstance(fact, Announced)]
    assert {vm for event in announced if event.host == "h3" for vm in event.resources} == {"web-1", "web-2"}


def test_hosts_that_left_failed_or_opted_out_are_skipped() -> None:
    """The reason is recorded."""
    harness = RolloutHarness(WEB, "ann declares: host h4", "ann rolls out k: reboot all_hosts=true")
    harness.say("ann declares: no host h4")
    harness.say("ann fails host h3")
    harness.finish("k")
    end = ended(harness)
    assert (end.done, end.skipped) == (2, 2)


def test_a_failed_host_pauses_the_rollout() -> None:
    """By default; resume goes on with the next host."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.finish("k", failing=("h1",))
    assert harness.fleet.rollouts["k"].state is RolloutState.PAUSED
    assert "h1 failed" in harness.fleet.rollouts["k"].reason
    harness.say("ann resumes rollout k")
    harness.finish("k")
    end = ended(harness)
    assert (end.done, end.failed) == (2, 1)


def test_as_many_failures_as_tolerated_do_not_pause() -> None:
    """One more does."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true max_failures=1")
    harness.finish("k", failing=("h1", "h2"))
    assert harness.fleet.rollouts["k"].failed == 2
    assert harness.fleet.rollouts["k"].state is RolloutState.PAUSED


def test_a_rollout_that_stops_withdraws_what_is_scheduled() -> None:
    """Started events finish first."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true parallel=3 on_failure=stop")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.perform(failing=("h1",))
    assert {event.host for event in harness.fleet.events.values()} <= {"h1"}
    harness.finish("k")
    assert ended(harness).result is RolloutResult.STOPPED


def test_a_failure_that_pauses_puts_hosts_back_that_are_not_announced() -> None:
    """While a rollout is paused it announces nothing, whatever its hosts answer."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true parallel=3 asks=test_-e_/run/reboot")
    harness.advance()
    harness.say("ann reboots host h1")
    harness.say("h1 of rollout k answers with 0")
    assert harness.fleet.rollouts["k"].state is RolloutState.PAUSED
    harness.say("h2 of rollout k answers with 0")
    assert harness.hosts_with_events() == {"h1"}
    harness.say("ann resumes rollout k")
    harness.advance()
    harness.say("h2 of rollout k answers with 0")
    assert harness.hosts_with_events() == {"h1", "h2"}


def test_a_host_that_is_done_stays_done_when_another_stops_the_rollout() -> None:
    """Both are found in the same round."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h3 parallel=2 on_failure=stop")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.say("db-0 approves E1")
    harness.say("ann cancels E3")
    harness.perform()
    assert (ended(harness).done, ended(harness).failed, ended(harness).skipped) == (1, 1, 0)


def test_a_host_that_takes_too_long_fails() -> None:
    """From NotBefore on: the notice does not count. What is Scheduled there is withdrawn."""
    harness = RolloutHarness(
        WEB, "ann freezes web-1", "ann approves E1", "ann rolls out k: reboot hosts=h1 host_limit=60"
    )
    harness.advance()
    harness.wait(900)
    assert harness.fleet.rollout_hosts["k/h1"].failure == ""
    harness.wait(61)
    assert {event.status for event in harness.fleet.events.values()} == {EventStatus.STARTED}
    harness.perform()
    assert step(harness, "h1") is HostStep.FAILED


def test_an_event_that_somebody_cancels_fails_its_host() -> None:
    """The operation did not come about there."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3")
    harness.advance()
    harness.say("ann cancels E1")
    harness.advance()
    assert step(harness, "h3") is HostStep.FAILED


def test_an_event_of_a_vm_that_leaves_fails_nothing() -> None:
    """There is nothing left to be done to it."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3")
    harness.advance()
    harness.say("ann deallocates web-2")
    harness.finish("k")
    assert ended(harness).done == 1


def test_canaries_go_first_and_settle_longer() -> None:
    """No other host begins before they have settled."""
    harness = RolloutHarness(
        WEB, "ann rolls out k: reboot all_hosts=true parallel=3 canary_hosts=h3 canary_settle=3600 settle=1"
    )
    harness.finish("k")
    assert waves(harness) == [("h3",), ("h1", "h2")]
    first, second = (fact.at for fact in harness.facts if isinstance(fact, RolloutWaveStarted))
    assert second - first >= timedelta(hours=1)


def test_no_wave_begins_before_its_gate_was_found_well() -> None:
    """Once for each wave; a failed gate pauses with what it said."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true gate=http://h/")
    harness.advance()
    assert harness.fleet.events == {}
    assert [each.kind for each in actions_due(harness.fleet, harness.fleet.rollouts["k"], harness.now)] == ["check"]
    harness.say("rollout k finds wave 1 well: answered 200")
    harness.finish("k")
    assert waves(harness) == [("h1",)]
    harness.say("rollout k finds wave 2 unwell: answered 500")
    paused = next(fact for fact in harness.facts if isinstance(fact, RolloutPaused))
    assert paused.reason == "the gate failed: answered 500"


def test_alerts_that_fire_block_and_do_not_pause() -> None:
    """They are looked at again after a while."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true alerts=Down prometheus=http://p:9090")
    harness.say("rollout k finds wave 1 firing: Down")
    rollout = harness.fleet.rollouts["k"]
    assert (rollout.state, rollout.blocked) == (RolloutState.RUNNING, "alerts fire: Down")
    assert list(actions_due(harness.fleet, rollout, harness.now)) == []
    harness.wait(31)
    assert [each.kind for each in actions_due(harness.fleet, harness.fleet.rollouts["k"], harness.now)] == ["check"]


def test_a_host_command_runs_between_drain_and_uncordon() -> None:
    """Its exit status is recorded."""
    harness = RolloutHarness(WEB, "ann rolls out k: command hosts=h1 command=update")
    harness.advance()
    assert step(harness, "h1") is HostStep.PLANNING
    harness.say("rollout k drains h1")
    assert "h1" in harness.fleet.cordoned
    harness.wait(1_000)
    harness.perform()
    harness.perform()
    assert step(harness, "h1") is HostStep.COMMAND
    assert harness.fleet.vms_on("h1") == ()
    harness.say("the command on h1 of rollout k ends with 0")
    assert "h1" not in harness.fleet.cordoned
    harness.advance()
    assert ended(harness).done == 1


def test_a_host_whose_command_fails_stays_cordoned() -> None:
    """Until somebody has looked at it; retry lets it begin again."""
    harness = RolloutHarness(WEB, "ann rolls out k: command hosts=h1 command=update")
    harness.advance()
    harness.say("rollout k drains h1")
    harness.wait(1_000)
    harness.perform()
    harness.perform()
    harness.say("the command on h1 of rollout k ends with 3")
    run = harness.fleet.rollout_hosts["k/h1"]
    assert (run.step, run.exit_status) == (HostStep.FAILED, 3)
    assert "h1" in harness.fleet.cordoned
    harness.say("ann retries rollout k")
    assert "h1" not in harness.fleet.cordoned


def test_a_canceled_rollout_ends_also_if_its_last_command_fails() -> None:
    """It was asked to end, not to pause."""
    harness = RolloutHarness(WEB, "ann rolls out k: command hosts=h3 command=update")
    harness.advance()
    harness.say("rollout k drains h3")
    harness.finish("k")
    assert step(harness, "h3") is HostStep.COMMAND
    harness.say("ann cancels rollout k")
    harness.say("the command on h3 of rollout k ends with 1")
    harness.advance()
    assert ended(harness).result is RolloutResult.CANCELED


def test_a_host_that_does_not_ask_is_skipped() -> None:
    """As with the sentinel file of kured."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2 asks=test_-e_/run/reboot")
    harness.advance()
    assert step(harness, "h1") is HostStep.ASKING
    harness.say("h1 of rollout k answers with 1")
    harness.advance()
    harness.say("h2 of rollout k answers with 0")
    assert (step(harness, "h1"), step(harness, "h2")) == (HostStep.SKIPPED, HostStep.ANNOUNCED)


def test_a_rollout_that_recurs_begins_again() -> None:
    """With the hosts that match then."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h* every=86400")
    while harness.fleet.rollouts["k"].state is RolloutState.RUNNING:
        harness.finish("k", most=1)
    harness.say("ann declares: host h4")
    while harness.fleet.rollouts["k"].state is RolloutState.RESTING:
        harness.finish("k", most=1)
    assert len(harness.fleet.rollouts["k"].hosts) == 4
    assert harness.fleet.rollouts["k"].started_at - ended(harness).at > timedelta(hours=20)


def test_a_limit_that_others_use_up_blocks_the_next_wave() -> None:
    """It goes on as soon as they are done."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 fleet_share=0.34")
    harness.say("ann cordons host h3")
    harness.advance()
    assert isinstance(harness.facts[-1], RolloutBlocked)
    harness.say("ann uncordons host h3")
    harness.finish("k")
    assert ended(harness).done == 1


def test_durations_are_hurried() -> None:
    """An hour of settling is a minute."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 settle=3600", rules=Rules().hurried(60))
    harness.finish("k")
    assert ended(harness).at - NOON < timedelta(minutes=2)


@pytest.mark.parametrize("policy", ["postpone", "withdraw"])
def test_what_a_window_no_longer_lets_start_is_moved_to_the_next(policy: str) -> None:
    """Postponed, or withdrawn and announced anew; in both cases inside the next window."""
    harness = RolloutHarness(
        WEB, f"ann rolls out k: reboot hosts=h3 windows=12:00-13:00 expected=600 at_close={policy}"
    )
    harness.advance()
    harness.say("ann freezes web-0")
    harness.say("ann approves E2")
    harness.wait(3_100)
    harness.wait(86_400 - 3_100 - 900)
    (event,) = (event for event in harness.fleet.events.values() if event.rollout)
    assert event.status is EventStatus.SCHEDULED
    assert (event.not_before.day, event.not_before.hour) == (2, 12)


def test_a_group_is_not_told_why_an_event_of_another_group_failed() -> None:
    """A driver's words may name VMs of that group."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.say("the driver fails E2: web-0 has no power")
    harness.advance()
    (canceled,) = (fact for fact in harness.facts if isinstance(fact, Canceled))
    assert (canceled.group, canceled.because) == ("db", "withdrawn by rollout k")
    assert "web-0 has no power" in harness.fleet.rollouts["k"].reason


def test_a_host_fails_whose_events_others_canceled() -> None:
    """Nothing was done there: it failed, or was uncordoned, or the target of a VM failed."""
    failed = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2")
    failed.advance()
    failed.say("ann fails host h1")
    failed.advance()
    assert step(failed, "h1") is HostStep.FAILED

    uncordoned = RolloutHarness(WEB, "ann rolls out k: drain hosts=h1")
    uncordoned.advance()
    uncordoned.say("rollout k drains h1")
    uncordoned.say("ann uncordons host h1")
    uncordoned.advance()
    assert step(uncordoned, "h1") is HostStep.FAILED
    assert "h1 was uncordoned" in uncordoned.fleet.rollouts["k"].reason

    target = RolloutHarness(WEB, "ann cordons host h2", "ann rolls out k: drain hosts=h1")
    target.advance()
    target.say("rollout k drains h1")
    target.say("ann fails host h3")
    target.advance()
    assert step(target, "h1") is HostStep.FAILED


def test_a_drained_host_on_which_a_vm_is_fails() -> None:
    """A VM was moved there by hand meanwhile."""
    harness = RolloutHarness(WEB, "ann rolls out k: drain hosts=h1")
    harness.advance()
    harness.say("rollout k drains h1")
    harness.wait(1_000)
    harness.say("ann records web-2 on h1")
    harness.perform()
    harness.perform()
    assert step(harness, "h1") is HostStep.FAILED
    assert "web-2" in harness.fleet.rollouts["k"].reason


EMPTY = f"{WEB}; host h9"


def test_a_command_on_a_host_begins_inside_a_window() -> None:
    """Also on a host without VMs; not if the window closes before the command is expected to end."""
    harness = RolloutHarness(EMPTY, "ann rolls out k: command hosts=h9 command=update windows=13:00-14:00 lead=10800")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    assert step(harness, "h9") is HostStep.ANNOUNCED
    assert harness.fleet.rollouts["k"].blocked == "commands on hosts wait for a maintenance window"
    rollout = harness.fleet.rollouts["k"]
    assert wake_at(harness.fleet, rollout, harness.now, Rules()) == NOON + timedelta(hours=1)
    harness.now = NOON + timedelta(hours=1, minutes=59, seconds=30)
    harness.advance()
    assert step(harness, "h9") is HostStep.ANNOUNCED
    harness.now = NOON + timedelta(days=1, hours=1)
    harness.advance()
    assert step(harness, "h9") is HostStep.COMMAND
    assert harness.fleet.rollouts["k"].blocked == ""


@pytest.mark.parametrize(
    ("operation", "lands_on", "then"),
    [
        ("command", "h2", HostStep.COMMAND),
        ("command", "h9", HostStep.FAILED),
        ("drain", "h2", HostStep.SETTLING),
        ("drain", "h9", HostStep.FAILED),
    ],
)
def test_a_drained_host_waits_for_vms_that_may_arrive(operation: str, lands_on: str, then: HostStep) -> None:
    """The driver of a redeploy that started before the cordon may have chosen the host."""
    harness = RolloutHarness(EMPTY, "ann redeploys web-0")
    harness.wait(1_000)
    (event,) = harness.fleet.events.values()
    assert event.status is EventStatus.STARTED
    command = " command=update" if operation == "command" else ""
    harness.say(f"ann rolls out k: {operation} hosts=h9 settle=5{command}")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    rollout = harness.fleet.rollouts["k"]
    assert step(harness, "h9") is HostStep.ANNOUNCED
    assert rollout.blocked == f"host h9 waits for event {event.id} (vm redeploy), which may move VMs there"
    assert wake_at(harness.fleet, rollout, harness.now, Rules()) == harness.now + timedelta(seconds=30)
    done = ReportImpact(
        id=harness.new_id(), by=NODE, event=event.id, result=ImpactResult.DONE, hosts={"web-0": lands_on}
    )
    harness.give(done)
    harness.advance()
    assert step(harness, "h9") is then
    assert harness.fleet.rollouts["k"].blocked == ""


def test_a_canceled_drain_waits_for_nothing() -> None:
    """Its host is let go, whatever may still be moved there."""
    harness = RolloutHarness(EMPTY, "ann redeploys web-0")
    harness.wait(1_000)
    harness.say("ann rolls out k: drain hosts=h9")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    assert step(harness, "h9") is HostStep.ANNOUNCED
    harness.say("ann cancels rollout k")
    harness.advance()
    assert ended(harness).result is RolloutResult.CANCELED


def test_hosts_that_wait_for_different_events_do_not_keep_the_rollout_busy() -> None:
    """What the first of them waits for is stated once."""
    harness = RolloutHarness(f"{EMPTY}; host h8", "web-0 asks", "ann redeploys web-0", "ann redeploys db-0")
    _, second = harness.fleet.events
    harness.say("ann rolls out k: command hosts=h8,h9 command=update parallel=2")
    harness.advance()
    harness.say("rollout k drains h8")
    harness.wait(1)
    harness.say("ann approves E1")
    harness.say("rollout k drains h9")
    assert {event.status for event in harness.fleet.events.values()} == {EventStatus.STARTED}
    harness.advance()
    blocks = [fact.reason for fact in harness.facts if isinstance(fact, RolloutBlocked)]
    assert len(blocks) == 1
    assert f"host h8 waits for event {second}" in blocks[0]
    assert {step(harness, host) for host in ("h8", "h9")} == {HostStep.ANNOUNCED}


def test_a_skipped_host_blocks_nothing() -> None:
    """What it waited for is stated no more."""
    harness = RolloutHarness(EMPTY, "ann redeploys web-0")
    harness.wait(1_000)
    harness.say("ann rolls out k: command hosts=h3,h9 command=update parallel=2")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    assert harness.fleet.rollouts["k"].blocked.startswith("host h9 waits")
    harness.say("ann skips h9 of rollout k")
    harness.advance()
    assert harness.fleet.rollouts["k"].blocked == ""


def test_a_command_does_not_wait_for_moves_that_started_after_the_cordon() -> None:
    """The host was none of those that the driver could choose."""
    harness = RolloutHarness(EMPTY, "ann rolls out k: command hosts=h9 command=update windows=13:00-14:00 lead=10800")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.wait(1)
    harness.say("ann redeploys web-0")
    harness.wait(1_000)
    (event,) = harness.fleet.events.values()
    assert event.status is EventStatus.STARTED
    harness.now = NOON + timedelta(hours=1)
    harness.advance()
    assert step(harness, "h9") is HostStep.COMMAND


def test_a_command_that_fails_does_not_undo_a_cancel() -> None:
    """The rollout ends as canceled."""
    harness = RolloutHarness(EMPTY, "ann rolls out k: command hosts=h9 command=update")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    harness.say("ann cancels rollout k")
    harness.say("the command on h9 of rollout k ends with 3")
    harness.advance()
    assert ended(harness).result is RolloutResult.CANCELED


def test_hosts_that_fail_together_pause_once() -> None:
    """The reason is that of the first pause."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true parallel=2")
    harness.advance()
    harness.wait(900)
    for host in ("h1", "h2"):
        harness.perform(failing=(host,))
    harness.finish("k", failing=("h1", "h2"))
    assert len([fact for fact in harness.facts if isinstance(fact, RolloutPaused)]) == 1


def test_a_host_that_is_not_in_the_fleet_any_more_fails() -> None:
    """It cannot be removed while it is in a wave; a journal of an earlier version may tell of one."""
    harness = RolloutHarness(EMPTY, "ann rolls out k: command hosts=h9 command=update")
    harness.advance()
    with pytest.raises(Refused, match="in a wave of rollout k"):
        harness.say("ann declares: no host h9")
    harness.fleet.evolve(FleetChanged(removed_hosts=("h9",)))
    harness.advance()
    assert step(harness, "h9") is HostStep.FAILED
    assert list(actions_due(harness.fleet, harness.fleet.rollouts["k"], harness.now)) == []


DOMAINS = (
    "ann declares: host h1; group web availability-set; vm web-0 in web on h1 ud=0 fd=0;"
    " vm web-1 in web on h1 ud=1 fd=1; vm web-2 in web on h1 ud=2 fd=2"
)


@pytest.mark.parametrize("how", ["pause", "retry"])
def test_no_vm_is_impacted_twice_when_its_host_begins_again(how: str) -> None:
    """What was done before a pause that withdraws, or before the host failed, is left out."""
    harness = RolloutHarness(DOMAINS, "ann rolls out k: reboot hosts=h1")
    harness.advance()
    harness.wait(900)
    harness.perform()
    if how == "pause":
        harness.say("ann pauses rollout k withdrawing")
        harness.perform()
    else:
        harness.perform(failing=("h1",))
        harness.perform(failing=("h1",))
        assert step(harness, "h1") is HostStep.FAILED
        harness.say("ann retries rollout k")
    assert reloaded(harness.fleet).rollouts == harness.fleet.rollouts
    harness.say("ann resumes rollout k")
    harness.finish("k")
    events = {fact.event.id: fact.event for fact in harness.facts if isinstance(fact, Announced)}
    done = [vm for fact in harness.facts if isinstance(fact, Completed) for vm in events[fact.event].resources]
    assert sorted(done) == ["web-0", "web-1", "web-2"]


def test_failures_that_are_retried_do_not_raise_the_tolerance() -> None:
    """A failure that an operator has resumed after counts no more, also when its host is tried again."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2")
    harness.finish("k", failing=("h1",))
    harness.say("ann resumes rollout k")
    harness.say("ann retries rollout k")
    harness.finish("k", failing=("h1",))
    assert harness.fleet.rollouts["k"].state is RolloutState.PAUSED


def test_a_recurring_rollout_waits_for_one_that_began_meanwhile() -> None:
    """It has hosts of it."""
    harness = RolloutHarness(WEB, "ann rolls out a: reboot hosts=h1 every=86400")
    while harness.fleet.rollouts["a"].state is RolloutState.RUNNING:
        harness.finish("a", most=1)
    begins_at = harness.fleet.rollouts["a"].begins_at
    assert begins_at
    harness.now = begins_at
    harness.say("ann rolls out b: reboot hosts=h1,h2")
    harness.advance()
    assert harness.fleet.rollouts["a"].state is RolloutState.QUEUED
    harness.finish("b")
    assert harness.fleet.rollouts["a"].state is not RolloutState.QUEUED


def test_a_recurring_rollout_without_hosts_is_tried_again_after_its_whole_time() -> None:
    """It records that there was nothing to do; the time is hurried."""
    harness = RolloutHarness(EMPTY, "ann rolls out k: reboot hosts=h9 every=86400", rules=Rules().hurried(60))
    harness.advance()
    harness.say("ann declares: no host h9")
    begins_at = harness.fleet.rollouts["k"].begins_at
    assert begins_at == NOON + timedelta(minutes=24)
    harness.now = begins_at
    harness.advance()
    assert harness.fleet.rollouts["k"].begins_at == begins_at + timedelta(minutes=24)
    assert "nothing to do" in [fact.reason for fact in harness.facts if isinstance(fact, RolloutEnded)][-1]


def test_the_gate_is_asked_when_the_wave_can_begin() -> None:
    """A wave that limits hold back is not checked; what was said before it was held back does not count."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 fleet_share=0.34 gate=http://h/")
    harness.say("ann cordons host h3")
    harness.advance()
    assert list(actions_due(harness.fleet, harness.fleet.rollouts["k"], harness.now)) == []
    harness.say("ann uncordons host h3")
    harness.advance()
    assert [each.kind for each in actions_due(harness.fleet, harness.fleet.rollouts["k"], harness.now)] == ["check"]
    harness.say("ann cordons host h3")
    harness.say("rollout k finds wave 1 well: answered 200")
    harness.advance()
    harness.say("ann uncordons host h3")
    harness.advance()
    assert waves(harness) == []
    harness.say("rollout k finds wave 1 well: answered 200")
    harness.advance()
    assert waves(harness) == [("h1",)]


def test_hosts_in_maintenance_are_skipped() -> None:
    """An operator works on them."""
    harness = RolloutHarness(WEB)
    harness.give(SetMaintenance(id=harness.new_id(), by=OPERATOR, host="h3", is_in_maintenance=True))
    harness.say("ann rolls out k: reboot all_hosts=true")
    harness.finish("k")
    assert (ended(harness).done, ended(harness).skipped) == (2, 1)


def test_failures_that_are_skipped_never_pause() -> None:
    """However many hosts fail, the others follow."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true on_failure=skip")
    harness.finish("k", failing=("h1", "h2"))
    end = ended(harness)
    assert (end.result, end.done, end.failed) == (RolloutResult.COMPLETED, 1, 2)


def test_a_gate_is_not_asked_while_a_wave_is_under_way() -> None:
    """Only between two waves; and what it said is kept."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true gate=http://h/")
    harness.say("rollout k finds wave 1 well: answered 200")
    harness.advance()
    rollout = harness.fleet.rollouts["k"]
    assert (rollout.active, rollout.check_detail) == (("h1",), "answered 200")
    assert list(actions_due(harness.fleet, rollout, harness.now)) == []


def test_alerts_are_looked_at_again_at_the_stated_time() -> None:
    """Not a moment later: a timer rings then, and no other follows."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true alerts=Down prometheus=http://p:9090")
    harness.say("rollout k finds wave 1 firing: Down")
    harness.wait(30)
    assert [each.kind for each in actions_due(harness.fleet, harness.fleet.rollouts["k"], harness.now)] == ["check"]


def test_a_drain_is_planned_first() -> None:
    """Also where no command follows it."""
    harness = RolloutHarness(WEB, "ann rolls out k: drain hosts=h1")
    harness.advance()
    assert step(harness, "h1") is HostStep.PLANNING


@pytest.mark.parametrize(("how", "type_"), [("", EventType.REDEPLOY), (" live", EventType.FREEZE)])
def test_vms_that_move_live_are_announced_as_frozen(how: str, type_: EventType) -> None:
    """The others are redeployed."""
    harness = RolloutHarness(WEB, "ann rolls out k: drain hosts=h1")
    harness.advance()
    harness.say(f"rollout k drains h1{how}")
    assert {event.type for event in harness.fleet.events.values()} == {type_}


def test_a_host_that_vms_cannot_leave_fails() -> None:
    """The reason names them, and nothing is announced."""
    harness = RolloutHarness(WEB, "ann rolls out k: drain hosts=h1")
    harness.advance()
    left = {"web-0": "no host has room"}
    harness.give(DrainRolloutHost(id=harness.new_id(), by=NODE, rollout="k", host="h1", left=left))
    run = harness.fleet.rollout_hosts["k/h1"]
    assert (run.step, harness.fleet.events) == (HostStep.FAILED, {})
    assert run.reason == "these VMs cannot leave the host, move them first: web-0: no host has room"


@pytest.mark.parametrize(
    ("operation", "live", "minutes"),
    [
        ("reboot", True, 15),
        ("redeploy", False, 10),
        ("redeploy", True, 15),
        ("drain", False, 10),
        ("drain", True, 15),
    ],
)
def test_moves_that_are_live_have_the_notice_of_a_freeze(operation: str, live: bool, minutes: int) -> None:  # noqa: FBT001
    """It is longer than that of a redeployment, and some of the VMs may still be redeployed."""
    harness = RolloutHarness(WEB, f"ann rolls out k: {operation} hosts=h1")
    assert notice_of(harness.fleet.rollouts["k"], Rules(), live=live) == timedelta(minutes=minutes)


def wakes(harness: RolloutHarness, rules: Rules | None = None, **given: object) -> float | None:
    """Return after how many seconds the next round of a rollout in such a state is worth trying."""
    when = wake_at(harness.fleet, replace(harness.fleet.rollouts["k"], **given), harness.now, rules or Rules())
    return None if when is None else (when - harness.now).total_seconds()


def test_a_rollout_is_looked_at_again_at_the_first_time_that_it_waits_for() -> None:
    """Times that have come are over; one that waits for nothing is left alone."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    soon, late = NOON + timedelta(seconds=5), NOON + timedelta(seconds=9)
    for past in (NOON, NOON - timedelta(seconds=1)):
        assert wakes(harness, begins_at=past, blocked_until=past, check_after=past) is None
    assert wakes(harness, begins_at=soon, blocked_until=late) == 5
    assert wakes(harness, check_after=soon) == 5
    assert wakes(harness, blocked="a limit is used up") == 30
    assert wakes(harness, Rules().hurried(10), blocked="a limit is used up") == 3
    assert wakes(harness, blocked="alerts fire", blocked_until=late) == 9
    predicted = RolloutPrediction(NOON, 1, soon, soon, late)
    assert wakes(harness, prediction=predicted) == 9
    assert wakes(harness, prediction=predicted, is_late=True) is None


def test_a_rollout_with_hosts_in_a_wave_is_looked_at_when_windows_open_and_close() -> None:
    """And when no host can end inside the window any more; without such hosts nothing changes then."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 windows=12:00-13:00 expected=600")
    assert wakes(harness) is None
    harness.advance()
    found = []
    for minutes in (0, 49, 50, 55, 60):
        harness.now = NOON + timedelta(minutes=minutes)
        seconds = wakes(harness)
        assert seconds is not None
        found.append(minutes + seconds / 60)
    assert found == [50, 50, 60, 60, 24 * 60]
    always = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    always.advance()
    assert wakes(always) is None


def test_a_rollout_is_looked_at_when_a_host_has_settled() -> None:
    """Then the host is done."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h9 settle=7")
    harness.advance()
    assert wakes(harness) == 7


def test_a_wave_is_not_announced_when_its_notice_ends_after_the_window() -> None:
    """It waits for the next window, and is announced the notice before that."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 windows=12:00-13:00")
    harness.now = NOON + timedelta(minutes=50)
    harness.advance()
    rollout = harness.fleet.rollouts["k"]
    assert rollout.blocked == "the next maintenance window opens at 2024-01-02T12:00:00Z; VMs are told before"
    assert rollout.blocked_until == NOON + timedelta(days=1, minutes=-15)
    harness.now = rollout.blocked_until
    harness.advance()
    (event,) = harness.fleet.events.values()
    assert event.not_before == NOON + timedelta(days=1)


@pytest.mark.parametrize(("lead", "minutes"), [("", 1 / 4), (" lead=60", 1 / 4), (" lead=7200", 2)])
def test_a_wave_is_announced_its_lead_before_the_window_and_at_least_its_notice(lead: str, minutes: float) -> None:
    """Both are hurried; VMs that are told earlier can prepare earlier."""
    rules = Rules().hurried(60)
    harness = RolloutHarness(WEB, f"ann rolls out k: reboot hosts=h3 windows=18:00-20:00{lead}", rules=rules)
    harness.advance()
    assert harness.fleet.rollouts["k"].blocked_until == NOON + timedelta(hours=6, minutes=-minutes)


def test_a_rollout_says_that_no_window_is_long_enough_any_more() -> None:
    """Those of the fleet have changed."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 windows=18:00-20:00")
    harness._rules = Rules(maintenance_windows=("06:00-07:00",))
    harness.advance()
    rollout = harness.fleet.rollouts["k"]
    assert rollout.fleet_windows == ("06:00-07:00",)
    assert rollout.blocked == "no maintenance window opens that is long enough; edit the windows"
    assert rollout.blocked_until is None


def test_a_rollout_that_recurs_and_is_queued_says_for_which_it_waits() -> None:
    """As one that begins for the first time."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h9 every=60")
    harness.advance()
    harness.say("ann rolls out other: reboot hosts=h9")
    harness.say("ann pauses rollout other")
    harness.wait(60)
    assert harness.fleet.rollouts["k"].state is RolloutState.QUEUED
    assert harness.fleet.rollouts["k"].reason == "rollout other has host h9"


def test_a_rollout_that_rests_without_a_time_begins_at_once() -> None:
    """Nothing else would begin it."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    resting = replace(harness.fleet.rollouts["k"], state=RolloutState.RESTING, hosts=(), lasts=0.0)
    harness.fleet.evolve(RolloutStarted(resting))
    harness.advance()
    assert waves(harness) == [("h1",)]
    assert harness.fleet.rollouts["k"].lasts == 60


def test_each_run_of_a_rollout_that_recurs_has_its_canaries() -> None:
    """And waits for its beginning no more."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2 parallel=2 canary=1")
    resting = replace(harness.fleet.rollouts["k"], state=RolloutState.RESTING, hosts=(), canaries=0, begins_at=NOON)
    harness.fleet.evolve(RolloutStarted(resting))
    harness.advance()
    assert waves(harness) == [("h1",)]
    assert harness.fleet.rollouts["k"].begins_at is None


def test_a_rollout_is_late_once() -> None:
    """When the latest time that was predicted has passed."""
    harness = RolloutHarness(WEB)
    command = harness.read("ann rolls out k: reboot hosts=h1")
    latest = NOON + timedelta(seconds=100)
    assert isinstance(command, StartRollout)
    harness.give(replace(command, prediction=RolloutPrediction(NOON, 1, latest, latest, latest)))
    is_late = []
    for seconds in (99, 1, 1):
        harness.wait(seconds)
        is_late.append(harness.fleet.rollouts["k"].is_late)
    assert is_late == [False, True, True]
    (late,) = (fact for fact in harness.facts if isinstance(fact, RolloutLate))
    assert late.expected == latest


def test_a_rollout_that_recurs_begins_with_the_windows_of_the_fleet() -> None:
    """They are part of its beginning, and no change follows."""
    rules = Rules(maintenance_windows=("00:00-24:00",))
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 every=86400", rules=rules)
    while len([fact for fact in harness.facts if isinstance(fact, RolloutStarted)]) < 2:
        harness.finish("k", most=1)
    assert [fact for fact in harness.facts if isinstance(fact, RolloutEdited)] == []


def test_a_window_that_closes_uses_up_nothing_of_what_a_group_may_postpone() -> None:
    """The postponement has no seconds of its own."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3 windows=12:00-13:00 expected=600")
    harness.advance()
    harness.say("ann freezes web-0")
    harness.say("ann approves E2")
    harness.wait(3_100)
    (postponed,) = (fact for fact in harness.facts if isinstance(fact, Postponed))
    assert (postponed.seconds, postponed.not_before) == (0, NOON + timedelta(days=1))


def test_a_recurring_rollout_that_is_canceled_does_not_come_back() -> None:
    """Whether hosts were in a wave or not."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 every=86400")
    harness.advance()
    harness.say("ann cancels rollout k")
    harness.advance()
    assert (ended(harness).result, harness.fleet.rollouts) == (RolloutResult.CANCELED, {})


def test_the_windows_of_the_fleet_hold_up_a_rollout_that_has_none() -> None:
    """Its events are announced for them."""
    rules = Rules(maintenance_windows=("18:00-20:00",))
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h3", rules=rules)
    harness.advance()
    assert harness.fleet.rollouts["k"].blocked_until == NOON + timedelta(hours=6, minutes=-15)


def test_a_rollout_that_stopped_counts_the_hosts_that_never_began() -> None:
    """Beside those that are done, failed or skipped."""
    harness = RolloutHarness(f"{WEB}; host h4; host h0", "ann rolls out k: reboot all_hosts=true on_failure=stop")
    harness.say("ann skips h4 of rollout k")
    harness.finish("k", failing=("h1",))
    end = ended(harness)
    assert (end.done, end.failed, end.skipped, end.waiting) == (1, 1, 1, 2)


def test_what_a_gate_says_while_its_wave_is_held_back_does_not_count() -> None:
    """Also where it is held back by the same limit as before."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 fleet_share=0.34 gate=http://h/")
    harness.say("ann cordons host h3")
    harness.advance()
    harness.say("rollout k finds wave 1 well: answered 200")
    assert harness.fleet.rollouts["k"].checked == 1
    harness.advance()
    assert harness.fleet.rollouts["k"].checked == 0


def test_a_failure_does_not_change_how_a_canceled_rollout_ends() -> None:
    """Also where failures stop it."""
    harness = RolloutHarness(EMPTY, "ann rolls out k: command hosts=h9 command=update on_failure=stop")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    harness.say("ann cancels rollout k")
    harness.say("the command on h9 of rollout k ends with 3")
    harness.advance()
    assert ended(harness).result is RolloutResult.CANCELED
