"""A failing plan is made smaller, and goes on failing."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from forewarn.simulator.actions.service_faults import FillDisk, KillService, StepClock
from forewarn.simulator.actions.vm_requests import RequestVmOperation
from forewarn.simulator.plan import Plan, PlannedVm, format_plan
from forewarn.simulator.shrink import kind_of, shrink
from tests.simulator.plans import large_plan, restart


def a_restart_and_a_kill_after_it(plan: Plan) -> bool:
    restarted = [each.at for each in plan.actions if isinstance(each, RequestVmOperation) and each.vm == "web-1"]
    killed = [each for each in plan.actions if isinstance(each, KillService) and each.callbacks >= 100]
    return any(each.at > min(restarted, default=1e9) for each in killed) and any(
        vm.name == "web-1" for vm in plan.vms
    )


def test_what_does_not_matter_is_left_out() -> None:
    """Of forty actions, two groups and six VMs, only what the failure needs is left."""
    small = shrink(large_plan(), a_restart_and_a_kill_after_it, 5000)

    assert [type(action) for action in small.actions] == [RequestVmOperation, KillService]
    assert small.vms == (PlannedVm("web-1", "web", "h1", 0, 0, "10.0.3.1", guest="silent"),)
    assert (small.hosts, [group.name for group in small.groups], small.owners) == (("h1",), ["web"], {})
    assert (small.has_sqlite, small.groups[0].terms) == (False, "{}")


def test_times_and_numbers_become_small() -> None:
    """No pause is longer than the failure needs, and no number larger."""
    small = shrink(large_plan(), a_restart_and_a_kill_after_it, 5000)

    assert isinstance(small.actions[1], KillService)
    assert small.actions[1].callbacks < 200
    assert small.actions[1].at <= 3.0
    assert small.ends_at <= 4.0


@pytest.mark.parametrize(
    "fails",
    [
        lambda plan: len(plan.actions) >= 7,
        lambda plan: any(isinstance(each, StepClock) and each.seconds < -20 for each in plan.actions),
        lambda plan: any(isinstance(each, FillDisk) for each in plan.actions) and len(plan.hosts) > 1,
        lambda plan: bool(plan.owners.get("eve")),
        lambda plan: plan.ends_at > 50,
        lambda _: True,
    ],
)
def test_the_result_fails(fails: Callable[[Plan], bool]) -> None:
    """Whatever the reason: what is returned fails, and is no larger."""
    plan = large_plan()

    small = shrink(plan, fails, 400)

    assert fails(small)
    assert len(format_plan(small)) <= len(format_plan(plan))


def test_another_seed_is_tried() -> None:
    """A failure that depends on the order of things is found again in a smaller plan, with other draws."""

    def fails(plan: Plan) -> bool:
        return bool(plan.actions) and (plan == large_plan() or (len(plan.actions) + plan.seed) % 3 == 0)

    small = shrink(large_plan(), fails, 2000)

    assert len(small.actions) == 1
    assert small.seed == 8


def test_the_budget_is_kept() -> None:
    """It asks no more often than it may, and never twice about one plan."""
    asked: list[str] = []

    def fails(plan: Plan) -> bool:
        asked.append(format_plan(plan))
        return a_restart_and_a_kill_after_it(plan)

    shrink(large_plan(), fails, 25)

    assert len(asked) == 25
    assert len(set(asked)) == 25


def test_the_result_is_always_the_same() -> None:
    """Two people who shrink one failure speak of one plan."""
    first = shrink(large_plan(), a_restart_and_a_kill_after_it, 60)

    assert shrink(large_plan(), a_restart_and_a_kill_after_it, 60) == first


def test_a_plan_that_cannot_be_smaller_stays() -> None:
    """Where nothing smaller fails, the plan is returned."""
    plan = replace(large_plan(), actions=(restart(1.0, "web-0", "k"),))

    assert shrink(plan, lambda candidate: candidate == plan, 1000) == plan


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("machine web-0 was operated on twice for one event", "machine was operated on twice for one event"),
        ("a response is lost: 17 of 18", "a response is lost: of"),
        ("bob learnt of 'db'", "learnt of"),
        ("event 0f3e-77 never ends", "event never ends"),
        ("12.345 s: event 0f3e-77 never ends", "event never ends"),
        ("08:00:12.345 event E1 never ends", "event never ends"),
    ],
)
def test_problems_of_one_kind_begin_alike(problem: str, kind: str) -> None:
    """Numbers and names differ between runs of one plan and of a smaller one."""
    assert kind_of(problem, large_plan()) == kind
