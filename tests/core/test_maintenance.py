"""Hosts in maintenance."""

import pytest

from forewarn.core.commands import SetMaintenance
from forewarn.core.errors import Refused
from forewarn.core.facts import AnyFact
from forewarn.core.model import HostState
from tests.core.harness import ANN, FleetHarness, kinds

FLEET = "ann declares: host h1; host h2; group web availability-set; vm web-0 in web on h1"


def set_maintenance(
    harness: FleetHarness, *, is_in_maintenance: bool = True, host: str = "h1"
) -> tuple[AnyFact, ...]:
    return harness.give(SetMaintenance(id="c", by=ANN, host=host, is_in_maintenance=is_in_maintenance))


def test_a_host_in_maintenance_is_cordoned() -> None:
    """The end leaves the cordon; what is so already is no fact."""
    harness = FleetHarness(FLEET)

    assert kinds(set_maintenance(harness)) == ["HostCordonSet", "HostStateSet"]
    assert set_maintenance(harness) == ()
    assert harness.fleet.state_of("h1") is HostState.MAINTENANCE
    assert kinds(set_maintenance(harness, is_in_maintenance=False)) == ["HostStateSet"]
    assert set_maintenance(harness, is_in_maintenance=False) == ()
    assert harness.fleet.state_of("h1") is HostState.UP
    assert list(harness.fleet.cordoned) == ["h1"]
    assert kinds(set_maintenance(harness)) == ["HostStateSet"]


def test_a_host_in_maintenance_is_not_uncordoned_or_degraded() -> None:
    """The refusal says how to end it."""
    harness = FleetHarness(FLEET)
    set_maintenance(harness)

    for sentence in ("ann uncordons host h1", "ann degrades host h1"):
        with pytest.raises(Refused, match="in maintenance; end that first: forewarn host exit-maintenance h1"):
            harness.say(sentence)


def test_maintenance_of_a_degraded_host_repairs_it() -> None:
    """What is Scheduled because it was expected to fail is canceled at the end."""
    harness = FleetHarness(FLEET, "ann degrades host h1")
    set_maintenance(harness)

    assert kinds(set_maintenance(harness, is_in_maintenance=False)) == ["Canceled", "HostStateSet"]
    assert harness.fleet.state_of("h1") is HostState.UP


def test_a_host_that_fails_is_in_maintenance_no_more() -> None:
    """And a failed one does not enter it."""
    harness = FleetHarness(FLEET)
    set_maintenance(harness)
    harness.say("ann fails host h1")

    assert harness.fleet.state_of("h1") is HostState.FAILED
    with pytest.raises(Refused, match="has failed"):
        set_maintenance(harness)


def test_a_host_that_is_to_receive_vms_does_not_enter_maintenance() -> None:
    """As it cannot be cordoned."""
    harness = FleetHarness(FLEET, "ann moves web-0 to h2 by driver")
    with pytest.raises(Refused, match="moves VMs to h2"):
        set_maintenance(harness, host="h2")
