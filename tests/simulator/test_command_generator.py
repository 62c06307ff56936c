"""Rare commands that are added to plans: every kind of them is drawn, and plans with them are read back."""

from random import Random

from forewarn.simulator import coverage
from forewarn.simulator.actions.dry_runs import TryRequest
from forewarn.simulator.actions.fleet_requests import RequestFleetApply
from forewarn.simulator.actions.host_requests import RequestHostSelection
from forewarn.simulator.actions.vm_requests import RequestVmSelection
from forewarn.simulator.command_generator import CommandGenerator
from forewarn.simulator.plan import format_plan, parse_plan
from tests.simulator.plans import large_plan

PLANS = [CommandGenerator(large_plan(), Random(seed)).plan() for seed in range(500)]


def test_every_way_to_select_and_to_apply_is_drawn() -> None:
    """A choice that no seed draws is never tested."""
    drawn = {name for plan in PLANS for action in plan.actions for name in coverage.of_action(action)}

    for kind in (RequestFleetApply, RequestHostSelection, RequestVmSelection, TryRequest):
        assert {f"action {kind.__name__} {choice}" for choice in kind.choices} <= drawn


def test_plans_with_rare_commands_are_read_back() -> None:
    """Selectors and keys are JSON without blanks."""
    for plan in PLANS[:50]:
        assert parse_plan(format_plan(plan)) == plan
