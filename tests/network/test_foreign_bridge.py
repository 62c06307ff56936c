"""Bridges of other programs: never created, and looked after when they come back."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import libvirt
import pytest

from tests.network.namespaces import PATIENCE, SERVICE, Hypervisor, hypervisor
from tests.network.test_link_local import FLEET

pytestmark = pytest.mark.end_to_end

HOOK = Path(__file__).parents[2] / "deploy" / "libvirt" / "forewarn"
RETRYING = ("--max-time", "60", "--retry", "30", "--retry-delay", "1", "--retry-all-errors")
"""A bridge passes nothing on while it listens for loops."""
FOREIGN = '[network]\nbridge = "virbr0"\n'
NETWORK = """
<network>
  <name>default</name>
  <forward mode="nat"/>
  <bridge name="virbr0"/>
  <ip address="10.0.0.254" netmask="255.255.255.0"/>
</network>
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Hypervisor]:
    with hypervisor(tmp_path) as machine:
        yield machine


@contextmanager
def libvirtd(machine: Hypervisor) -> Iterator[libvirt.virConnect]:
    """Run libvirt on the machine, with our hook."""
    script = Path(__file__).with_name("libvirtd.sh")
    directory = machine.directory
    hook = directory / "hook"
    hook.write_text(HOOK.read_text("utf-8").replace("/etc/forewarn", str(directory)))
    path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
    with (directory / "libvirtd.log").open("w") as log:
        daemon = subprocess.Popen(
            machine.inside("env", path, "unshare", "--mount", "sh", str(script), str(directory), str(hook)),
            stdin=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not (directory / "libvirt-sock").exists():
            assert daemon.poll() is None, (directory / "libvirtd.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        connection = libvirt.open(f"qemu+unix:///system?socket={directory}/libvirt-sock")
        try:
            yield connection
        finally:
            for network in connection.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE):
                network.destroy()  # its dnsmasq would go on
            connection.close()
    finally:
        daemon.terminate()
        daemon.wait()


def test_a_missing_bridge_of_another_program_is_not_created_but_told(machine: Hypervisor) -> None:
    """Rules and switches are in force before it comes; once it is there, setup puts the address on it."""
    machine.settings(FLEET, f'identity = "mark"\n{FOREIGN}')
    done = subprocess.run(
        machine.inside(sys.executable, "-m", "forewarn", "network", "setup"),
        capture_output=True,
        text=True,
        check=False,
        cwd=machine.directory,
    )
    assert done.returncode == 1
    assert "the bridge virbr0 does not exist, and setup creates only a bridge" in done.stderr
    assert "virsh net-start" in done.stderr
    assert "virbr0" not in machine.run("ip", "link")
    assert "missing: the bridge virbr0 does not exist" in machine.forewarn("network", "check", is_sure=False)
    assert "wrong   network   the bridge virbr0 does not exist" in machine.forewarn("doctor", is_sure=False)

    machine.run("ip", "link", "add", "virbr0", "type", "bridge")
    machine.forewarn("network", "setup")
    assert f"inet {SERVICE}/32" in machine.run("ip", "address", "show", "virbr0")
    machine.forewarn("network", "teardown")
    assert "virbr0" in machine.run("ip", "link")


def test_a_network_of_libvirt_starts_after_setup_and_is_restarted_under_a_guest(machine: Hypervisor) -> None:
    """Setup comes first and leaves the bridge to libvirt; the hook puts address and routes back each time."""
    machine.settings(FLEET, f'identity = "mark"\n{FOREIGN}')
    machine.forewarn("network", "setup", is_sure=False)
    with libvirtd(machine) as connection:
        network = connection.networkDefineXML(NETWORK)
        network.create()
        guest = machine.guest(1, bridge="virbr0")
        machine.serve()
        assert guest.ask(*RETRYING) == "honest"
        machine.forewarn("network", "check")

        network.destroy()
        assert SERVICE not in machine.run("ip", "address")
        network.create()
        machine.run("ip", "link", "set", "tap1", "master", "virbr0")  # libvirt does that for its own guests
        assert guest.ask(*RETRYING) == "honest"
        machine.forewarn("network", "check")
