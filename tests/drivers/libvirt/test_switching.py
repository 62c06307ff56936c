"""A machine is started and stopped as asked, and one that is there already is left alone."""

import threading
from pathlib import Path

import libvirt
import pytest

from forewarn.core.model import InstanceFacts, Vm
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.node.driver import ImpactDone, ImpactFailed, ImpactOutcome, ImpactUnderway
from tests.drivers.libvirt.machines import Machines
from tests.drivers.libvirt.two_hosts import UUID, two_hosts

STARTED = libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED


def switched(driver: LibvirtDriver, vm: Vm, *, on: bool) -> ImpactOutcome:
    outcome = driver.switch(vm, on=on)
    while isinstance(outcome, ImpactUnderway):
        threading.Event().wait(0.01)
        outcome = driver.switch(vm, on=on)
    return outcome


def test_a_machine_is_stopped_and_started(machines: Machines) -> None:
    """Asked again, nothing is done a second time."""
    vm, driver = machines.define(), machines.driver()

    assert switched(driver, vm, on=False) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_SHUTOFF
    assert switched(driver, vm, on=False) == ImpactDone(detail="it did not run")
    assert switched(driver, vm, on=True) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
    assert switched(driver, vm, on=True) == ImpactDone(detail="it ran already")
    assert machines.times(vm.name, *STARTED) == 2


def test_a_machine_that_does_not_listen_is_destroyed(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its grace is over."""
    monkeypatch.setattr(LibvirtGuest, "ask_to_go_down", lambda _: None)
    vm = machines.define()

    done = switched(machines.driver(grace="0s"), vm, on=False)
    assert done == ImpactDone(detail="it did not shut down within 0 s and was destroyed")
    assert machines.state(vm) == libvirt.VIR_DOMAIN_SHUTOFF


def test_a_machine_that_could_not_be_started_again_is_not_stopped(machines: Machines) -> None:
    """Libvirt forgets a transient one when it goes down."""
    vm = machines.define()
    machines.domain(vm).undefine()

    failed = switched(machines.driver(), vm, on=False)
    assert failed == ImpactFailed(
        f"{vm.name} could not be started again: libvirt on h1 does not keep its definition; it runs on"
    )
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_what_cannot_be_started_says_why(machines: Machines) -> None:
    """One that nobody knows, and one that is paused."""
    paused, driver = machines.define(), machines.driver()
    machines.domain(paused).suspend()

    absent = switched(driver, Vm("nobody", "web", "h1"), on=True)
    assert absent == ImpactFailed("libvirt on h1 has no domain nobody; list its domains with 'virsh list --all'")
    failed = switched(driver, paused, on=True)
    assert failed == ImpactFailed(f"{paused.name} is paused on h1; see virsh domstate {paused.name} --reason")


def test_what_the_driver_does_itself_is_no_sighting(machines: Machines) -> None:
    """Nobody else stopped it."""
    vm, driver = machines.define(), machines.driver()
    machines.settle(vm)
    seen: list[object] = []
    driver.watch(seen.append)
    switched(driver, vm, on=False)
    switched(driver, vm, on=True)

    assert seen == []


def test_where_a_machine_is_that_was_switched_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may run elsewhere already, and the request explains what is seen while it stands."""
    driver, asked = two_hosts(tmp_path, "off", "runs"), list[tuple[str, ...]]()
    monkeypatch.setattr(driver._move_detector, "ask", lambda *machine: asked.append(machine))
    vm = Vm("web-0", "web", host="h1", instance=InstanceFacts(vm_id=UUID))

    assert switched(driver, vm, on=True) == ImpactDone(detail="it ran already, on h2")
    assert asked == [("web-0", UUID)]
    driver.close()


def test_a_machine_that_is_moved_while_it_is_stopped_is_not_called_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client migrated it instead: its old host has it no more, and it runs on."""
    driver = two_hosts(tmp_path, "runs", "off")

    def migrate(guest: LibvirtGuest) -> None:
        driver._hosts.connection("h2").lookupByName("web-0").create()
        guest.domain().destroy()

    monkeypatch.setattr(LibvirtGuest, "ask_to_go_down", migrate)
    failed = switched(driver, Vm("web-0", "web", host="h1"), on=False)

    assert failed == ImpactFailed("web-0 was moved to h2 before it was stopped, and is active there")
    driver.close()
