"""Plans of rollouts, made from the committed fleet, and from what was recorded of earlier events."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn.control.server.rollout_planner import RolloutPlanner
from forewarn.core.facts import Completed
from forewarn.core.model import Host, Vm
from forewarn.core.placement import Capacity, VmDemand
from forewarn.core.rollouts.model import HealthGate, RolloutOperation, RolloutTerms
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import ImpactDone, ImpactUnderway
from forewarn.node.leader import Leader
from forewarn.node.rollout_checks import RolloutChecker
from tests.node.harness import NodeHarness, run
from tests.node.test_performer import ScriptedDriver


def test_a_plan_finds_that_hosts_of_one_wave_have_nowhere_to_move_their_vms() -> None:
    """They cannot take each other's."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        planner = RolloutPlanner(harness.node, journal, RolloutChecker(), None, runs_commands=True, moves_live=False)
        terms = RolloutTerms(operation=RolloutOperation.COMMAND, all_hosts=True, command="update")
        assert (await planner.plan("k", terms)).problems == ()
        together = await planner.plan("k", replace(terms, parallel=2))
        assert "cannot leave h1: no other host is up" in together.problems[0]

    run(story, journal)


class BoundDriver:
    """Knows a VM that can never leave its host."""

    is_silent = False

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def capacity(self, vms: tuple[Vm, ...], hosts: tuple[Host, ...]) -> Capacity:
        self.asked.append(tuple(vm.name for vm in vms))
        if self.is_silent and not hosts:
            raise OSError("no route to host")
        return Capacity(
            vms={vm.name: VmDemand(obstacle="a device is passed through" * (vm.name == "web-1")) for vm in vms}
        )


def test_a_vm_that_can_never_leave_is_found_in_whatever_wave_its_host_is() -> None:
    """The driver is asked once for all hosts after the first; if it does not answer, that is noted."""
    journal, driver = MemoryJournal(), BoundDriver()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        planner = RolloutPlanner(
            harness.node, journal, RolloutChecker(), driver, runs_commands=True, moves_live=False
        )
        terms = RolloutTerms(operation=RolloutOperation.COMMAND, all_hosts=True, command="update")
        plan = await planner.plan("k", terms)
        assert plan.problems == ("VM web-1 cannot leave h2: a device is passed through; move it first",)
        assert driver.asked[1:] == [("web-1",)]
        driver.is_silent = True
        plan = await planner.plan("k", terms)
        assert plan.problems == ()
        assert plan.notes[-1].startswith("whether all VMs can leave the hosts of later waves is not known: ")

    run(story, journal)


@pytest.mark.end_to_end
def test_a_gate_that_fails_now_is_noted(tmp_path: Path) -> None:
    """The plan counts from when the gate had answered; one that cannot be run is a problem."""
    program = tmp_path / "gate"
    program.write_text("#!/bin/sh\necho disks are full\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True, gate=HealthGate(command="gate"))
    journal = MemoryJournal()

    class SlowChecker(RolloutChecker):
        def try_out(self, terms: RolloutTerms) -> tuple[str, ...]:
            harness.clock.advance(timedelta(seconds=20))
            return super().try_out(terms)

    harness: NodeHarness

    async def story(given: NodeHarness) -> None:
        nonlocal harness
        harness = given
        await harness.add_fleet()
        planner = RolloutPlanner(
            harness.node, journal, SlowChecker(tmp_path), None, runs_commands=True, moves_live=False
        )
        began = harness.clock.now()
        plan = await planner.plan("k", terms)
        assert plan.notes[0].startswith("the gate fails now: gate: ")
        assert "disks are full" in plan.notes[0]
        assert plan.prediction is not None
        assert plan.prediction.made_at == began + timedelta(seconds=20)
        missing = await planner.plan("k", replace(terms, gate=HealthGate(command="other")))
        assert "there is no program 'other'" in missing.problems[0]

    run(story, journal)


@pytest.mark.parametrize("is_immediate", [False, True])
def test_a_changed_driver_has_no_experience(*, is_immediate: bool) -> None:
    """What the journal tells of an operation is recorded with the driver that the settings name."""
    journal = MemoryJournal()
    terms = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        harness.node.driver_name = "libvirt"
        driver = ScriptedDriver(ImpactUnderway(harness.clock.now() + timedelta(seconds=30)), ImpactDone())
        driver.is_immediate = is_immediate
        leader = Leader(harness.node, driver)
        await leader.lead()
        done = harness.next(Completed)
        await harness.approve(*(await harness.operate_host("reboot", "h2")))
        while not driver.asked or leader.busy:
            await asyncio.to_thread(bool)
        harness.clock.advance(timedelta(seconds=30))
        await done
        await leader.resign()
        for name, recorded in (("libvirt", 30.0), ("qemu", 0.0)):
            harness.node.driver_name = name
            planner = RolloutPlanner(
                harness.node, journal, RolloutChecker(), None, runs_commands=True, moves_live=False
            )
            assert (await planner.plan("k", terms)).recorded.host == recorded

    run(story, journal)
