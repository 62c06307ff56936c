"""What is said of hosts and machines that libvirt does not answer for."""

from forewarn.clocks import SystemClock
from forewarn.core.model import Vm
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.node.driver import Checking


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
