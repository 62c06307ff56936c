"""A machine starts over once, whether it listens or not, whenever a crash comes."""

import libvirt
import pytest

from forewarn.core.model import EventType, Vm
from forewarn.node.driver import Done, Unknowable
from tests.drivers.libvirt.machines import Machines, crash_at, when_ended


def reason(machines: Machines, vm: Vm) -> int:
    return int(machines.domain(vm).state()[1])


def test_a_reboot_is_known_by_the_mark(machines: Machines) -> None:
    """A machine that was asked to reboot and did has lost the mark that it was given."""
    vm = machines.define()

    assert machines.driver(grace="1s").perform(machines.impact(EventType.REBOOT, vm)) == Done()
    assert reason(machines, vm) == libvirt.VIR_DOMAIN_RUNNING_BOOTED


def test_a_reboot_lost_in_a_crash_is_not_repeated(machines: Machines) -> None:
    """After a crash the mark tells that the machine has started over."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    driver = machines.driver()
    with driver._ledger.held(asked.event.id) as page:
        page.begin(asked)
        page.note("marking", vm.name, id=str(machines.domain(vm).ID()))
        page.note("asked", vm.name, id=str(machines.domain(vm).ID()))

    assert when_ended(machines.driver(), asked) == Done()


def marked(machines: Machines, vm: Vm) -> None:
    machines.domain(vm).suspend()
    machines.domain(vm).resume()


def test_a_machine_that_does_not_listen_is_reset(machines: Machines) -> None:
    """When its grace is over and the mark still stands, it is reset; and that once."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    driver = machines.driver()
    with driver._ledger.held(asked.event.id) as page:
        page.begin(asked)
        page.note("asked", vm.name, id=str(machines.domain(vm).ID()))
    marked(machines, vm)

    assert when_ended(machines.driver(grace="0s"), asked) == Done(detail=f"{vm.name} did not go down within 0 s")
    with driver._ledger.held(asked.event.id) as page:
        assert [step.name for step in page.steps] == ["asked", "resetting", "reset"]


def test_a_reset_lost_in_a_crash_is_not_repeated(machines: Machines) -> None:
    """Whether the reset came about nobody can tell, and nobody guesses."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    with machines.driver()._ledger.held(asked.event.id) as page:
        page.begin(asked)
        page.note("asked", vm.name, id="1")
        page.note("resetting", vm.name)

    assert when_ended(machines.driver(), asked) == Unknowable(f"nobody saw whether {vm.name} was reset")


@pytest.mark.parametrize("steps", [0, 1])
def test_a_reboot_that_was_not_asked_for_yet_is_asked_for(machines: Machines, steps: int) -> None:
    """Cut off before the machine was asked, even while it was being marked, the reboot comes about."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    crash_at(machines, asked, steps)
    if steps:
        machines.domain(vm).suspend()

    assert when_ended(machines.driver(), asked) == Done()
    assert reason(machines, vm) == libvirt.VIR_DOMAIN_RUNNING_BOOTED


def test_a_machine_that_is_off_is_started_by_a_reboot(machines: Machines) -> None:
    """Who asks for a restart wants it to run."""
    vm = machines.define(starts=False)

    assert machines.driver().perform(machines.impact(EventType.REBOOT, vm)) == Done(
        detail=f"{vm.name} did not run and was started"
    )
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
