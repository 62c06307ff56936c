"""What the checker remembers of clock and network."""

import pytest

from forewarn.simulator.actions.environment_faults import LoseRequests
from forewarn.simulator.exchanges import ClockChange
from forewarn.simulator.plan import Plan
from forewarn.simulator.promises.memory import CheckerMemory, WallClock


@pytest.mark.parametrize(("since", "behind"), [(0.0, 3660.0), (15.0, 3600.0), (25.0, 0.0)])
def test_how_far_a_clock_was_set_back(since: float, behind: float) -> None:
    """What it was before counts; that it was set ahead later does not matter."""
    clock = WallClock()
    for at, error in ((10.0, -60.0), (20.0, -3660.0), (30.0, 5000.0)):
        clock.change(ClockChange(at, error, 0.0))

    assert clock.set_back_since(since) == pytest.approx(behind)


@pytest.mark.parametrize(
    ("begin", "end", "may_stall"), [(0, 9, False), (0, 10, True), (15, 16, True), (21, 30, False)]
)
def test_an_exchange_may_stall_while_the_network_loses_something(begin: int, end: int, *, may_stall: bool) -> None:
    """Also one that began before, or ends after."""
    plan = Plan(1, 60.0, (), (), (), {}, (LoseRequests(at=10.0, chance=0.1, seconds=10.0),), 60.0)

    assert CheckerMemory(plan).may_stall(begin, end) is may_stall
