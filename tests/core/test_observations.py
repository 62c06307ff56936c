"""What a driver sees: what is news, and what an impact of ours explains."""

from forewarn.core.facts import VmSwitched
from tests.core.harness import NOON, FleetHarness, kinds

FLEET = "ann declares: host h1; host h2; group web availability-set; vm a in web on h1; vm b in web"


def test_where_a_vm_stands_already_is_no_news() -> None:
    """That it stopped there is, also where no host is known of it."""
    harness = FleetHarness(FLEET)

    assert harness.say("the driver sees a moved to h1") == ()
    assert kinds(harness.say("the driver sees b stopped")) == ["ObservationRecorded"]


def test_a_switch_that_the_driver_was_asked_for_explains_what_it_sees() -> None:
    """One that failed does not."""
    harness = FleetHarness(FLEET, "ann deallocates a by driver")
    assert harness.say("the driver sees a stopped") == ()

    request = harness.fleet.power_requests["a"].id
    harness.fleet.evolve(VmSwitched("a", request, False, NOON, failure="it hangs"))
    assert kinds(harness.say("the driver sees a stopped")) == ["ObservationRecorded"]
