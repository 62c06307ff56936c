"""Simulated machines: what is done to them is reported when it has its effect."""

from random import Random

import pytest

from forewarn.core.model import EventType, Vm
from forewarn.simulator.environment.loop import SimulatedLoop
from forewarn.simulator.environment.machines import Machines

VM = Vm(name="web-0", group="web", host="h1")


@pytest.mark.parametrize(
    ("type_", "runs_before", "runs_after"),
    [(EventType.PREEMPT, True, False), (EventType.TERMINATE, True, False), (EventType.REBOOT, False, True)],
)
def test_an_operation_is_reported_when_it_has_its_effect(
    type_: EventType, *, runs_before: bool, runs_after: bool
) -> None:
    """The guest follows its machine: it ends with one that stops, and boots with one that starts."""
    loop = SimulatedLoop(Random(1))
    machines = Machines(loop)
    machines.of(VM).is_running = runs_before
    reported: list[bool] = []
    machines.on_operation = lambda *_: reported.append(machines.of(VM).is_running)

    machines.operate("e", VM, type_, "", deletes=False)
    loop.close()

    assert reported == [runs_after]
