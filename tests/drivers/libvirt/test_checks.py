"""What is said of hosts and machines that libvirt does not answer for."""

import shutil
from pathlib import Path

import pytest

from forewarn.clocks import SystemClock
from forewarn.core.model import InstanceFacts, Vm
from forewarn.drivers.libvirt.checks import lack_of_room
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.node.driver import SupportsCheck
from tests.drivers.libvirt.machines import Machines
from tests.drivers.libvirt.two_hosts import UUID, two_hosts


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
    assert isinstance(driver, SupportsCheck)
    result = driver.check(vms)
    driver.close()

    assert result[0] == (
        "missing does not run on h1, and may run on h2, which does not answer; "
        "do not start it before that host answers"
    )
    assert result[1].startswith("libvirt on h2 (qemu+unix:///system?socket=/nowhere) cannot be reached: ")
    assert len(result) == 2


def copy_on(host: str, other: str) -> str:
    return (
        f"web-0 is on {other}, but {host} defines it too, so it could be started twice; remove that copy: "
        f"'virsh -c test:///PLACE/{host}.xml undefine web-0'"
    )


MOVED = (
    "web-0 is on h2, but the fleet has it on h1; a service that reaches both hosts records the move itself, "
    "else run 'forewarn vm move web-0 h2 --record'"
)
DOWN = "web-0 does not run on h1; start it, or 'forewarn vm deallocate web-0' if it is not to run"
TWICE = "web-0 runs on h1 and h2 at once; stop it with 'virsh destroy' where it must not run, and undefine it there"


@pytest.mark.parametrize("vm_id", ["", UUID])
@pytest.mark.parametrize(
    ("h1", "h2", "result"),
    [
        ("runs", "gone", []),
        ("runs", "off", [copy_on("h2", "h1")]),
        ("off", "runs", [copy_on("h1", "h2"), MOVED]),
        ("gone", "runs", [MOVED]),
        ("off", "off", [DOWN, copy_on("h2", "h1")]),
        ("runs", "runs", [TWICE]),
    ],
)
def test_a_machine_on_two_hosts_is_told_with_the_right_advice(
    tmp_path: Path, h1: str, h2: str, result: list[str], vm_id: str
) -> None:
    """Nothing is advised that starts a second copy."""
    driver = two_hosts(tmp_path, h1, h2)
    found = driver.check((Vm("web-0", "web", "h1", instance=InstanceFacts(vm_id=vm_id)),))
    driver.close()

    assert list(found) == [each.replace("PLACE", str(tmp_path).lstrip("/")) for each in result]


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
    (result,) = lack_of_room(str(tmp_path), free * 2)

    assert result.startswith(f"{tmp_path} has ")
    assert result.endswith('MiB; free some space there, or set evict = "stop"')
    assert list(lack_of_room(str(tmp_path), 0)) == []
    assert list(lack_of_room(str(tmp_path / "missing"), free * 2)) == []
