"""No machine stays paused, whatever happens."""

import threading
from typing import Any

import libvirt
import pytest

from forewarn.core.model import EventType
from forewarn.drivers.libvirt.problems import LibvirtProblem
from forewarn.node.driver import ImpactDone, ImpactFailed
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.machines import FELT, Machines, crash_at, wait_for, when_ended


def test_a_machine_that_does_not_run_is_not_frozen(machines: Machines) -> None:
    """There is nothing to freeze, and nothing is started."""
    off, paused = machines.define(starts=False), machines.define()
    machines.domain(paused).suspend()
    done = carried_out(machines.driver(), machines.impact(EventType.FREEZE, off, paused))

    assert done == ImpactDone(detail=f"{off.name} did not run; {paused.name} did not run")
    assert machines.state(off) == libvirt.VIR_DOMAIN_SHUTOFF
    assert machines.state(paused) == libvirt.VIR_DOMAIN_PAUSED


def test_a_freeze_that_fails_for_one_leaves_none_paused(machines: Machines) -> None:
    """Where one machine is missing, the others go on, and the reason names it."""
    vm, gone = machines.define(), machines.define()
    machines.domain(gone).suspend()
    asked = machines.impact(EventType.FREEZE, vm, gone, duration=60)
    crash_at(machines, asked, steps=1)
    assert machines.state(vm) == libvirt.VIR_DOMAIN_PAUSED
    driver: Any = machines.driver()
    find = driver._hosts.domain

    def find_all_but_one(host: str, name: str, uuid: str = "", *, by_name: bool = True) -> libvirt.virDomain:
        if name == gone.name:
            raise LibvirtProblem("it cannot be found")
        found: libvirt.virDomain = find(host, name, uuid, by_name=by_name)
        return found

    driver._hosts.domain = find_all_but_one
    outcome = when_ended(driver, asked)

    assert isinstance(outcome, ImpactFailed)
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_stopping_the_service_leaves_no_machine_paused(machines: Machines) -> None:
    """A freeze that is under way when the driver is closed ends early."""
    vm, driver = machines.define(), machines.driver()
    asked = machines.impact(EventType.FREEZE, vm, duration=60)
    performing = threading.Thread(target=driver.perform, args=(asked,), daemon=True)
    performing.start()
    wait_for(lambda: machines.state(vm) == libvirt.VIR_DOMAIN_PAUSED)
    driver.close()
    performing.join(60)

    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_machine_left_paused_by_a_crash_goes_on(machines: Machines, steps: int) -> None:
    """Whether the crash came before or after it was written down that all are frozen, or that all go on."""
    vm = machines.define()
    asked = machines.impact(EventType.FREEZE, vm)
    crash_at(machines, asked, steps)

    assert when_ended(machines.driver(), asked) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
    assert machines.times(vm.name, *FELT[EventType.FREEZE]) == 1
