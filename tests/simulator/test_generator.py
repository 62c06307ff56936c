"""Plans of seeds: what is drawn, and what it is drawn for."""

from forewarn.core.model import GroupKind
from forewarn.simulator.actions.access_requests import SendTwice
from forewarn.simulator.actions.service_faults import KillServiceDuring
from forewarn.simulator.generator import make_plan
from forewarn.simulator.plan import format_plan, parse_plan

PLANS = [make_plan(seed) for seed in range(300)]


def test_groups_of_every_kind_are_drawn() -> None:
    """A standalone group has one VM."""
    groups = [(group, plan) for plan in PLANS for group in plan.groups]

    assert {group.kind for group, _ in groups} == set(GroupKind)
    for group, plan in groups:
        assert group.kind != "standalone" or sum(vm.group == group.name for vm in plan.vms) == 1


def test_starts_and_stops_are_killed_and_requests_sent_twice() -> None:
    """A repetition stands before a request of the same caller, at the same time."""
    drawn = [action for plan in PLANS for action in plan.actions]

    assert {action.phase for action in drawn if isinstance(action, KillServiceDuring)} == {"start", "stop"}
    repeated = [number for number, action in enumerate(drawn) if isinstance(action, SendTwice)]
    assert repeated
    for number in repeated:
        first, request = drawn[number : number + 2]
        assert (first.at, getattr(first, "who", "")) == (request.at, getattr(request, "who", ""))


def test_plans_of_seeds_are_read_back() -> None:
    """A failing seed can be saved as a text."""
    for plan in PLANS[:100]:
        assert parse_plan(format_plan(plan)) == plan
