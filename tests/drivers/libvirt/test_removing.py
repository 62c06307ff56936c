"""An evicted machine is off and kept, a deleted one is gone."""

from pathlib import Path

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.core.model import EventType, InstanceFacts, Vm
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.problems import LibvirtProblem
from forewarn.node.driver import ImpactDone, ImpactFailed
from tests.drivers.impacts import carried_out, impact
from tests.drivers.libvirt.machines import Machines, when_ended
from tests.drivers.libvirt.two_hosts import UUID, two_hosts


def test_an_evicted_machine_is_off_and_kept(machines: Machines) -> None:
    """Deallocated: libvirt still knows it."""
    vm = machines.define()

    assert carried_out(machines.driver(), machines.impact(EventType.PREEMPT, vm)) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_SHUTOFF


def test_an_evicted_machine_is_saved_where_asked(machines: Machines) -> None:
    """Its memory waits for the next start."""
    vm = machines.define()
    carried_out(machines.driver(evict="save"), machines.impact(EventType.PREEMPT, vm))

    assert machines.domain(vm).hasManagedSaveImage()


def test_a_machine_that_cannot_be_saved_is_not_destroyed(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants its memory kept would rather have it run on."""

    def refuse(_: LibvirtGuest) -> None:
        raise LibvirtProblem("no space left")

    monkeypatch.setattr(LibvirtGuest, "save", refuse)
    vm = machines.define()

    assert carried_out(machines.driver(evict="save"), machines.impact(EventType.PREEMPT, vm)) == ImpactFailed(
        f"no space left; {vm.name} runs on"
    )
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


def test_a_machine_started_again_after_the_eviction_is_left_alone(machines: Machines) -> None:
    """After a crash, one that has another id was stopped, and is somebody else's business."""
    vm = machines.define()
    asked = machines.impact(EventType.PREEMPT, vm)
    with machines.driver()._executor._progress_store.held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        progress_file.note("stopping", vm.name, id=str(machines.domain(vm).ID()))
    machines.domain(vm).destroy()
    machines.domain(vm).create()

    assert when_ended(machines.driver(), asked) == ImpactDone()
    assert machines.state(vm) == libvirt.VIR_DOMAIN_RUNNING


@pytest.mark.parametrize("type", [EventType.PREEMPT, EventType.TERMINATE])
@pytest.mark.parametrize("starts", [True, False])
def test_a_deleted_machine_is_gone(machines: Machines, type: EventType, starts: bool) -> None:  # noqa: FBT001
    """Running or not, libvirt forgets it; its disks stay unless they are to go."""
    vm = machines.define(starts=starts)
    disk = machines.add_disk(vm.name)
    done = carried_out(machines.driver(), machines.impact(type, vm, deletes=True))

    assert done == ImpactDone()
    assert not machines.is_there(vm)
    assert machines.connection.storageVolLookupByPath(disk).path() == disk


def test_disks_are_deleted_where_asked(machines: Machines) -> None:
    """With the machine, and what cannot be deleted is said."""
    vm = machines.define()
    machines.add_disk(vm.name)
    done = carried_out(machines.driver(delete_disks=True), machines.impact(EventType.TERMINATE, vm, deletes=True))

    assert isinstance(done, ImpactDone)
    assert f"a disk was not deleted: disk /default-pool/{vm.name}-swap.img is in no storage pool of h1" in done.detail
    pool = machines.connection.storagePoolLookupByName("default-pool")
    assert f"{vm.name}.img" not in pool.listVolumes()


@pytest.mark.parametrize("uuid", ["", UUID])
@pytest.mark.parametrize("h1", ["off", "gone"])
@pytest.mark.parametrize("deletes", [False, True])
def test_a_machine_that_was_moved_after_a_crash_is_not_called_gone(
    tmp_path: Path, h1: str, uuid: str, *, deletes: bool
) -> None:
    """Another client migrated it before it was stopped: it is deleted where it is, or the eviction fails."""
    driver = two_hosts(tmp_path, h1, "runs")
    asked = impact(EventType.TERMINATE if deletes else EventType.PREEMPT, operation="vm x")
    vm = Vm("web-0", "web", host="h1", instance=InstanceFacts(vm_id=uuid))
    asked = replace(asked, vms=(vm,), deletes=deletes)
    with driver._executor._progress_store.held(asked.event.id) as progress_file:
        progress_file.begin(asked)
        progress_file.note(
            "deleting" if deletes else "stopping", "web-0", uuid=UUID, **({} if deletes else {"id": "1"})
        )

    ended = when_ended(driver, asked)
    there = [domain.name() for domain in driver._hosts.connection("h2").listAllDomains()]
    if deletes:
        assert (ended, there) == (ImpactDone(), [])
    else:
        reason = "web-0 was moved to h2 before it was stopped, and is active there"
        assert (ended, there) == (ImpactFailed(reason, {"web-0": "h2"}), ["web-0"])
    driver.close()
