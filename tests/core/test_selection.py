"""Which VMs go first."""

from forewarn.core.facts import Announced
from tests.core.harness import FleetHarness


def victims(harness: FleetHarness, sentence: str) -> list[str]:
    return [name for fact in harness.say(sentence) if isinstance(fact, Announced) for name in fact.event.resources]


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
