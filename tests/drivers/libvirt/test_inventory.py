"""What libvirt knows of its machines."""

from forewarn.drivers.libvirt.inventory import read_inventory
from tests.drivers.libvirt.machines import URI, Machines


def test_a_machine_is_told_with_all_that_names_it(machines: Machines) -> None:
    """Name, UUID and MAC address always; tap and address while it runs."""
    vm, off = machines.define(), machines.define(starts=False)
    found = {machine.name: machine for machine in read_inventory(machines.connection, "h1", URI).machines}

    runs = found[vm.name]
    assert runs.uuid == vm.instance.vm_id
    assert runs.mac_address.startswith("52:54:00:")
    assert runs.address.startswith("192.168.")
    assert found[off.name].address == ""


def test_a_host_is_named_as_it_is_told_or_as_it_names_itself(machines: Machines) -> None:
    """Without its domain."""
    assert read_inventory(machines.connection, "h7", URI).host == "h7"
    assert read_inventory(machines.connection, "", URI).host == machines.connection.getHostname().partition(".")[0]
