"""What a wave may hold."""

from msgspec.structs import replace

from forewarn.core.facts import FleetChanged
from forewarn.core.model import Host
from forewarn.core.rollouts.limits import choose, next_wave
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
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
    assert (found.hosts, found.blocked) == ([], "1 of 3 hosts are unavailable, and 1 may be")


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
