"""What a plan tells: waves, prediction, slow groups, and everything that cannot be done."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.errors import PlanOutdated, Refused
from forewarn.core.facts import FleetChanged, HostStateSet
from forewarn.core.model import Host, HostState
from forewarn.core.notice import Rules
from forewarn.core.rollouts.model import RecordedLength, RolloutOperation, RolloutTerms
from forewarn.core.rollouts.planning import PlannedWave, RolloutPlan, check_saved, make_plan
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


def test_a_host_that_is_left_out_is_no_problem_and_has_no_note() -> None:
    """Its group is quiet whenever a window is open, and is of two domains there."""
    harness = RolloutHarness(
        "ann declares: host h1; host h2; group web availability-set; group db availability-set;"
        " vm web-0 in web on h1 ud=0 fd=0; vm db-0 in db on h2 ud=0 fd=0; vm db-1 in db on h2 ud=1 fd=1",
        "ann sets db quiet_hours=00:00-12:00",
    )
    harness.fleet.evolve(HostStateSet("h2", HostState.MAINTENANCE, NOON))
    found = plan(harness, windows=("02:00-03:00",))
    assert (found.problems, found.notes) == ((), ())
    assert list(found.skipped) == ["h2"]


def test_a_name_that_no_rollout_can_have_is_a_problem() -> None:
    """A plan that was saved under it could not be started."""
    found = make_plan(RolloutHarness(WEB).fleet, "a b", TERMS, NOON, Rules(), KNOWN, runs_commands=False)
    assert found.problems[0].startswith("rollout 'a b' is not a valid name: use up to")


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


def test_a_rollout_that_runs_already_is_the_first_problem() -> None:
    """Beside all others."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot hosts=h1")
    first, second = plan(harness, parallel=0).problems
    assert first.startswith("rollout k is running already")
    assert second.startswith("at least one host")


def test_a_plan_for_guests_that_move_live_has_their_notice() -> None:
    """That of a freeze."""
    harness = RolloutHarness(WEB)
    terms = replace(TERMS, operation=RolloutOperation.REDEPLOY, all_hosts=False, hosts=("h3",))
    for live, minutes in {False: 10, True: 15}.items():
        found = make_plan(harness.fleet, "k", terms, NOON, Rules(), KNOWN, runs_commands=False, live=live)
        assert timedelta(minutes=minutes) < found.waves[0].ends_at - NOON < timedelta(minutes=minutes + 2)
    others = plan(harness, operation=RolloutOperation.REDEPLOY, all_hosts=False, hosts=("h3",))
    assert others.waves[0].ends_at - NOON < timedelta(minutes=12)


def test_hosts_that_are_left_out_are_named_with_the_reason() -> None:
    """Those that cannot take part, and those that limits hold back at present."""
    harness = RolloutHarness(WEB, "ann fails host h2")
    assert plan(harness).skipped == {"h2": "the host has failed"}
    assert [wave.hosts for wave in plan(harness).waves] == [("h1",), ("h3",)]
    cordoned = plan(RolloutHarness(WEB, "ann cordons host h3"), fleet_share=0.34)
    reason = (
        "1 of 3 hosts is unavailable, and 1 may be: h3 is cordoned; make them available with "
        "'forewarn host uncordon', or allow a larger --fleet-share"
    )
    assert cordoned.skipped == dict.fromkeys(("h1", "h2"), f"it would wait: {reason}")
    assert [wave.hosts for wave in cordoned.waves] == [("h3",)]
    assert cordoned.notes == (f"the prediction is without 2 hosts that would wait: {reason}",)


def test_a_rollout_of_which_no_host_can_begin_is_a_problem() -> None:
    """As long as unavailable hosts use up what may be unavailable; hosts that are left out are no remedy."""
    harness = RolloutHarness(WEB, "ann cordons host h2", "ann fails host h3")
    found = plan(harness, fleet_share=0.34, hosts=("h1", "h3"), all_hosts=False)
    assert (found.waves, found.prediction) == ((), None)
    (problem,) = found.problems
    assert problem == (
        "no host can begin at present: 2 of 3 hosts are unavailable, and 1 may be: h2 is cordoned, h3 has failed; "
        "make them available with 'forewarn host uncordon' and 'forewarn host repaired', "
        "or allow a larger --fleet-share"
    )


@pytest.mark.parametrize("terms", ["reboot hosts=h1", "command hosts=h1 command=update"])
def test_a_plan_looks_past_the_waves_of_other_rollouts(terms: str) -> None:
    """They end; that the prediction does not count them is noted."""
    harness = RolloutHarness(WEB, f"ann rolls out other: {terms}")
    harness.advance()
    if "command" in terms:
        harness.say("rollout other drains h1")
    found = plan(harness, fleet_share=0.34, hosts=("h2", "h3"), all_hosts=False)
    assert [wave.hosts for wave in found.waves] == [("h2",), ("h3",)]
    assert (found.problems, found.skipped) == ((), {})
    (note,) = found.notes
    assert note == (
        "the prediction does not count what must end first: 1 of 3 hosts is unavailable, and 1 may be: "
        "h1 is in a wave of rollout other"
    )


def test_a_plan_looks_past_events_that_end() -> None:
    """A VM that is restarted is available again when its event has ended."""
    harness = RolloutHarness(WEB, "ann restarts web-1")
    found = plan(harness, group_share=0.5, hosts=("h3",), all_hosts=False)
    assert [wave.hosts for wave in found.waves] == [("h3",)]
    assert found.notes[0].startswith("the prediction does not count what must end first: 1 VM of group web is")


def test_hosts_that_wait_behind_canaries_are_counted_once() -> None:
    """Canaries that can begin are not among them."""
    harness = RolloutHarness(f"{WEB}; host h4", "ann cordons host h1")
    found = plan(harness, canary_hosts=("h1",), fleet_share=0.25)
    assert [wave.hosts for wave in found.waves] == [("h1",)]
    assert list(found.skipped) == ["h2", "h3", "h4"]


def test_canaries_are_waves_of_their_own() -> None:
    """Before all others."""
    assert [wave.hosts for wave in plan(RolloutHarness(WEB), parallel=3, canary=1).waves] == [("h1",), ("h2", "h3")]


def test_each_host_is_in_one_wave() -> None:
    """Also where a later one was taken before it."""
    found = plan(RolloutHarness(WEB), parallel=2, parallel_per={"fault-domain": 1})
    assert [wave.hosts for wave in found.waves] == [("h1", "h2"), ("h3",)]
    harness = RolloutHarness(f"{WEB}; host h4; vm web-3 in web on h4 ud=3 fd=1")
    found = plan(harness, parallel=2, parallel_per={"fault-domain": 1}, all_hosts=False, hosts=("h1", "h3", "h4"))
    assert [wave.hosts for wave in found.waves] == [("h1", "h4"), ("h3",)]


def waves_of(*hosts: tuple[str, ...], problems: tuple[str, ...] = ()) -> RolloutPlan:
    waves = tuple(PlannedWave(each, NOON, NOON) for each in hosts)
    return RolloutPlan(name="k", terms=TERMS, waves=waves, problems=problems)


@pytest.mark.parametrize(
    ("saved", "present", "words"),
    [
        (waves_of(("h1",)), waves_of(("h1",), ("h2",)), "wave 2 was nothing, and would be h2 now"),
        (waves_of(("h1",), ("h2",)), waves_of(("h1",)), "wave 2 was h2, and would be nothing now"),
        (waves_of(("h1",), ("h2",)), waves_of(("h2",), ("h1",)), "wave 1 was h1, and would be h2 now"),
        (waves_of(tuple("gfedcba")), waves_of(tuple("nmlkjih")), "was a, b, c, d, e, and would be h, i, j, k, l now"),
    ],
)
def test_the_first_wave_that_is_another_now_is_named(saved: RolloutPlan, present: RolloutPlan, words: str) -> None:
    """With the first five of its hosts."""
    with pytest.raises(PlanOutdated, match=words):
        check_saved(saved, present)
    check_saved(saved, saved)


def test_of_several_problems_of_a_saved_plan_the_first_is_the_refusal() -> None:
    """The others follow from it, or come up when it is solved."""
    with pytest.raises(Refused, match=r"^first$"):
        check_saved(waves_of(("h1",)), waves_of(("h1",), problems=("first", "second")))


def test_a_host_that_is_left_out_breaks_no_limit_alone() -> None:
    """It has all VMs of its group, and has failed."""
    harness = RolloutHarness(
        "ann declares: host h1; host h2; group web availability-set; group db availability-set;"
        " vm a in web on h1; vm b in web on h1; vm c in db on h2; vm d in db on h2",
        "ann fails host h2",
    )
    (problem,) = plan(harness, group_share=0.5).problems
    assert problem.startswith("host h1 alone has 2 of the 2")


@pytest.mark.parametrize(("expected", "count"), [(600, 0), (3_600, 1)])
def test_a_group_must_be_awake_while_a_window_has_room_for_a_host(expected: int, count: int) -> None:
    """Half an hour of the window is not quiet."""
    harness = RolloutHarness(WEB, "ann sets web quiet_hours=00:00-05:30")
    assert len(plan(harness, windows=("02:00-06:00",), expected=expected).problems) == count


@pytest.mark.parametrize(("hours", "count"), [("00:00-12:00", 1), ("Mon-Sat_00:00-12:00", 0), ("12:00-14:00", 0)])
def test_a_group_may_be_quiet_in_some_windows(hours: str, count: int) -> None:
    """One in which it is awake is enough, of the rollout or of the fleet; without windows it is never a problem."""
    harness = RolloutHarness(WEB, f"ann sets web quiet_hours={hours}")
    rules = Rules(maintenance_windows=("02:00-06:00",))
    found = make_plan(harness.fleet, "k", TERMS, NOON, rules, KNOWN, runs_commands=False)
    assert len(found.problems) == len(plan(harness, windows=("02:00-06:00",)).problems) == count
    assert plan(harness).problems == ()


@pytest.mark.parametrize(
    ("sentence", "is_possible"),
    [
        ("ann degrades host h3", True),
        ("ann cordons host h3", False),
        ("ann fails host h3", False),
        ("ann declares: host h4", True),
    ],
)
def test_a_drain_needs_a_host_that_is_up_and_not_drained(sentence: str, is_possible: bool) -> None:  # noqa: FBT001
    """Where the VMs of the first one can go."""
    harness = RolloutHarness(WEB, sentence)
    found = plan(harness, operation=RolloutOperation.DRAIN, all_hosts=False, hosts=("h1", "h2")).problems
    assert [each.startswith("the VMs of h1 have nowhere to go") for each in found] == ([] if is_possible else [True])


def test_hosts_without_vms_can_all_be_drained() -> None:
    """And one that opts out takes the VMs of the others."""
    empty = RolloutHarness("ann declares: host h1; host h2")
    assert plan(empty, operation=RolloutOperation.DRAIN).problems == ()
    harness = RolloutHarness(f"{WEB}; host g1")
    assert plan(harness, operation=RolloutOperation.DRAIN).problems[0].startswith("the VMs of h1 have nowhere")
    harness.fleet.evolve(FleetChanged(hosts=(Host("h3", {"keep": "1"}),)))
    assert plan(harness, operation=RolloutOperation.DRAIN, opt_out="keep").problems == ()


def test_at_most_fifty_notes_are_made() -> None:
    """A large fleet has thousands of them."""
    hosts = "; ".join(f"host h{n}; vm a{n} in web on h{n}; vm b{n} in web on h{n} fd=1" for n in range(51))
    harness = RolloutHarness(f"ann declares: group web availability-set; {hosts}")
    assert len(plan(harness).notes) == 50
    assert len(plan(harness, all_hosts=False, hosts=("h1", "h2")).notes) == 2
