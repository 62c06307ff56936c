"""A machine that disappears between two calls about it."""

import libvirt
import pytest

from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from tests.drivers.libvirt.machines import URI, Machines


@pytest.mark.parametrize("lookups", [0, 1])
def test_a_machine_that_disappears_meanwhile_has_no_job(machines: Machines, lookups: int) -> None:
    """The target of a migration whose client was killed: libvirt removes it while the driver waits for its job."""
    vm = machines.define()

    class Vanishing(LibvirtHosts):
        left = lookups

        def domain(self, host: str, name: str, uuid: str = "", *, by_name: bool = True) -> libvirt.virDomain:
            if self.left == 0:
                machines.domain(vm).destroy()
                machines.domain(vm).undefine()
            self.left -= 1
            return super().domain(host, name, uuid, by_name=by_name)

    hosts = Vanishing({"h1": URI}, "")
    try:
        assert not LibvirtGuest(hosts, vm).has_job()
    finally:
        hosts.close()
