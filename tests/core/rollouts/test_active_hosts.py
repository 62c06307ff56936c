"""The hosts of the wave under way: their next steps, their limits, and when they fail."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.commands import ImpactResult, ReportImpact
from forewarn.core.facts import Canceled, FleetChanged, Postponed, Started, Waiting
from forewarn.core.model import NODE, EventStatus
from forewarn.core.notice import Rules
from forewarn.core.rollouts.active_hosts import limit_of
from forewarn.core.rollouts.advance import wake_at
from forewarn.core.rollouts.commands import AdvanceRollout, DrainRolloutHost
from forewarn.core.rollouts.facts import RolloutEnded, RolloutHostChanged
from forewarn.core.rollouts.model import HostStep, RolloutState
from forewarn.core.turns import earliest_start
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness, reloaded

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
    harness._rules = Rules().hurried(60)
    harness.wait(901)
    assert harness.run("h1").failure == "it took longer than 1 s"


@pytest.mark.parametrize(
    ("terms", "sentences", "step"),
    [
        ("reboot hosts=h9 asks=test", (), HostStep.ASKING),
        ("drain hosts=h9", (), HostStep.PLANNING),
        ("command hosts=h9 command=update", ("rollout k drains h9", "rollout k goes on"), HostStep.COMMAND),
    ],
)
def test_a_host_without_events_has_its_limit_from_the_beginning_of_its_wave_on(
    terms: str, sentences: tuple[str, ...], step: HostStep
) -> None:
    """While it is asked, while its drain is planned, and while its command runs."""
    harness = rolling_out(f"{terms} host_limit=60", fleet=EMPTY)
    for sentence in sentences:
        harness.say(sentence)
    assert harness.run("h9").step is step
    harness.wait(59)
    assert harness.run("h9").step is step
    harness.wait(1)
    assert (harness.run("h9").step, harness.run("h9").reason) == (HostStep.FAILED, "it took longer than 60 s")
    assert harness.rollout.state is RolloutState.PAUSED


def test_a_drained_host_keeps_its_limit_when_its_events_have_ended() -> None:
    """It counts from their earliest NotBefore, also while the command runs; a result after it changes nothing."""
    harness = rolling_out("command hosts=h3 command=update host_limit=60")
    harness.say("rollout k drains h3")
    harness.say("web-2 approves E1")
    harness.wait(10)
    harness.perform()
    assert harness.run("h3").step is HostStep.COMMAND
    limit = NOON + timedelta(minutes=10, seconds=60)
    assert limit_of(harness.fleet, harness.rollout, harness.run("h3"), Rules()) == limit
    assert wake_at(harness.fleet, harness.rollout, harness.now, Rules()) == limit
    harness.wait((limit - harness.now).total_seconds())
    assert (harness.run("h3").step, harness.run("h3").is_cordoned) == (HostStep.FAILED, True)
    harness.say("the command on h3 of rollout k ends with 0")
    assert harness.run("h3").step is HostStep.FAILED
    assert reloaded(harness.fleet).rollout_hosts == harness.fleet.rollout_hosts


@pytest.mark.parametrize("operation", ["drain", "command command=update"])
def test_a_drained_host_that_waits_for_vms_that_may_arrive_keeps_its_limit(operation: str) -> None:
    """They may never come."""
    harness = RolloutHarness(EMPTY, "ann redeploys web-0")
    harness.wait(1_000)
    name, *rest = operation.split()
    harness.say(" ".join((f"ann rolls out k: {name} hosts=h9 host_limit=60", *rest)))
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    assert harness.rollout.blocked.startswith("host h9 waits for event ")
    harness.wait(60)
    assert harness.run("h9").step is HostStep.FAILED


def test_a_drained_host_that_is_done_has_no_limit_any_more() -> None:
    """A round that comes late does not fail it; nor while it settles."""
    harness = rolling_out("drain hosts=h3 host_limit=60 settle=600")
    harness.say("rollout k drains h3")
    harness.wait(610)
    (event,) = harness.fleet.events.values()
    report = ReportImpact(
        id=harness.new_id(), by=NODE, event=event.id, result=ImpactResult.DONE, hosts={"web-2": "h1"}
    )
    harness.give(report)
    harness.now += timedelta(seconds=60)
    harness.advance()
    assert harness.run("h3").step is HostStep.SETTLING
    assert limit_of(harness.fleet, harness.rollout, harness.run("h3"), Rules()) is None


def test_a_limit_counts_from_the_window_in_which_a_command_may_begin() -> None:
    """A host without VMs is drained at once, and its window opens later."""
    harness = rolling_out(f"command hosts=h9 command=update host_limit=60 {LATER}", fleet=EMPTY)
    harness.say("rollout k drains h9")
    limit = NOON + timedelta(hours=1, seconds=60)
    assert limit_of(harness.fleet, harness.rollout, harness.run("h9"), Rules()) == limit


def test_a_host_that_fails_already_has_no_limit() -> None:
    """It fails once its Started events have ended."""
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


@pytest.mark.parametrize("at_close", ["postpone", "withdraw"])
@pytest.mark.parametrize("windows", ["20:00-21:00", "12:00-12:05"])
def test_an_event_is_withdrawn_where_no_window_opens_any_more_for_long_enough(windows: str, at_close: str) -> None:
    """The windows of the fleet have changed; an approval does not start it, and it is announced anew later."""
    harness = rolling_out(f"reboot hosts=h3 windows=12:00-13:00 expected=600 at_close={at_close}")
    harness._rules = Rules(maintenance_windows=(windows,))
    harness._round("k")
    harness.say("web-2 approves E1")
    assert [event.status for event in harness.fleet.events.values()] == [EventStatus.SCHEDULED]
    assert earliest_start(harness.fleet, harness.fleet.events[harness.id("E1")], harness.now) is None
    harness.advance()
    assert (harness.fleet.events, harness.fleet.rollout_hosts, harness.rollout.active) == ({}, {}, ())
    assert harness.rollout.blocked == "no maintenance window opens that is long enough; edit the windows"
    assert (harness.said(Postponed), harness.said(Waiting), harness.said(Started)) == ([], [], [])
    (waits,) = (fact for fact in harness.said(RolloutHostChanged) if fact.step is HostStep.WAITING)
    assert waits.reason == "no maintenance window opens any more that is long enough for rollout k"
    harness._rules = Rules()
    harness.advance()
    assert harness.hosts_with_events() == {"h3"}


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ("drain hosts=h3", "rollout k drains h3"),
        ("reboot hosts=h3 asks=test", "h3 of rollout k answers with 0"),
    ],
)
def test_nothing_is_announced_where_no_window_opens_any_more(terms: str, sentence: str) -> None:
    """The host was being planned or asked when the windows of the fleet changed; it waits again."""
    harness = rolling_out(f"{terms} windows=12:00-13:00")
    harness._rules = Rules(maintenance_windows=("20:00-21:00",))
    harness._round("k")
    harness.say(sentence)
    assert (harness.fleet.events, harness.fleet.rollout_hosts, harness.fleet.cordoned) == ({}, {}, {})


def test_an_event_of_a_paused_rollout_does_not_start_outside_changed_windows() -> None:
    """Nor after it is resumed: it was withdrawn."""
    harness = rolling_out("reboot hosts=h3 windows=13:00-14:00 lead=10800")
    harness.say("ann pauses rollout k")
    harness._rules = Rules(maintenance_windows=("20:00-21:00",))
    harness.advance()
    harness.say("ann resumes rollout k")
    harness.advance()
    assert harness.fleet.events == {}
    assert harness.said(Started) == []


def test_an_approved_event_starts_when_changed_windows_let_it() -> None:
    """It does not wait for a window that is no longer needed."""
    harness = rolling_out("reboot hosts=h3 windows=13:00-14:00 lead=10800")
    harness.say("web-2 approves E1")
    assert harness.said(Started) == []
    harness.say("ann edits rollout k: windows=12:00-14:00")
    assert len(harness.said(Started)) == 1


def test_a_postponed_event_keeps_inside_the_windows() -> None:
    """Its new NotBefore is rounded up to the next window; one that lies inside stays."""
    fleet = WEB.replace("group web availability-set", "group web availability-set postpone_limit=90000")
    harness = rolling_out("reboot hosts=h3 windows=12:00-13:00", fleet=fleet)
    harness.say("web-2 postpones E1 by 60 s")
    assert harness.said(Postponed)[-1].not_before == NOON + timedelta(minutes=16)
    harness.say("web-2 postpones E1 by 72000 s")
    last = harness.said(Postponed)[-1]
    assert (last.not_before, last.seconds) == (NOON + timedelta(days=1), 72_000)


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
