"""What is said of hosts and machines that libvirt does not answer for."""

import shutil
from pathlib import Path

from forewarn.clocks import SystemClock
from forewarn.core.model import Vm
from forewarn.drivers.libvirt.checking import lack_of_room
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.node.driver import Checking
from tests.drivers.libvirt.machines import Machines


def test_every_host_and_machine_that_cannot_be_reached_is_told() -> None:
    """A host once, however many machines are on it; the machine that libvirt knows is not told of."""
    hosts = {"h1": "test:///default", "h2": "qemu+unix:///system?socket=/nowhere", "h3": "qemu:///embed?root=/x"}
    driver = LibvirtDriver.from_settings({"hosts": hosts}, SystemClock(), 1.0)
    vms = (
        Vm("test", "web", "h1"),
        Vm("missing", "web", "h1"),
        Vm("a", "web", "h2"),
        Vm("b", "web", "h2"),
        Vm("within", "web", "h3"),
        Vm("gone", "web", "h1", deallocated=True),
    )
    assert isinstance(driver, Checking)
    told = driver.check(vms)
    driver.close()

    assert told[0] == "missing does not run on h1; start it, or 'forewarn vm deallocate missing' if it is not to run"
    assert told[1].startswith("libvirt on h2 (qemu+unix:///system?socket=/nowhere) cannot be reached: ")
    assert len(told) == 2


def test_an_ephemeral_disk_that_cannot_be_made_anew_is_told(machines: Machines) -> None:
    """One in no storage pool; of one that is in a pool nothing is said."""
    vm, fine = machines.define(), machines.define()
    machines.add_disk(f"{fine.name}-swap")

    assert machines.driver(ephemeral_disks=["vdb"]).check((vm, fine)) == (
        f"disk /default-pool/{vm.name}-swap.img is in no storage pool of h1; define one for its directory",
    )


def test_a_lack_of_room_for_saved_machines_is_told(tmp_path: Path) -> None:
    """With what is free and what is needed; a place that is not there tells nothing."""
    free = shutil.disk_usage(tmp_path).free
    (told,) = lack_of_room(str(tmp_path), free * 2)

    assert told.startswith(f"{tmp_path} has ")
    assert told.endswith('MiB; free some space there, or set evict = "stop"')
    assert list(lack_of_room(str(tmp_path), 0)) == []
    assert list(lack_of_room(str(tmp_path / "missing"), free * 2)) == []
