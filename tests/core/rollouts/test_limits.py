"""What a wave may hold."""

from msgspec.structs import replace

from forewarn.core.facts import FleetChanged, HostStateSet
from forewarn.core.model import Host, HostState
from forewarn.core.rollouts.limits import Occupancy, choose, next_wave
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

TERMS = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True, parallel=9)


def wave(harness: RolloutHarness, **given: object) -> list[str]:
    return choose(harness.fleet, replace(TERMS, **given), ("h1", "h2", "h3")).hosts


def labelled() -> RolloutHarness:
    harness = RolloutHarness(WEB)
    racks = {"h1": "a", "h2": "a", "h3": "b"}
    harness.fleet.evolve(FleetChanged(hosts=tuple(Host(name, {"rack": rack}) for name, rack in racks.items())))
    return harness


def test_a_wave_has_no_more_hosts_than_allowed() -> None:
    """In the order of the hosts."""
    assert wave(RolloutHarness(WEB)) == ["h1", "h2", "h3"]
    assert wave(RolloutHarness(WEB), parallel=2) == ["h1", "h2"]


def test_a_wave_has_no_more_hosts_of_a_label_than_allowed() -> None:
    """A host that does not fit is passed over, and others are taken."""
    assert wave(labelled(), parallel_per={"rack": 1}) == ["h1", "h3"]


def test_a_wave_has_no_more_hosts_of_a_fault_domain_than_allowed() -> None:
    """h1 and h3 have VMs of fault domain 0."""
    assert wave(RolloutHarness(WEB), parallel_per={"fault-domain": 1}) == ["h1", "h2"]


def test_unavailable_hosts_count_towards_the_share_of_the_fleet() -> None:
    """Cordoned and failed ones; spare hosts are capacity."""
    harness = RolloutHarness(WEB)
    assert wave(harness, fleet_share=0.67) == ["h1", "h2"]
    harness.say("ann cordons host h3")
    assert wave(harness, fleet_share=0.67) == ["h1", "h3"]
    harness.say("ann declares: host spare-1; host spare-2; host spare-3")
    assert wave(harness, fleet_share=0.5) == ["h1", "h2", "h3"]


def test_a_wave_leaves_enough_of_each_group() -> None:
    """Web has three VMs, of which one may be unavailable; the group db has two."""
    assert wave(RolloutHarness(WEB), group_share=0.5) == ["h1"]
    assert wave(RolloutHarness(WEB), group_share=0.67) == ["h1", "h3"]


def test_hosts_in_waves_of_other_rollouts_count() -> None:
    """The limits are the whole fleet's, not the rollout's alone."""
    harness = RolloutHarness(WEB, "ann rolls out other: reboot hosts=h1", "ann rolls out k: reboot hosts=h2,h3")
    harness._round("other")
    found = next_wave(harness.fleet, replace(harness.fleet.rollouts["k"], terms=replace(TERMS, fleet_share=0.4)))
    said = "1 of 3 hosts is unavailable, and 1 may be: h1 is in a wave of rollout other"
    assert (found.hosts, found.blocked) == ([], said)


def test_unavailable_hosts_are_named_with_what_makes_them_available() -> None:
    """Of many, the first; those that become available by themselves need nothing."""
    harness = RolloutHarness(
        f"{WEB}; host h4; host h5; host h6; host h7; host h8",
        "ann cordons host h7",
        "ann fails host h8",
        "ann cordons host h6",
    )
    harness.fleet.evolve(HostStateSet("h6", HostState.MAINTENANCE, NOON))
    found = choose(harness.fleet, replace(TERMS, fleet_share=0.375), ("h1",))
    assert found.blocked == (
        "3 of 8 hosts are unavailable, and 3 may be: h7 is cordoned, h6 is in maintenance, h8 has failed; make them "
        "available with 'forewarn host uncordon' and 'forewarn host repaired' and 'forewarn host exit-maintenance', "
        "or allow a larger --fleet-share"
    )
    for host in ("h1", "h2", "h3", "h5"):
        harness.say(f"ann cordons host {host}")
    blocked = choose(harness.fleet, replace(TERMS, fleet_share=0.375), ("h4",)).blocked
    assert "h3 is cordoned, 2 more; make them" in blocked


def test_vms_that_are_unavailable_outside_of_waves_count_towards_the_share_of_their_group() -> None:
    """On failed hosts, crashed, or under a Started event; each once, and only those that run."""
    fleet = (
        "ann declares: host h1; host h2; host h3; host h4; group web availability-set restart_after_crash=false;"
        " vm web-0 in web on h1 ud=0 fd=0; vm web-1 in web on h2 ud=1 fd=1; vm web-2 in web on h3 ud=2 fd=0;"
        " vm web-3 in web on h3 ud=2 fd=0"
    )

    def blocked(*sentences: str, share: float = 0.25) -> str:
        return choose(RolloutHarness(fleet, *sentences).fleet, replace(TERMS, group_share=share), ("h1",)).blocked

    assert blocked() == ""
    for sentence in ("ann restarts web-1", "the driver sees web-1 crashed"):
        assert blocked(sentence).startswith("1 VM of group web is unavailable")
        assert blocked(sentence, share=0.5) == ""
    assert blocked("ann fails host h3").startswith("2 VMs of group web are unavailable")
    assert blocked("ann fails host h3", share=0.75) == ""
    assert blocked("ann restarts web-0") == ""  # it is on the host itself
    assert blocked("the driver sees web-1 crashed", "ann deallocates web-1", share=0.34) == ""


def test_a_host_with_an_opt_out_label_is_skipped() -> None:
    """Whatever the value."""
    found = choose(labelled().fleet, replace(TERMS, opt_out="rack"), ("h1",))
    assert found.skipped == {"h1": "the host opts out by its label rack"}


def test_the_search_for_a_wave_ends_after_many_hosts_that_do_not_fit() -> None:
    """Else each round would look at every host of a large fleet; the reason is that of the first."""
    harness = RolloutHarness("ann declares: " + "; ".join(f"host n{number}" for number in range(80)))
    looked_at: list[str] = []

    def obstacle(host: str) -> str:
        looked_at.append(host)
        return f"{host} is busy"

    found = choose(harness.fleet, replace(TERMS, parallel=1), harness.fleet.hosts, obstacle)

    assert (len(looked_at), found.hosts, found.blocked) == (64, [], f"{looked_at[0]} is busy")


SPREAD = (
    "ann declares: host h1; host h2; host h3; group web availability-set;"
    " vm web-0 in web on h1; vm web-1 in web on h2; vm web-2 in web on h3"
)


def test_failed_hosts_count_towards_the_share_of_the_fleet() -> None:
    """Degraded ones do not: they still run."""
    failed = RolloutHarness(WEB, "ann fails host h3")
    assert wave(failed, fleet_share=0.67) == ["h1"]
    degraded = RolloutHarness(WEB, "ann degrades host h3")
    assert wave(degraded, fleet_share=0.67) == ["h1", "h2"]


def test_a_share_is_of_the_running_vms() -> None:
    """A deallocated VM neither counts as running nor as unavailable."""
    harness = RolloutHarness(SPREAD, "ann deallocates web-2")
    assert wave(harness, group_share=0.5) == ["h1", "h3"]
    assert wave(harness, group_share=1.0) == ["h1", "h2", "h3"]


def test_a_label_opts_only_those_hosts_out_that_have_it() -> None:
    """Without such a label all take part."""
    assert wave(labelled(), opt_out="disk") == ["h1", "h2", "h3"]
    assert wave(labelled(), opt_out="") == ["h1", "h2", "h3"]


def test_a_host_without_a_label_is_not_limited_by_it() -> None:
    """Nor by a share that allows all."""
    harness = labelled()
    harness.say("ann declares: host h3")
    assert wave(harness, parallel_per={"rack": 1}, fleet_share=1.0) == ["h1", "h3"]


def test_a_host_that_vms_move_to_is_not_drained() -> None:
    """It can be rebooted: the VMs that come are not told by this rollout."""
    harness = RolloutHarness(WEB, "ann drains host h1 to web-0 on h2, db-0 on h2")
    harness.say("ann rolls out k: drain hosts=h2")
    rollout = harness.rollout
    assert next_wave(harness.fleet, rollout).blocked.endswith(" moves VMs to h2")
    rebooted = replace(rollout, terms=replace(rollout.terms, operation=RolloutOperation.REBOOT))
    assert next_wave(harness.fleet, rebooted).hosts == ["h2"]


def test_a_host_with_an_unfinished_event_of_the_same_operation_waits_for_it() -> None:
    """Others go first, and none of them twice."""
    harness = RolloutHarness(WEB, "ann reboots host h1 not before 14:00:00", "ann rolls out k: reboot all_hosts=true")
    (event, _) = harness.fleet.events
    harness.say("ann skips h2 of rollout k")
    only = replace(harness.rollout, hosts=("h1",))
    assert next_wave(harness.fleet, only).blocked == f"host h1 has an unfinished reboot already: event {event}"
    assert next_wave(harness.fleet, harness.rollout).hosts == ["h3"]


def test_a_host_in_a_wave_of_another_rollout_waits() -> None:
    """The other operation may not have been announced yet."""
    harness = RolloutHarness(WEB, "ann rolls out other: drain hosts=h1")
    harness._round("other")
    harness.say("ann rolls out k: reboot hosts=h1 on_conflict=queue")
    assert next_wave(harness.fleet, harness.rollout).blocked == "host h1 is in a wave of another rollout"


def test_vms_on_hosts_of_other_waves_count_towards_the_share_of_their_group() -> None:
    """Of web one VM may be unavailable, and is."""
    harness = RolloutHarness(SPREAD, "ann rolls out other: reboot hosts=h1")
    harness._round("other")
    found = choose(harness.fleet, replace(TERMS, group_share=0.5), ("h2", "h3"))
    said = (
        "1 VM of group web is unavailable (on hosts of waves or failed hosts, crashed, or under a Started event), "
        "and 1 may be"
    )
    assert (found.hosts, found.blocked) == ([], said)


def test_a_host_that_is_left_out_does_not_end_the_wave() -> None:
    """The hosts after it are taken."""
    assert wave(RolloutHarness(WEB, "ann fails host h1")) == ["h2", "h3"]


def test_a_larger_wave_looks_at_more_hosts() -> None:
    """In proportion to its size."""
    harness = RolloutHarness("ann declares: " + "; ".join(f"host n{number}" for number in range(140)))
    looked_at: list[str] = []

    def obstacle(host: str) -> str:
        looked_at.append(host)
        return "it is busy"

    choose(harness.fleet, replace(TERMS, parallel=2), harness.fleet.hosts, obstacle)
    assert len(looked_at) == 128


def test_a_host_that_breaks_a_limit_alone_names_the_vms_of_the_group() -> None:
    """Not those of others on the host."""
    harness = RolloutHarness(
        "ann declares: host h1; host h2; group web availability-set; group db availability-set;"
        " vm a in web on h1; vm b in web on h1; vm c in db on h1; vm d in db on h2"
    )
    said = Occupancy(harness.fleet, replace(TERMS, group_share=0.5)).alone_against("h1")
    assert "move 1 of a, b to other hosts" in said
