"""What operators do to rollouts, and what is refused before anything is announced."""

from contextlib import nullcontext

import pytest
from msgspec.structs import replace

from forewarn.core.commands import SetMaintenance
from forewarn.core.errors import Refused, Unknown
from forewarn.core.facts import Announced
from forewarn.core.model import EventStatus
from forewarn.core.rollouts.checks import check_gate
from forewarn.core.rollouts.commands import StartRollout
from forewarn.core.rollouts.facts import RolloutEdited, RolloutEnded
from forewarn.core.rollouts.model import (
    HealthGate,
    HostStep,
    RecordedLength,
    RolloutOperation,
    RolloutPrediction,
    RolloutResult,
    RolloutState,
    RolloutTerms,
)
from tests.core.harness import ANN, NOON
from tests.core.rollouts.harness import WEB, RolloutHarness


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ("reboot", "no hosts are named; give --hosts"),
        ("reboot hosts=x*", r"no host matches 'x\*'"),
        ("reboot hosts=h9", "no host matches 'h9'; see 'forewarn host list'"),
        ("reboot hosts=h1 all_hosts=true", "leave one of them out"),
        ("reboot hosts=h1 parallel=0", "give --parallel 1 or more"),
        ("reboot hosts=h1 fleet_share=0.1", "less than one host.* give --fleet-share 34% or more"),
        (
            "reboot hosts=h1 group_share=0.3",
            "30% of the 2 running VMs of group db is less than one VM.* --group-share 50%",
        ),
        ("reboot hosts=h1 windows=Satday", "maintenance window 'Satday' cannot be read"),
        ("reboot hosts=h1 windows=Sat_02:00-02:01 expected=600", "no window is long enough"),
        ("reboot hosts=h1 gate=ftp://x", "is no web address; write it like http://HOST/health"),
        ("reboot hosts=h1 alerts=Down", "give it: --prometheus"),
        ("reboot hosts=h1 parallel_per=rack:1", "no host of the rollout has a label 'rack'"),
        ("reboot hosts=h1 command=update", "the operation command and --command TEXT go together"),
        ("reboot hosts=h1 canary_hosts=h2", "canary h2 is not among the hosts"),
        ("reboot hosts=h1 order=label", "needs the label: --order label:KEY"),
        ("reboot hosts=h1 max_failures=1 on_failure=skip", "leave max_failures out"),
        ("reboot hosts=h1 gate=http:///health", "is no web address; write it like http://HOST/health"),
        ("reboot hosts=h1 fleet_share=1.01", "fleet_share must be above 0% and at most 100%"),
        ("reboot hosts=h1 settle=31622401", "settle must be from 0 to 31622400 s"),
        ("reboot hosts=h1 gate=http://[::1", "is no web address"),
        ("reboot hosts=h1 parallel=99999999999999999999", "must be at most 1000000"),
        ("reboot hosts=h1 canary=99999999999999999999", "must be at most 1000000"),
        ("reboot hosts=h1 max_failures=99999999999999999999", "must be at most 1000000"),
        ("reboot hosts=h1 parallel_per=fault-domain:99999999999999999999", "must be at most 1000000"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_remedy(terms: str, words: str) -> None:
    """Before anything is announced."""
    harness = RolloutHarness(WEB)
    with pytest.raises(Refused, match=words):
        harness.say(f"ann rolls out k: {terms}")
    assert harness.fleet.rollouts == {}


def test_a_command_is_refused_where_the_driver_cannot_run_it() -> None:
    """The refusal names the setting."""
    harness = RolloutHarness(WEB)
    command = harness.read("ann rolls out k: command hosts=h1 command=update")
    with pytest.raises(Refused, match="set host_program"):
        harness.give(type(command)(id=command.id, by=command.by, name="k", terms=command.terms))  # type: ignore[attr-defined,call-arg]


def test_the_same_rollout_twice_names_the_running_one() -> None:
    """By who started it, and when."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    with pytest.raises(Refused, match="rollout k is running already, started by ann at 2024"):
        harness.say("ann rolls out k: reboot hosts=h1")


def test_two_rollouts_that_share_a_host_are_refused() -> None:
    """The refusal names both and the way out."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1,h2")
    with pytest.raises(Refused, match=r"rollout k has host h2.*--on-conflict queue"):
        harness.say("ann rolls out other: freeze hosts=h2,h3")


def test_a_queued_rollout_begins_when_the_other_has_ended() -> None:
    """Nothing of it is announced before."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    harness.say("ann rolls out other: freeze hosts=h1 on_conflict=queue")
    harness.advance()
    assert harness.fleet.rollouts["other"].state is RolloutState.QUEUED
    harness.finish("k")
    harness.finish("other")
    ends = [fact.rollout for fact in harness.facts if isinstance(fact, RolloutEnded)]
    assert ends == ["k", "other"]
    operations = [fact.event.operation.verb for fact in harness.facts if isinstance(fact, Announced)]
    assert operations == ["reboot", "reboot", "freeze", "freeze"]


def test_a_pause_keeps_what_is_scheduled() -> None:
    """It happens; nothing more is announced."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.advance()
    harness.say("ann pauses rollout k")
    harness.finish("k")
    assert harness.fleet.rollouts["k"].done == 1
    assert harness.fleet.events == {}


def test_a_pause_can_withdraw_what_is_scheduled() -> None:
    """The host waits again, and is announced anew after the pause."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.advance()
    harness.say("ann pauses rollout k withdrawing")
    assert harness.fleet.events == {}
    assert harness.fleet.rollouts["k"].position == 0
    harness.say("ann resumes rollout k")
    harness.finish("k")
    assert "k" not in harness.fleet.rollouts


def test_a_withdrawn_host_with_a_started_event_waits_for_its_end() -> None:
    """Started events finish; then the host waits for a wave again."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.say("ann pauses rollout k withdrawing")
    assert [event.status for event in harness.fleet.events.values()] == [EventStatus.STARTED]
    harness.perform()
    assert (harness.fleet.rollouts["k"].active, harness.fleet.rollout_hosts) == ((), {})


def test_cancel_withdraws_and_lets_started_events_finish() -> None:
    """The rollout ends with the last of them."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.say("ann cancels rollout k")
    harness.advance()
    assert harness.fleet.rollouts["k"].state is RolloutState.STOPPING
    harness.perform()
    end = next(fact for fact in harness.facts if isinstance(fact, RolloutEnded))
    assert (end.result, end.skipped, end.waiting) == (RolloutResult.CANCELED, 1, 2)


def test_a_skipped_host_is_left_out() -> None:
    """Also one whose events are Scheduled; these are withdrawn."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.advance()
    harness.say("ann skips h1 of rollout k")
    harness.say("ann skips h3 of rollout k")
    harness.finish("k")
    end = next(fact for fact in harness.facts if isinstance(fact, RolloutEnded))
    assert (end.done, end.skipped) == (1, 2)


def test_a_skipped_host_is_retried_if_it_is_named() -> None:
    """Without names only those are that failed; the refusal says so."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    with pytest.raises(Refused, match=r"no host of rollout k has failed; there is nothing to retry$"):
        harness.say("ann retries rollout k")
    harness.say("ann skips h3 of rollout k")
    with pytest.raises(Refused, match=r"there is nothing to retry; a skipped one is retried if you name it$"):
        harness.say("ann retries rollout k")
    harness.say("ann retries rollout k h3")
    assert harness.fleet.rollouts["k"].skipped == 0


def test_a_rollout_that_has_ended_cannot_be_steered() -> None:
    """The refusal says where it is shown."""
    harness = RolloutHarness(WEB, "ann rolls out kernel: reboot all_hosts=true")
    with pytest.raises(Unknown, match=r"rollout 'kernl'; did you mean 'kernel.\?; .* list --all' shows"):
        harness.say("ann pauses rollout kernl")


def test_a_retried_host_begins_again() -> None:
    """It counts as failed no longer."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.finish("k", failing=("h1",))
    harness.say("ann retries rollout k")
    harness.say("ann resumes rollout k")
    harness.finish("k")
    end = next(fact for fact in harness.facts if isinstance(fact, RolloutEnded))
    assert (end.done, end.failed) == (3, 0)


def test_an_edit_counts_from_the_next_wave() -> None:
    """The operation and the hosts cannot be edited."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true")
    harness.advance()
    (edited,) = harness.say("ann edits rollout k: parallel=2")
    assert isinstance(edited, RolloutEdited)
    assert edited.reason == "parallel changed by ann"
    harness.finish("k", most=2)
    assert len(harness.fleet.rollouts["k"].active) <= 2
    with pytest.raises(Refused, match="cancel it, and start another"):
        harness.say("ann edits rollout k: operation=freeze")


def test_the_turn_rule_holds_between_rollouts() -> None:
    """Two rollouts on different hosts never have events of one group Started together."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1", "ann rolls out other: reboot hosts=h2")
    harness.advance()
    harness.wait(1_000)
    started = [event for event in harness.fleet.events.values() if event.status is EventStatus.STARTED]
    assert sorted(event.group for event in started) == ["db", "web"]
    assert step_of(harness, "k/h1") is HostStep.ANNOUNCED


def step_of(harness: RolloutHarness, key: str) -> HostStep:
    return harness.fleet.rollout_hosts[key].step


def test_the_name_of_an_address_is_refused() -> None:
    """A rollout named plan could not be steered through the API."""
    with pytest.raises(Refused, match="choose another name"):
        RolloutHarness(WEB).say("ann rolls out plan: reboot hosts=h1")


def test_an_edit_that_would_change_nothing_is_refused() -> None:
    """The order of hosts is fixed; for a rollout that recurs, only until its next run."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1", "ann rolls out r: reboot hosts=h2 every=86400")
    for change in ("canary=1", "order=fewest-vms"):
        with pytest.raises(Refused, match="fixed when a rollout starts"):
            harness.say(f"ann edits rollout k: {change}")
        harness.say(f"ann edits rollout r: {change}")


def test_a_rollout_can_be_edited_after_one_of_its_hosts_was_removed() -> None:
    """Also a limit per label."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h1,h9")
    harness.say("ann declares: no host h9")
    harness.say("ann edits rollout k: parallel_per=fault-domain:1")
    with pytest.raises(Refused, match="no host of the rollout has a label 'rack'"):
        harness.say("ann edits rollout k: parallel_per=rack:1")
    assert harness.fleet.rollouts["k"].terms.parallel_per == {"fault-domain": 1}


def test_a_gate_without_a_program_is_refused() -> None:
    """Spaces are no name."""
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True, gate=HealthGate(command=" "))
    with pytest.raises(Refused, match="give exactly one of them"):
        check_gate(terms)


@pytest.mark.parametrize("terms", ["fleet_share=1", "settle=31622400", "parallel_per=fault-domain:1"])
def test_the_largest_values_and_the_limit_that_needs_no_label_are_accepted(terms: str) -> None:
    """The whole fleet, 366 days; every host has fault domains."""
    assert "k" in RolloutHarness(WEB, f"ann rolls out k: reboot hosts=h1 {terms}").fleet.rollouts


@pytest.mark.parametrize(("seconds", "is_refused"), [(0, True), (1, False), (3600, False), (3601, True)])
def test_a_gate_may_take_an_hour(seconds: int, is_refused: bool) -> None:  # noqa: FBT001
    """And at least a second."""
    harness = RolloutHarness(WEB)
    command = harness.read("ann rolls out k: reboot hosts=h1 gate=http://h/")
    assert isinstance(command, StartRollout)
    assert command.terms.gate is not None
    terms = replace(command.terms, gate=replace(command.terms.gate, timeout=seconds))
    with pytest.raises(Refused, match="timeout") if is_refused else nullcontext():
        harness.give(replace(command, terms=terms))


def test_a_host_of_no_rollout_cannot_be_skipped() -> None:
    """A name that is mistyped changes nothing."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    with pytest.raises(Refused, match="no host in rollout k named 'h2'"):
        harness.say("ann skips h2 of rollout k")


def test_an_edit_that_cannot_be_done_is_refused() -> None:
    """As at the start."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    with pytest.raises(Refused, match="give --parallel 1 or more"):
        harness.say("ann edits rollout k: parallel=0")


def test_an_edit_lets_a_rollout_that_waits_try_again() -> None:
    """It does not wait until the old window opens."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 windows=18:00-20:00")
    harness.advance()
    before = harness.fleet.rollouts["k"]
    harness.say("ann edits rollout k: windows=12:00-20:00")
    after = harness.fleet.rollouts["k"]
    assert (bool(before.blocked), bool(before.blocked_until)) == (True, True)
    assert (after.blocked, after.blocked_until) == ("", None)
    harness.advance()
    assert harness.hosts_with_events() == {"h1"}


def test_what_is_recorded_of_hosts_decides_what_fits_a_window() -> None:
    """Also after an edit of something else, and for the command by itself."""
    harness = RolloutHarness(WEB)
    command = harness.read("ann rolls out k: command hosts=h1 command=update windows=12:00-18:00")
    assert isinstance(command, StartRollout)
    harness.give(replace(command, recorded=RecordedLength(3_000, 600)))
    harness.say("ann edits rollout k: parallel=2")
    assert (harness.fleet.rollouts["k"].lasts, harness.fleet.rollouts["k"].command_lasts) == (3_000, 600)
    harness.say("ann edits rollout k: expected=700")
    assert harness.fleet.rollouts["k"].lasts == 700


def give(harness: RolloutHarness, sentence: str, **given: object) -> None:
    harness.give(replace(harness.read(sentence), **given))


def test_a_window_must_be_as_long_as_hosts_took_earlier() -> None:
    """At the start, and where windows or the expected time are edited."""
    harness = RolloutHarness(WEB)
    too_long = RecordedLength(7_200)
    with pytest.raises(Refused, match="no window is long enough"):
        give(harness, "ann rolls out k: reboot hosts=h1 windows=12:00-13:00", recorded=too_long)
    give(harness, "ann rolls out k: reboot hosts=h1 windows=12:00-18:00", recorded=too_long)
    with pytest.raises(Refused, match="no window is long enough"):
        harness.say("ann edits rollout k: windows=12:00-13:00")


def test_a_host_is_taken_to_need_a_minute_when_its_expected_time_is_taken_back() -> None:
    """What was stated is not what was recorded."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 expected=700", "ann edits rollout k: expected=0")
    assert harness.rollout.lasts == 60


@pytest.mark.parametrize(
    ("started", "change"),
    [
        ("reboot hosts=h1", "operation=freeze"),
        ("reboot hosts=h1", "hosts=h1,h2"),
        ("reboot hosts=h*", "selector=rack"),
        ("reboot all_hosts=true", "all_hosts=false"),
        ("command hosts=h1 command=update", "command=upgrade"),
    ],
)
def test_what_a_rollout_is_cannot_be_edited(started: str, change: str) -> None:
    """Its operation, its hosts, its command."""
    harness = RolloutHarness(WEB, f"ann rolls out k: {started}")
    with pytest.raises(Refused, match=f"{change.partition('=')[0]} of a rollout cannot be changed"):
        harness.say(f"ann edits rollout k: {change}")


@pytest.mark.parametrize("change", ["canary=1", "canary_hosts=h1", "order=fewest-vms", "order_label=rack"])
def test_the_order_of_hosts_cannot_be_edited_after_the_start(change: str) -> None:
    """It was fixed then."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    with pytest.raises(Refused, match=f"so {change.partition('=')[0]} would change nothing"):
        harness.say(f"ann edits rollout k: {change}")


def resting() -> RolloutHarness:
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h9 every=86400")
    harness.advance()
    assert harness.rollout.state is RolloutState.RESTING
    return harness


def test_a_rollout_that_rests_is_edited_by_the_hosts_that_match_now() -> None:
    """It has none until its next run."""
    harness = resting()
    harness.say("ann edits rollout k: settle=5")
    assert harness.rollout.terms.settle == 5
    with pytest.raises(Refused, match="no host of the rollout has a label 'rack'"):
        harness.say("ann edits rollout k: parallel_per=rack:1")


def test_an_edit_that_says_the_same_records_nothing() -> None:
    """History shows changes only."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1 settle=5")
    assert harness.say("ann edits rollout k: settle=5") == ()


def test_a_queued_rollout_says_for_which_it_waits() -> None:
    """As the first of its facts."""
    harness = RolloutHarness(WEB, "ann rolls out other: reboot hosts=h1")
    harness.say("ann rolls out k: reboot hosts=h1 on_conflict=queue")
    assert (harness.rollout.state, harness.rollout.reason) == (RolloutState.QUEUED, "rollout other has host h1")


def test_a_pause_puts_hosts_back_that_are_not_announced() -> None:
    """Also one that does not withdraw: while it is paused nothing is announced."""
    for terms in ("reboot hosts=h1 asks=test", "drain hosts=h1"):
        harness = RolloutHarness(WEB, f"ann rolls out k: {terms}")
        harness.advance()
        harness.say("ann pauses rollout k")
        assert (harness.rollout.active, harness.rollout.position) == ((), 0)


def test_a_pause_that_withdraws_leaves_hosts_that_settle() -> None:
    """Nothing is left to be withdrawn there; a second pause can withdraw what the first did not."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h1,h9 parallel=2 settle=5")
    harness.advance()
    harness.say("ann pauses rollout k")
    before = harness.rollout.active
    harness.say("ann pauses rollout k withdrawing")
    assert (before, harness.rollout.active) == (("h1", "h9"), ("h9",))
    assert step_of(harness, "k/h9") is HostStep.SETTLING


def test_only_a_rollout_under_way_can_be_paused_and_resumed() -> None:
    """One that rests, is queued or stops announces nothing anyway; one that runs needs no resuming."""
    harness = resting()
    with pytest.raises(Refused, match="rollout k is resting; only a running one can be paused"):
        harness.say("ann pauses rollout k")
    with pytest.raises(Refused, match="rollout k is resting, and not paused"):
        harness.say("ann resumes rollout k")
    running = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    assert running.say("ann resumes rollout k") == ()


def test_a_rollout_without_a_wave_is_canceled_at_once() -> None:
    """One that rests, and one that is queued; all its hosts are counted as not begun."""
    ends = []
    queued = RolloutHarness(WEB, "ann rolls out other: reboot hosts=h1")
    queued.say("ann rolls out k: reboot hosts=h1,h2 on_conflict=queue")
    for harness in (resting(), queued):
        harness.say("ann cancels rollout k")
        ends.append(harness.said(RolloutEnded)[-1])
        assert "k" not in harness.fleet.rollouts
    assert [(end.result, end.reason, end.waiting) for end in ends] == [
        (RolloutResult.CANCELED, "canceled by ann", 0),
        (RolloutResult.CANCELED, "canceled by ann", 2),
    ]


def test_a_second_cancel_changes_nothing() -> None:
    """The rollout ends when its Started events have."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    harness.advance()
    harness.say("web-0 approves E2")
    harness.say("ann cancels rollout k")
    assert harness.say("ann cancels rollout k") == ()


def test_only_failed_and_skipped_hosts_of_the_rollout_are_retried() -> None:
    """A mistyped name changes nothing, also beside others that could be."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h1,h2,h9", "ann skips h2 of rollout k")
    with pytest.raises(Refused, match="no host in rollout k named 'h3'"):
        harness.say("ann retries rollout k h2,h3")
    with pytest.raises(Refused, match="host h1 is waiting, and has not failed; leave it out"):
        harness.say("ann retries rollout k h2,h1")
    assert harness.rollout.skipped == 1


@pytest.mark.parametrize(("is_in_maintenance", "is_cordoned"), [(False, False), (True, True)])
def test_a_host_that_is_retried_is_uncordoned(is_in_maintenance: bool, is_cordoned: bool) -> None:  # noqa: FBT001
    """If the rollout cordoned it, and nobody works on it."""
    for before in ((), ("ann cordons host h9",)):
        harness = RolloutHarness(f"{WEB}; host h9", *before, "ann rolls out k: command hosts=h9 command=update")
        harness.advance()
        harness.say("rollout k drains h9")
        harness.advance()
        harness.say("the command on h9 of rollout k ends with 1")
        if is_in_maintenance:
            harness.give(SetMaintenance(id=harness.new_id(), by=ANN, host="h9", is_in_maintenance=True))
        harness.say("ann retries rollout k")
        assert ("h9" in harness.fleet.cordoned) == (is_cordoned or bool(before))


@pytest.mark.parametrize(
    ("terms", "said", "words"),
    [
        (
            "command hosts=h9 command=update",
            ("rollout k drains h9", "rollout k goes on"),
            "a command runs on host h9",
        ),
        ("reboot hosts=h1,h9 parallel=2", ("rollout k goes on",), "host h9 is done already"),
    ],
)
def test_a_host_cannot_be_skipped_while_its_command_runs_or_after_its_end(
    terms: str, said: tuple[str, ...], words: str
) -> None:
    """There is nothing left to be withdrawn."""
    harness = RolloutHarness(f"{WEB}; host h9", f"ann rolls out k: {terms}", "rollout k goes on")
    for sentence in said:
        harness.say(sentence)
    with pytest.raises(Refused, match=words):
        harness.say("ann skips h9 of rollout k")


def test_a_host_that_settles_is_done_when_it_is_skipped() -> None:
    """Its operation is over; and one that failed is skipped."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: reboot hosts=h1,h9 parallel=2 settle=60")
    harness.advance()
    harness.say("ann skips h9 of rollout k")
    assert (step_of(harness, "k/h9"), harness.rollout.done) == (HostStep.DONE, 1)
    harness.finish("k", failing=("h1",))
    assert harness.rollout.failed == 1
    harness.say("ann skips h1 of rollout k")
    assert (harness.rollout.failed, harness.rollout.skipped) == (0, 1)


def test_a_rollout_has_a_name_like_all_records() -> None:
    """A slash would be another address."""
    with pytest.raises(Refused):
        RolloutHarness(WEB).say("ann rolls out a/b: reboot hosts=h1")


def test_a_rollout_that_rests_can_be_given_another_order_for_its_last_run() -> None:
    """Its hosts are not chosen yet."""
    harness = resting()
    harness.say("ann edits rollout k: every=0 order=fewest-vms")
    assert harness.rollout.terms.every == 0


def test_the_end_of_a_rollout_that_never_began_has_its_prediction() -> None:
    """As every other end."""
    harness = RolloutHarness(WEB, "ann rolls out other: reboot hosts=h1")
    predicted = RolloutPrediction(NOON, 1, NOON, NOON, NOON)
    give(harness, "ann rolls out k: reboot hosts=h1 on_conflict=queue", prediction=predicted)
    harness.say("ann cancels rollout k")
    assert harness.said(RolloutEnded)[-1].prediction == predicted
