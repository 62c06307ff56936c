"""Drains: a plan that no longer fits is refused."""

from uuid import UUID

import pytest

from forewarn.core.commands import DrainHost, MoveVm
from forewarn.core.errors import PlanOutdated
from forewarn.core.facts import Announced, VmMoved
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
