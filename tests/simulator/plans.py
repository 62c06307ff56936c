"""Plans for tests."""

from forewarn.simulator.actions.environment_faults import BefallMachine
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actions.service_faults import FillDisk, KillService, StepClock
from forewarn.simulator.actions.vm_requests import RequestVmOperation
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm


def restart(at: float, vm: str, key: str) -> RequestVmOperation:
    return RequestVmOperation(at=at, who="ann", operation="restart", vm=vm, key=key)


def large_plan() -> Plan:
    """Return a plan with two groups and forty actions of several kinds."""
    vms = tuple(
        PlannedVm(
            f"{group}-{number}",
            group,
            f"h{number % 3 + 1}",
            number,
            0,
            f"10.0.{len(group)}.{number}",
            number == 2,
            "slow",
        )
        for group in ("web", "db")
        for number in range(3)
    )
    actions: list[PlannedAction] = []
    for number in range(10):
        actions += [
            restart(number * 10 + 0.25, f"web-{number % 3}", f"w{number}"),
            restart(number * 10 + 2.5, f"db-{number % 3}", f"d{number}"),
            KillService(at=number * 10 + 5.0, callbacks=number * 100),
            FillDisk(at=number * 10 + 7.0, seconds=30.0)
            if number % 2
            else StepClock(at=number * 10 + 7.0, seconds=-60.0),
        ]
    actions.append(BefallMachine(at=110.0, vm="web-1", what="moved", host="h2"))
    return Plan(
        7,
        60.0,
        ("h1", "h2", "h3"),
        (PlannedGroup("web", "availability-set", '{"approval":"all"}'), PlannedGroup("db", "scale-set")),
        vms,
        {"bob": ("web",), "eve": ("db",)},
        tuple(actions),
        240.0,
        has_sqlite=True,
    )
