"""Drains: a plan that no longer fits is refused."""

from uuid import UUID

import pytest

from forewarn.core.commands import DrainHost, MoveVm
from forewarn.core.errors import PlanOutdated
from forewarn.core.facts import Announced, HostCordonSet, VmMoved
from forewarn.core.model import EventType
from tests.core.harness import ANN, FleetHarness

FLEET = "ann declares: host h1; host h2; host h3; group web availability-set; vm web-0 in web on h1"


@pytest.mark.parametrize(
    ("happened", "host"),
    [
        ("ann declares: no host h3", "h3"),
        ("ann cordons host h2", "h2"),
        ("ann fails host h2", "h2"),
        ("ann cordons host h3", "h1"),
    ],
    ids=["it is gone", "it is cordoned", "it has failed", "it is drained itself"],
)
def test_no_vm_is_sent_to_a_host_that_cannot_take_it(happened: str, host: str) -> None:
    """Whatever happened to the host since the plan was made."""
    harness = FleetHarness(FLEET, happened)

    with pytest.raises(PlanOutdated, match=f"web-0 to {host}"):
        harness.say(f"ann drains host h1 to web-0 on {host}")


def test_who_cannot_be_moved_live_restarts() -> None:
    """The others of the host are moved live."""
    harness = FleetHarness(FLEET, "ann declares: vm web-1 in web on h1")
    facts = harness.give(
        DrainHost(
            id=str(UUID(int=1)),
            by=ANN,
            host="h1",
            placements={"web-0": "h2", "web-1": "h3"},
            live=True,
            cold=("web-1",),
        )
    )
    types = {fact.event.resources: fact.event.type for fact in facts if isinstance(fact, Announced)}

    assert types == {("web-0",): EventType.FREEZE, ("web-1",): EventType.REDEPLOY}


def test_a_move_that_is_recorded_is_announced_to_nobody() -> None:
    """Also where the driver could do it."""
    command = MoveVm(id=str(UUID(int=1)), by=ANN, vm="web-0", host="h2", record=True, can_move=True)

    assert FleetHarness(FLEET).give(command) == (VmMoved("web-0", "h2"),)


@pytest.mark.parametrize("sentence", ["ann cordons host h3", "ann drains host h3 to db-1 on h2"])
def test_a_cordon_names_the_events_that_may_still_move_vms_there(sentence: str) -> None:
    """Their driver may have chosen the host, unless their VM is there."""
    more = "ann declares: group db availability-set; vm db-0 in db on h2; vm db-1 in db on h3"
    harness = FleetHarness(FLEET, more, "ann redeploys web-0", "ann redeploys db-1", "ann restarts db-0")

    (cordoned,) = (fact for fact in harness.say(sentence) if isinstance(fact, HostCordonSet))
    assert cordoned.arriving == (harness.id("E1"),)


def test_an_event_that_has_not_started_moves_nothing_to_a_cordoned_host() -> None:
    """Its driver is given no cordoned hosts."""
    harness = FleetHarness(FLEET, "web-0 asks", "ann redeploys web-0")
    (cordoned,) = harness.say("ann cordons host h3")

    assert isinstance(cordoned, HostCordonSet)
    assert cordoned.arriving == ()
