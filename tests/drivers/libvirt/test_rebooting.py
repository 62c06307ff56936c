"""A machine starts over once, whether it listens or not, whenever a crash comes.

libvirt's test hypervisor tells nobody of a reboot; that it is heard is held with real guests.
"""

import libvirt

from forewarn.core.model import EventType, Vm
from forewarn.node.driver import Done, Impact, Unknowable
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.machines import Machines, crash_at, when_ended


def steps_of(machines: Machines, asked: Impact) -> list[str]:
    return [step.name for step in machines.driver()._workshop._ledger.read(asked.event.id).steps]


def write(machines: Machines, asked: Impact, vm: Vm, *more: str) -> None:
    """Write down that a machine was asked by somebody who died."""
    with machines.driver()._workshop._ledger.held(asked.event.id) as page:
        page.begin(asked)
        page.note("asked", vm.name, id=str(machines.domain(vm).ID()), ear="another", reboots="0")
        for name in more:
            page.note(name, vm.name)


def test_a_machine_that_does_not_listen_is_reset(machines: Machines) -> None:
    """When its grace is over and nothing was heard of it, it is reset, and the detail says so."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)

    assert carried_out(machines.driver(grace="0s"), asked) == Done(detail=f"{vm.name} did not go down within 0 s")
    assert steps_of(machines, asked) == ["asked", "resetting", "reset"]


def test_nothing_is_reset_on_suspicion(machines: Machines) -> None:
    """Asked before a crash, and nothing heard after it: nobody knows, and nobody guesses."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    write(machines, asked, vm)

    assert when_ended(machines.driver(grace="0s"), asked) == Unknowable(
        f"{vm.name} was asked to reboot, and nobody listened all the time whether it did"
    )
    assert steps_of(machines, asked) == ["asked"]


def test_a_machine_that_was_started_since_has_started_over(machines: Machines) -> None:
    """Another id tells it, also after a crash."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    write(machines, asked, vm)
    machines.domain(vm).destroy()
    machines.domain(vm).create()

    assert when_ended(machines.driver(), asked) == Done()


def test_a_machine_that_went_down_for_good_is_started(machines: Machines) -> None:
    """Where libvirt did not bring it up again, we do."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    write(machines, asked, vm)
    machines.domain(vm).destroy()

    assert when_ended(machines.driver(), asked) == Done()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_a_reset_lost_in_a_crash_is_not_repeated(machines: Machines) -> None:
    """Whether the reset came about nobody can tell."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    write(machines, asked, vm, "resetting")

    assert when_ended(machines.driver(grace="0s"), asked) == Unknowable(f"nobody saw whether {vm.name} was reset")


def test_a_reset_on_record_is_the_end(machines: Machines) -> None:
    """What was reset before the crash is done."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    write(machines, asked, vm, "resetting", "reset")

    assert when_ended(machines.driver(), asked) == Done()


def test_a_reboot_that_was_not_asked_for_yet_is_asked_for(machines: Machines) -> None:
    """Cut off before the machine was asked, the reboot comes about."""
    vm = machines.define()
    asked = machines.impact(EventType.REBOOT, vm)
    crash_at(machines, asked, 0)

    assert isinstance(when_ended(machines.driver(grace="0s"), asked), Done)
    assert steps_of(machines, asked) == ["asked", "resetting", "reset"]


def test_a_machine_that_is_off_is_started_by_a_reboot(machines: Machines) -> None:
    """Who asks for a restart wants it to run."""
    vm = machines.define(starts=False)

    assert carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm)) == Done(
        detail=f"{vm.name} did not run and was started"
    )
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
