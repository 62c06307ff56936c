"""What a plan tells: waves, prediction, slow groups, and everything that cannot be done."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.errors import PlanOutdated, Refused
from forewarn.core.notice import Rules
from forewarn.core.rollouts.model import RecordedLength, RolloutOperation, RolloutTerms
from forewarn.core.rollouts.planning import RolloutPlan, check_saved, make_plan
from forewarn.core.rollouts.prediction import HOST_COMMAND, Experience, Spread
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

TERMS = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
KNOWN = Experience({}, {"host reboot": Spread(20, 30, 60)})


def plan(harness: RolloutHarness, experience: Experience = KNOWN, **given: object) -> RolloutPlan:
    return make_plan(harness.fleet, "k", replace(TERMS, **given), NOON, Rules(), experience, runs_commands=False)


def test_waves_are_laid_one_after_another() -> None:
    """Without approvals each takes the notice and the impact."""
    found = plan(RolloutHarness(WEB), parallel=2, settle=60)
    assert [wave.hosts for wave in found.waves] == [("h1", "h2"), ("h3",)]
    # The events of web and db on both hosts take turns.
    assert found.waves[0].ends_at - NOON == timedelta(minutes=15, seconds=30 + 30 + 60)
    assert found.prediction is not None
    assert found.prediction.finish == found.waves[-1].ends_at
    assert found.prediction.earliest < found.prediction.finish < found.prediction.latest


def test_recorded_approvals_shorten_the_prediction() -> None:
    """A group that approves after a minute is not expected to wait for the whole notice."""
    quick = Spread(30, 60, 120)
    known = Experience({"web": quick, "db": quick}, KNOWN.impacts)
    found = plan(RolloutHarness(WEB), known, hosts=("h1",), all_hosts=False)
    assert found.waves[0].ends_at - NOON == timedelta(seconds=90)


def test_the_slowest_groups_are_named_with_the_reason() -> None:
    """The one that never approved, where the other does."""
    known = Experience({"web": Spread(1, 1, 1)}, KNOWN.impacts)
    found = plan(RolloutHarness(WEB), known, hosts=("h1",), all_hosts=False)
    assert (found.slowest[0].group, "whole notice" in found.slowest[0].reason) == ("db", True)


def test_quiet_hours_delay_the_prediction() -> None:
    """And are named as the reason."""
    harness = RolloutHarness(WEB, "ann sets web quiet_hours=12:00-18:00")
    found = plan(harness, hosts=("h3",), all_hosts=False)
    assert found.waves[0].ends_at - NOON == timedelta(hours=6, seconds=30)
    assert found.slowest[0].reason == "it waits for the end of its quiet hours"


def test_a_group_that_is_quiet_whenever_a_window_is_open_is_a_problem() -> None:
    """Nothing would ever start."""
    harness = RolloutHarness(WEB, "ann sets web quiet_hours=00:00-12:00")
    found = plan(harness, windows=("02:00-06:00",))
    assert "group web has quiet hours (00:00-12:00) whenever a maintenance window is open" in found.problems[0]


def test_all_hosts_that_break_a_limit_alone_are_named() -> None:
    """With the VMs to move; a group whose VMs are all on one host."""
    harness = RolloutHarness(
        "ann declares: host h1; host h2; group web availability-set; vm a in web on h1; vm b in web on h1"
    )
    found = plan(harness, group_share=0.5)
    (problem,) = found.problems
    assert problem == (
        "host h1 alone has 2 of the 2 running VMs of group web, and only 1 may be unavailable at once; "
        "move 1 of a, b to other hosts, or allow a larger --group-share"
    )


def test_a_share_of_less_than_one_vm_is_named_once_for_each_group() -> None:
    """To move VMs would not help; the least share that would is named."""
    (first, second) = plan(RolloutHarness(WEB), group_share=0.3).problems
    for problem, group, running, least in ((first, "db", 2, "50%"), (second, "web", 3, "34%")):
        assert problem == (
            f"a share of 30% of the {running} running VMs of group {group} is less than one VM, so that no host with "
            f"one of them could ever be maintained; give --group-share {least} or more"
        )


def test_vms_of_several_domains_on_one_host_are_noted() -> None:
    """Their events are separated in time."""
    harness = RolloutHarness(
        "ann declares: host h1; group web availability-set; vm a in web on h1; vm b in web on h1 ud=1"
    )
    assert plan(harness).notes == ("the VMs of group web on h1 are of 2 domains, and take turns",)
    assert plan(RolloutHarness(WEB)).notes == ()


def test_a_saved_plan_is_good_while_its_waves_are_the_same() -> None:
    """A VM that came does not change them; a host that failed does."""
    harness = RolloutHarness(WEB)
    saved = plan(harness)
    harness.say("ann declares: vm web-9 in web on h1")
    check_saved(saved, plan(harness))
    harness.say("ann fails host h2")
    with pytest.raises(PlanOutdated, match="wave 2 was h2, and would be h3 now"):
        check_saved(saved, plan(harness))


def test_a_saved_plan_is_refused_when_something_cannot_be_done_any_more() -> None:
    """The reason is that of the new plan."""
    harness = RolloutHarness(WEB)
    saved = plan(harness, group_share=0.5)
    harness.say("ann records web-1 on h3")
    with pytest.raises(Refused, match="host h3 alone has 2 of the 3 running VMs"):
        check_saved(saved, plan(harness, group_share=0.5))


def test_a_drain_of_all_hosts_has_nowhere_to_go() -> None:
    """Drained hosts stay cordoned; one that is left out can take their VMs."""
    harness = RolloutHarness(WEB)
    assert "nowhere to go" in plan(harness, operation=RolloutOperation.DRAIN).problems[0]
    assert plan(harness, operation=RolloutOperation.DRAIN, all_hosts=False, hosts=("h1", "h2")).problems == ()


def test_drained_hosts_count_against_the_share_of_the_fleet() -> None:
    """They stay cordoned until somebody ends that."""
    terms = replace(TERMS, operation=RolloutOperation.DRAIN, all_hosts=False, fleet_share=0.5)

    def problems(*hosts: str) -> tuple[str, ...]:
        whole = RolloutHarness(WEB).fleet
        return make_plan(whole, "k", replace(terms, hosts=hosts), NOON, Rules(), KNOWN, runs_commands=False).problems

    assert "drained hosts stay cordoned: 2 of 3" in problems("h1", "h2")[0]
    assert problems("h1") == ()


def test_a_command_on_a_host_without_vms_takes_its_time() -> None:
    """And a rollout over such hosts is not late at once."""
    harness = RolloutHarness(f"{WEB}; host h9")
    known = Experience({}, {HOST_COMMAND: Spread(20, 30, 60)})
    terms = replace(TERMS, operation=RolloutOperation.COMMAND, command="update", all_hosts=False, hosts=("h9",))
    found = make_plan(harness.fleet, "k", terms, NOON, Rules(), known, runs_commands=True)
    assert found.waves[0].ends_at == NOON + timedelta(seconds=30)
    empty = plan(harness, all_hosts=False, hosts=("h9",)).prediction
    assert empty is not None
    assert empty.latest > NOON


def test_a_window_must_be_as_long_as_hosts_took_earlier() -> None:
    """Unless it is stated how long one takes."""
    harness = RolloutHarness(WEB)
    known = Experience({}, {"host reboot": Spread(600, 1_200, 2_400)})
    short = {"windows": ("02:00-02:30",)}
    assert "no window is long enough: one host takes about 40 min" in plan(harness, known, **short).problems[0]
    assert plan(harness, known, **short, expected=600).problems == ()
    assert plan(harness, known).recorded == RecordedLength(2_400)
    drained = Experience({}, {"host drain": Spread(1, 2, 30), HOST_COMMAND: Spread(1, 2, 60)})
    assert drained.length_of(RolloutOperation.COMMAND) == RecordedLength(90, 60)
