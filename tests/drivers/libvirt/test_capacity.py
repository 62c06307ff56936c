"""What hosts have left and what machines take is what libvirt tells."""

from typing import Any

import libvirt

from forewarn.core.model import Host, Vm
from forewarn.core.placement import VmDemand
from tests.drivers.libvirt.machines import Machines

MIB = 1024 * 1024


def test_running_machines_take_of_their_host(machines: Machines) -> None:
    """Memory to the most that they may use, and CPUs by the ratio."""
    driver = machines.driver(cpu_ratio=2.0, spare_memory=100)
    before = driver.capacity((), (Host("h1"),)).hosts["h1"]
    vm = machines.define()
    after = driver.capacity((vm,), (Host("h1"),))

    cpus = int(machines.connection.getInfo()[2])
    used: list[Any] = [
        domain.info() for domain in machines.connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
    ]
    assert after.hosts["h1"].cpus == 2 * cpus - sum(info[3] for info in used)
    total = int(machines.connection.getInfo()[1])
    assert after.hosts["h1"].memory <= (total - sum(info[1] for info in used) // 1024 - 100) * MIB
    assert before.memory - after.hosts["h1"].memory <= 64 * MIB
    assert after.vms == {vm.name: VmDemand(64 * MIB, 1)}


def test_a_host_that_does_not_answer_is_unusable(machines: Machines) -> None:
    """And says why, as does one that the settings do not have."""
    driver = machines.driver(hosts={"h1": "test:///default", "h2": "test:///nowhere"})
    told = driver.capacity((), (Host("h1"), Host("h2"), Host("h3")))

    assert list(told.hosts) == ["h1"]
    assert told.unusable["h2"].startswith("libvirt on h2 (test:///nowhere) cannot be reached: ")
    assert told.unusable["h3"] == (
        "host 'h3' has no URI; name it in 'hosts' of driver 'libvirt', or set 'uri' for all"
    )


def test_what_keeps_a_machine_on_its_host_is_told(machines: Machines) -> None:
    """Nobody knows it, it is paused, or nothing leaves its host; one that is off takes nothing."""
    off, paused, running = machines.define(starts=False), machines.define(), machines.define()
    machines.domain(paused).suspend()
    told = machines.driver().capacity((off, paused, Vm("nobody", "web", "h1")), ())
    assert told.vms[off.name] == VmDemand()
    assert told.vms[paused.name].obstacle == "it is paused; resume or stop it"
    assert (
        told.vms["nobody"].obstacle == "libvirt on h1 has no domain nobody; list its domains with 'virsh list --all'"
    )

    told = machines.driver(redeploy="restart").capacity((running,), ())
    assert told.vms[running.name].obstacle == 'redeploy = "restart" in the driver\'s settings keeps it on its host'
