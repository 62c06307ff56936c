"""The drivers command and webhook on simulated programs: their records tell after a crash what was done."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation, Vm
from forewarn.node.driver import Impact, ImpactDone, ImpactFailed, ImpactUnderway, ImpactUnknown
from forewarn.simulator.environment.clock import EPOCH, SimulatedClock
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.machines import DriverBehaviour, Machines
from forewarn.simulator.environment.operator_programs import (
    OperatorProgram,
    SimulatedCommandDriver,
    SimulatedWebhookDriver,
)

IMPACT = Impact(
    Event(
        id="11111111-1111-4111-8111-111111111111",
        type=EventType.REBOOT,
        source=EventSource.PLATFORM,
        group="web",
        resources=("web-0",),
        status=EventStatus.STARTED,
        not_before=EPOCH,
        announced_at=EPOCH,
        operation=Operation.HOST_REBOOT,
    ),
    (Vm(name="web-0", group="web", host="h1"),),
    EPOCH,
)


class ProgramHarness:
    """Machines, a program for them, and drivers of one service after another."""

    def __init__(self, directory: Path) -> None:
        random = Random(1)
        self.loop = SimulatedLoop(random)
        self.clock = SimulatedClock(self.loop)
        self.machines = Machines(self.loop)
        self.behaviour = DriverBehaviour()
        self.program = OperatorProgram(self.machines, self.behaviour, self.loop, random)
        self.directory = directory / "driver"
        self.directory.mkdir()

    def command(self, *, remembers: bool = False) -> SimulatedCommandDriver:
        process = SimulatedProcess("service")
        return SimulatedCommandDriver(self.program, process, self.clock, self.directory, live=remembers)

    def webhook(self) -> SimulatedWebhookDriver:
        process = SimulatedProcess("service")
        return SimulatedWebhookDriver(self.program, process, self.loop, self.clock, self.directory, live=False)

    def wait(self, seconds: float) -> None:
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ProgramHarness]:
    harness = ProgramHarness(tmp_path)
    yield harness
    harness.program.lose_power()
    harness.loop.dispose()


def test_a_program_goes_on_without_the_service(harness: ProgramHarness) -> None:
    """The next service finds that it runs, and then its result."""
    assert isinstance(harness.command().perform(IMPACT), ImpactUnderway)
    harness.wait(4.0)

    later = harness.command()
    assert isinstance(later.perform(IMPACT), ImpactUnderway)
    harness.wait(10.0)

    assert later.outcome_of(IMPACT) == ImpactDone()
    assert harness.machines.all["web-0"].boots == 2
    assert harness.machines.wrong == []


@pytest.mark.parametrize(("remembers", "outcome"), [(True, ImpactDone), (False, ImpactUnknown)])
def test_a_program_that_lost_power_is_asked(harness: ProgramHarness, outcome: type, *, remembers: bool) -> None:
    """It is never run a second time; one that remembers nothing leaves the result unknown."""
    harness.command(remembers=remembers).perform(IMPACT)
    harness.wait(4.0)
    harness.program.lose_power()
    harness.wait(10.0)

    assert isinstance(harness.command(remembers=remembers).outcome_of(IMPACT), outcome)
    assert harness.machines.all["web-0"].boots == 2


def test_a_program_fails(harness: ProgramHarness) -> None:
    """Its word is the reason."""
    harness.behaviour.next_faults.append("fails")
    driver = harness.command()
    driver.perform(IMPACT)
    harness.wait(4.0)

    assert driver.outcome_of(IMPACT) == ImpactFailed("exit code 1: the simulated hypervisor refused")


def test_a_receiver_that_does_not_answer_is_asked_again_in_the_same_call(harness: ProgramHarness) -> None:
    """The message arrived; it is carried out once."""
    harness.behaviour.next_faults += ["hangs", "raises"]
    driver = harness.webhook()
    assert isinstance(driver.perform(IMPACT), ImpactUnderway)
    harness.wait(10.0)

    assert harness.webhook().outcome_of(IMPACT) == ImpactDone()
    assert harness.machines.all["web-0"].boots == 2
    assert harness.machines.wrong == []


def test_a_receiver_that_is_never_reached(harness: ProgramHarness) -> None:
    """The driver gives up, and nothing was done."""
    harness.behaviour.next_faults += ["late"] * 50

    assert isinstance(harness.webhook().perform(IMPACT), ImpactFailed)
    assert "web-0" not in harness.machines.all
