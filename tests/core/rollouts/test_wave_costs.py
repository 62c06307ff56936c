"""What a wave costs: as much as it touches, however large the fleet is."""

import sys
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from bench.rollout_planning import make_fleet
from forewarn.core.decide import enact
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.core.rollouts.commands import AdvanceRollout, StartRollout
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from tests.core.harness import NOON

if TYPE_CHECKING:
    from _typeshed import TraceFunction

TEN = tuple(f"host-{number}" for number in range(10))


def lines_of_a_wave(fleet: Fleet, terms: RolloutTerms) -> int:
    """Begin a wave of ten hosts; return how many lines ran for it, which does not depend on the machine."""
    enact(fleet, StartRollout(id="1" * 32, by=NODE, name="k", terms=terms), NOON, Rules())
    lines = 0

    def count(_: FrameType, event: str, __: object) -> "TraceFunction":
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        enact(fleet, AdvanceRollout(id="2" * 32, by=NODE, rollout="k"), NOON, Rules())
    finally:
        sys.settrace(before)
    assert fleet.rollouts["k"].active == TEN
    return lines


@pytest.mark.parametrize("operation", [RolloutOperation.REBOOT, RolloutOperation.DRAIN])
def test_a_wave_costs_the_same_in_a_small_and_in_a_large_fleet(operation: RolloutOperation) -> None:
    """Ten hosts with 200 VMs of 200 groups; ten times as many others."""
    terms = RolloutTerms(operation=operation, hosts=TEN, parallel=10, fleet_share=0.9, group_share=0.5)
    small, large = (
        lines_of_a_wave(make_fleet(vms, vms // 20, vms // 50, in_order=True), terms) for vms in (10_000, 100_000)
    )
    assert abs(large - small) <= small // 100
