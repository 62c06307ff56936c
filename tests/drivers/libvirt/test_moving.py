"""A redeploy in place starts machines anew, with empty ephemeral disks."""

from pathlib import Path

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.core.model import EventType, Operation, Vm
from forewarn.drivers.libvirt import moving
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.problems import LibvirtUnreachable
from forewarn.node.driver import ImpactDone, ImpactFailed
from tests.drivers.impacts import carried_out, impact
from tests.drivers.libvirt.machines import FELT, Machines, crash_at, when_ended
from tests.drivers.libvirt.two_hosts import two_hosts


def test_a_redeploy_in_place_makes_ephemeral_disks_anew(machines: Machines) -> None:
    """The machine starts over, its ephemeral disk is empty again, the others stay."""
    vm = machines.define()
    kept, swap = machines.add_disk(vm.name), machines.add_disk(f"{vm.name}-swap", size=3 << 20)
    before = machines.domain(vm).ID()
    pool = machines.connection.storagePoolLookupByName("default-pool")
    pool.storageVolLookupByName(f"{vm.name}-swap.img").delete()
    pool.createXML(
        f"<volume><name>{vm.name}-swap.img</name><capacity>{3 << 20}</capacity><allocation>4096</allocation></volume>"
    )
    driver = machines.driver(redeploy="restart", ephemeral_disks=["vdb"])

    assert carried_out(driver, machines.impact(EventType.REDEPLOY, vm)) == ImpactDone()
    assert machines.domain(vm).ID() not in {before, -1}
    assert machines.sizes(kept) == [1 << 20, 1 << 20]
    assert machines.sizes(swap) == [3 << 20, 0]


def test_a_disk_in_no_pool_cannot_be_made_anew(machines: Machines) -> None:
    """The event fails with that sentence, the remedy stands in it, and the machine was not even stopped."""
    vm = machines.define()
    failed = carried_out(
        machines.driver(redeploy="restart", ephemeral_disks=["vdb"]), machines.impact(EventType.REDEPLOY, vm)
    )

    assert failed == ImpactFailed(
        f"disk /default-pool/{vm.name}-swap.img is in no storage pool of h1; define one for its directory"
    )
    assert machines.times(vm.name, *FELT[EventType.REDEPLOY]) == 0


@pytest.mark.parametrize("steps", [1, 2])
def test_a_machine_stopped_by_a_crash_half_way_is_started(machines: Machines, steps: int) -> None:
    """A redeploy that was cut off after the stop goes on with the start."""
    vm = machines.define()
    asked = machines.impact(EventType.REDEPLOY, vm)
    crash_at(machines, asked, steps, redeploy="restart")

    assert when_ended(machines.driver(redeploy="restart"), asked) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING
    assert machines.times(vm.name, *FELT[EventType.REDEPLOY]) == 1


def test_a_disk_that_a_crash_left_deleted_is_made_from_the_record(machines: Machines) -> None:
    """What it was like is recorded before it is deleted."""
    vm = machines.define()
    disk = machines.add_disk(f"{vm.name}-swap", size=3 << 20)
    settings = {"redeploy": "restart", "ephemeral_disks": ["vdb"]}
    asked = machines.impact(EventType.REDEPLOY, vm)
    crash_at(machines, asked, 2, **settings)
    machines.connection.storageVolLookupByPath(disk).delete()

    assert when_ended(machines.driver(**settings), asked) == ImpactDone()
    assert machines.sizes(disk)[0] == 3 << 20
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_a_machine_that_is_off_stays_off_when_its_host_is_redeployed(machines: Machines) -> None:
    """Where it cannot leave its host, nothing happens to it."""
    vm = machines.define(starts=False)
    asked = machines.impact(EventType.REDEPLOY, vm, operation="host redeploy")

    done = carried_out(machines.driver(redeploy="restart"), asked)
    assert done == ImpactDone(detail=f"{vm.name} did not run and stays off")
    assert machines.state(vm) == libvirt.VIR_DOMAIN_SHUTOFF


def test_a_machine_is_started_once_its_host_answers_again(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped by us, and does not stay off because nobody could be reached for a moment."""
    vm = machines.define()
    start, silences = LibvirtGuest.start, ["once"]

    def start_or_not(guest: LibvirtGuest) -> None:
        if silences:
            silences.pop()
            raise LibvirtUnreachable("libvirt on h1 cannot be reached")
        start(guest)

    monkeypatch.setattr(LibvirtGuest, "start", start_or_not)

    assert carried_out(machines.driver(redeploy="restart"), machines.impact(EventType.REDEPLOY, vm)) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


@pytest.mark.parametrize("operation", [Operation.HOST_FAIL, Operation.VM_FAIL])
def test_a_machine_that_failed_is_started_anew(machines: Machines, operation: str) -> None:
    """It is not moved, for there is nothing left that runs."""
    vm = machines.define(starts=False)
    asked = machines.impact(EventType.REDEPLOY, vm, operation=operation)

    assert carried_out(machines.driver(), asked) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


@pytest.mark.parametrize("found", ["runs", "is paused"])
def test_a_machine_that_another_client_started_after_its_crash_is_left_alone(machines: Machines, found: str) -> None:
    """The event that announces its failure ends Completed, and says so; nothing happens to the machine."""
    vm = machines.define()
    if found == "is paused":  # as libvirt shows it while it starts
        machines.domain(vm).suspend()
    before = machines.domain(vm).ID()
    done = carried_out(machines.driver(), machines.impact(EventType.REDEPLOY, vm, operation=Operation.VM_FAIL))

    assert done == ImpactDone(
        detail=f"{vm.name} {found}: another client of libvirt started it, and it was left alone"
    )
    assert machines.domain(vm).ID() == before


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_machine_that_the_driver_itself_started_after_its_crash_is_known(machines: Machines, steps: int) -> None:
    """The service died in between."""
    vm = machines.define(starts=False)
    asked = machines.impact(EventType.REDEPLOY, vm, operation=Operation.VM_FAIL)
    crash_at(machines, asked, steps)

    assert when_ended(machines.driver(), asked) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_a_machine_of_a_failed_host_is_started_anew_though_it_runs(machines: Machines) -> None:
    """An operator said that its host has failed; nobody saw the machine itself end."""
    vm = machines.define()
    before = machines.domain(vm).ID()

    asked = machines.impact(EventType.REDEPLOY, vm, operation=Operation.HOST_FAIL)
    assert carried_out(machines.driver(), asked) == ImpactDone()
    assert machines.domain(vm).ID() not in {before, -1}


def test_a_machine_that_libvirt_does_not_keep_is_not_stopped(machines: Machines) -> None:
    """What could not be started again stays as it is, and the reason says why."""
    vm = machines.define()
    machines.domain(vm).undefine()
    failed = carried_out(machines.driver(redeploy="restart"), machines.impact(EventType.REDEPLOY, vm))

    assert failed == ImpactFailed(f"{vm.name} cannot be restarted: libvirt on h1 does not keep its definition")
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_a_disk_of_a_machine_that_runs_elsewhere_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client migrated it after a crash of the service, and it uses the disk on its new host."""
    emptied: list[object] = []
    monkeypatch.setattr(moving, "_ephemeral", lambda *_: ["/disks/scratch"])
    monkeypatch.setattr(moving, "_empty", lambda *given: emptied.append(given))
    driver = two_hosts(tmp_path, "off", "runs", redeploy="restart")
    asked = replace(impact(EventType.REDEPLOY, operation="vm redeploy"), vms=(Vm("web-0", "web", host="h1"),))
    with driver._executor._progress_store.held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        progress_file.note("stopping", "web-0", id="1")

    failed = when_ended(driver, asked)
    assert failed == ImpactFailed("web-0 is active on h2, so it was not started on h1")
    assert emptied == []
    driver.close()
