"""Which VMs go first."""

import pytest

from forewarn.core.errors import Unknown
from forewarn.core.facts import Announced
from forewarn.core.notice import HOUR, Rules
from tests.core.harness import FleetHarness


def victims(harness: FleetHarness, sentence: str, at: str = "12:00:00") -> list[str]:
    facts = harness.say(sentence, at)
    return [name for fact in facts if isinstance(fact, Announced) for name in fact.event.resources]


def test_of_vms_without_numbers_the_last_by_name_is_the_newest() -> None:
    """Whatever the order of their declaration."""
    harness = FleetHarness(
        "ann declares: group pool scale-set terminate_notice=300; vm b in pool; vm c in pool; vm a in pool",
        "a asks",
    )

    assert victims(harness, "ann scales pool in by 1") == ["c"]


def test_a_vm_that_is_to_be_removed_is_not_chosen() -> None:
    """It goes anyway; another one has to go for the group to become as small as wished."""
    places = "host h1; group pool scale-set terminate_notice=300"
    vms = [f"vm pool_{number} in pool on h1" for number in range(6)]
    harness = FleetHarness(
        f"ann applies: {'; '.join([places, *vms])}",
        "pool_0 asks",
        "ann freezes pool_5",
        f"the service starts with: {'; '.join([places, *vms[:5]])}",
    )
    assert harness.fleet.last_applied.holds_removal("pool_5")

    assert victims(harness, "ann scales pool in by 1") == ["pool_4"]


def test_of_places_with_as_many_vms_the_last_by_name_gives_one_up() -> None:
    """Whatever the names of the VMs in them."""
    harness = FleetHarness(
        "ann declares: group pool scale-set terminate_notice=300; "
        "vm pool_5 in pool fd=1; vm pool_6 in pool fd=1; vm pool_0 in pool fd=2; vm pool_1 in pool fd=2",
        "pool_0 asks",
    )

    assert victims(harness, "ann scales pool in by 1") == ["pool_1"]


def test_a_group_without_spot_vms_left_gives_none_up() -> None:
    """Also where it has lost fewer than the others."""
    harness = FleetHarness(
        "ann declares: group a scale-set; group b scale-set; vm a_0 in a spot; "
        "vm b_0 in b spot; vm b_1 in b spot; vm b_2 in b spot; vm b_3 in b spot",
        "ann evicts b_0",
        "ann evicts b_1",
    )

    assert victims(harness, "ann reclaims 2 spot VMs") == ["a_0", "b_3"]


def test_a_vm_whose_change_is_held_can_be_chosen() -> None:
    """It stays, unlike one that is to be removed."""
    harness = FleetHarness(
        "ann applies: group pool scale-set terminate_notice=300; vm pool_0 in pool; vm pool_1 in pool",
        "pool_0 asks",
        "ann freezes pool_1",
        "the service starts with: group pool scale-set terminate_notice=300; vm pool_0 in pool; "
        "vm pool_1 in pool ud=1",
    )
    assert [held.name for held in harness.fleet.last_applied.held] == ["pool_1"]

    assert victims(harness, "ann scales pool in by 1") == ["pool_1"]


def test_of_groups_that_lost_as_many_the_first_by_name_gives_one_up() -> None:
    """Whatever the numbers of their VMs."""
    harness = FleetHarness(
        "ann declares: group a scale-set; group b scale-set; vm a_5 in a spot; vm b_0 in b spot; vm b_9 in b spot"
    )

    assert victims(harness, "ann reclaims 1 spot VMs") == ["a_5"]


def test_an_eviction_counts_for_less_than_its_time() -> None:
    """Here for an hour."""
    declared = (
        "ann declares: group a scale-set; group b scale-set; vm a_0 in a spot; vm a_1 in a spot; vm b_0 in b spot"
    )
    for at, chosen in (("13:00:59", "b_0"), ("13:01:00", "a_1")):
        harness = FleetHarness(declared, "ann evicts a_0", rules=Rules(evictions_count_for=HOUR))
        harness.say("the time comes", "12:00:30")
        harness.say("the driver is done with E1", "12:01:00")

        assert victims(harness, "ann reclaims 1 spot VMs", at) == [chosen]


def test_spot_vms_of_an_unknown_host_are_not_reclaimed() -> None:
    """A host that may have been meant is named."""
    harness = FleetHarness("ann declares: host h1; group a scale-set; vm a_0 in a on h1 spot")

    with pytest.raises(Unknown, match="there is no host 'h2'"):
        harness.say("ann reclaims the spot VMs of h2")
