"""What follows when an impact has ended."""

import pytest

from forewarn.core.commands import ImpactResult, ReportImpact
from forewarn.core.facts import Canceled, Completed, Failed, VmDeallocated, VmRemoved
from forewarn.core.impact_results import removes_vms
from forewarn.core.model import NODE, EventType
from tests.core.harness import FleetHarness, kinds

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group pool scale-set; "
    "vm web-0 in web on h1; vm web-1 in web on h1; vm pool-0 in pool on h1 spot; vm pool-1 in pool on h1"
)


def report(
    harness: FleetHarness, label: str, hosts: dict[str, str] | None = None, result: ImpactResult = ImpactResult.DONE
) -> ReportImpact:
    return ReportImpact(id="r", by=NODE, event=harness.id(label), result=result, hosts=hosts or {})


def test_a_word_on_what_has_not_started_changes_nothing() -> None:
    """Neither for a Scheduled event nor for one that nobody knows."""
    harness = FleetHarness(FLEET, "ann freezes web-0")

    assert harness.give(report(harness, "E1")) == ()
    assert harness.give(report(harness, "E9")) == ()


def test_a_failure_without_reason_says_so() -> None:
    """The record never holds an empty reason."""
    harness = FleetHarness(FLEET, "ann restarts web-0")

    (failed,) = harness.give(report(harness, "E1", result=ImpactResult.FAILED))

    assert isinstance(failed, Failed)
    assert failed.reason == "the driver gave no reason"


@pytest.mark.parametrize("hosts", [{"web-1": "h2"}, {"web-0": "h1"}, {"nobody": "h2"}])
def test_only_who_was_impacted_and_went_elsewhere_has_moved(hosts: dict[str, str]) -> None:
    """What a driver says of others is no news."""
    harness = FleetHarness(FLEET, "ann redeploys web-0")

    assert kinds(harness.give(report(harness, "E1", hosts))) == ["Completed"]


def test_who_is_evicted_has_not_moved() -> None:
    """A host named for a VM that gave its place back means nothing."""
    harness = FleetHarness(FLEET, "ann evicts pool-0", "pool-0 approves E1")

    assert kinds(harness.give(report(harness, "E1", {"pool-0": "h2"}))) == ["Completed", "VmDeallocated"]


def test_coming_home_is_no_move_any_more() -> None:
    """A VM that returns to its declared host has no other one noted."""
    harness = FleetHarness(
        FLEET, "ann redeploys web-0", "the driver is done with E1, web-0 on h2", "ann redeploys web-0"
    )
    harness.give(report(harness, "E2", {"web-0": "h1"}))

    assert harness.fleet.vms["web-0"].moved_to == ""
    assert set(harness.fleet.vms_on("h1")) == {"web-0", "web-1", "pool-0", "pool-1"}


def test_what_two_share_stays_while_one_is_there() -> None:
    """The maintenance of a host goes on for the VM that did not move."""
    harness = FleetHarness(FLEET, "ann freezes host h1", "ann redeploys web-0")

    assert kinds(harness.say("the driver is done with E3, web-0 on h2")) == ["Completed", "VmMoved"]


def test_an_eviction_cancels_what_was_announced_for_its_vm_meanwhile() -> None:
    """Nothing can be done to a VM that is off."""
    harness = FleetHarness(FLEET, "ann evicts pool-0", "ann approves E1", "ann freezes pool-0")

    assert kinds(harness.give(report(harness, "E1"))) == ["Completed", "Canceled", "VmDeallocated"]


def test_a_deletion_names_the_group_of_its_vm() -> None:
    """Whoever reads the record finds it by the group, although the VM is gone."""
    harness = FleetHarness(FLEET, "ann deletes pool-1")

    assert [fact.group for fact in harness.give(report(harness, "E1")) if isinstance(fact, VmRemoved)] == ["pool"]


def test_what_the_driver_says_of_an_impact_is_recorded_with_what_the_fleet_knows() -> None:
    """A host that the fleet does not know is named, whether it is done or failed."""
    for result, said in ((ImpactResult.DONE, Completed), (ImpactResult.FAILED, Failed)):
        harness = FleetHarness(FLEET, "ann redeploys web-0")
        moves = {"web-0": "h9"}
        facts = harness.give(
            ReportImpact(id="r", by=NODE, event=harness.id("E1"), result=result, detail="so", hosts=moves)
        )
        (fact,) = (fact for fact in facts if isinstance(fact, said))

        assert (fact.detail if isinstance(fact, Completed) else fact.reason) == (
            "so; moved to h9, which the fleet does not know"
        )


def test_maintenance_of_a_host_ends_when_all_that_still_run_have_left_it() -> None:
    """A VM that is deallocated there does not keep it; an event that is of none of the moved VMs stays."""
    harness = FleetHarness(
        "ann declares: host h1; host h2; group web availability-set; "
        "vm a in web on h1; vm b in web on h1; vm c in web on h1 ud=1",
        "ann freezes host h1",
        "ann declares: vm d in web on h2",
    )
    harness.fleet.evolve(VmDeallocated("b", "x"))
    facts = harness.say("the driver sees a moved to h2")

    assert [harness.labels.put_into(fact.event) for fact in facts if isinstance(fact, Canceled)] == ["E1"]


@pytest.mark.parametrize(
    ("sentence", "removes"),
    [("ann deletes pool-0", True), ("ann freezes pool-0", False), ("ann evicts pool-0", False)],
)
def test_only_a_delete_removes_its_vm(sentence: str, *, removes: bool) -> None:
    """So does an eviction from a group whose policy says so."""
    harness = FleetHarness("ann declares: group pool scale-set; vm pool-0 in pool spot", sentence)
    (event,) = harness.fleet.events.values()

    assert removes_vms(harness.fleet, event) is removes
    if event.type is EventType.PREEMPT:
        harness.say("ann sets pool eviction=delete")
        assert removes_vms(harness.fleet, event)
