"""Hosts that fail, and what becomes of the events of VMs that others moved."""

from forewarn.core.model import EventStatus
from tests.core.harness import FleetHarness

FLEET = "ann declares: host h1; host h2; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1"
STORY = (FLEET, "ann freezes host h1", "the driver sees web-1 moved to h2")


def test_maintenance_of_a_host_that_fails_is_canceled() -> None:
    """Also where one of its VMs stands elsewhere by then."""
    harness = FleetHarness(*STORY)
    harness.say("ann fails host h1")

    assert harness.id("E1") not in harness.fleet.events


def test_maintenance_of_another_host_stays_while_one_of_its_vms_is_there() -> None:
    """Only the VM that was moved to the failed host is lost to it."""
    harness = FleetHarness(*STORY)
    harness.say("ann fails host h2")

    assert harness.fleet.events[harness.id("E1")].status is EventStatus.SCHEDULED
