"""Free capacity of hosts, reservations of migrations, and the choice of a target host."""

import xml.etree.ElementTree as ET
from typing import Any, cast

import libvirt

from forewarn.core.model import Host, Vm
from forewarn.core.placement import HostCapacity, VmDemand
from forewarn.drivers.libvirt import capacity
from forewarn.drivers.libvirt.capacity import (
    FreeCapacity,
    HostOption,
    Reservation,
    Reservations,
    choose_host,
    explain_no_host,
    read_capacity,
)
from forewarn.node.driver import CandidateHost
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
    result = driver.capacity((), (Host("h1"), Host("h2"), Host("h3")))

    assert list(result.hosts) == ["h1"]
    assert result.unusable["h2"].startswith("libvirt on h2 (test:///nowhere) cannot be reached: ")
    assert result.unusable["h3"] == (
        "host 'h3' has no URI; name it in 'hosts' of driver 'libvirt', or set 'uri' for all"
    )


def test_what_keeps_a_machine_on_its_host_is_told(machines: Machines) -> None:
    """Nobody knows it, it is paused, or nothing leaves its host; one that is off takes nothing."""
    off, paused, running = machines.define(starts=False), machines.define(), machines.define()
    machines.domain(paused).suspend()
    result = machines.driver().capacity((off, paused, Vm("nobody", "web", "h1")), ())
    assert result.vms[off.name] == VmDemand()
    assert result.vms[paused.name].obstacle == "it is paused; resume or stop it"
    assert (
        result.vms["nobody"].obstacle
        == "libvirt on h1 has no domain nobody; list its domains with 'virsh list --all'"
    )

    result = machines.driver(redeploy="restart").capacity((running,), ())
    assert result.vms[running.name].obstacle == 'redeploy = "restart" in the driver\'s settings keeps it on its host'


def test_moves_of_the_machines_that_are_asked_about_are_not_counted(machines: Machines) -> None:
    """The planner counts those itself; those of others take their room."""
    driver, vm = machines.driver(), machines.define()
    free = driver.capacity((vm,), (Host("h1"),)).hosts["h1"].cpus
    reservations = [Reservation("uuid-0", vm.name, "h1", MIB, 1), Reservation("uuid-1", "another", "h1", MIB, 1)]
    found = read_capacity(driver._hosts, driver._settings, (vm,), (Host("h1"),), reservations)

    assert found.hosts["h1"].cpus == free - 1


def test_a_host_that_tells_no_networks_may_have_them_all() -> None:
    """A hypervisor without networks of libvirt's is not unfit for a machine that names one."""

    class Silent:
        def listAllNetworks(self, _: int) -> None:  # noqa: N802 - libvirt's own name
            raise libvirt.libvirtError("no networks")

    class Hosts:
        def connection(self, _: str) -> Silent:
            return Silent()

    machine = ET.fromstring(  # noqa: S314 written here
        "<domain><devices><interface type='network'><source network='lan'/></interface></devices></domain>"
    )

    assert capacity._TargetHost(cast("Any", Hosts()), "h1").unfit(machine) == ""


WEB = Vm("web-0", "web", host="h1", update_domain=0, fault_domain=0)
OTHER = Vm("web-1", "web", host="h2", update_domain=1, fault_domain=0)
LIKE = Vm("web-2", "web", host="h3", update_domain=0, fault_domain=0)


def option(host: str, free: int, *vms: Vm) -> HostOption:
    return HostOption(CandidateHost(Host(host), vms), free * MIB)


def chosen(*options: HostOption) -> str:
    best = choose_host(WEB, 100 * MIB, options)
    return best.host if best else ""


def test_the_one_with_the_most_room_is_chosen() -> None:
    """Among equals free memory counts, then the name."""
    assert chosen(option("h2", 200), option("h3", 300)) == "h3"
    assert chosen(option("h3", 200), option("h2", 200)) == "h2"


def test_one_that_is_too_small_is_never_chosen() -> None:
    """Exactly enough is enough; less is not."""
    assert chosen(option("h2", 99), option("h3", 100)) == "h3"
    assert chosen(option("h2", 99)) == ""


def test_a_host_of_other_domains_is_chosen_last() -> None:
    """VMs that must not fall together do not move together; those of the same domains may."""
    assert chosen(option("h2", 900, OTHER), option("h3", 200, LIKE)) == "h3"
    assert chosen(option("h2", 900, OTHER)) == "h2"


def test_the_machine_itself_is_no_reason_against_a_host() -> None:
    """One that is said to stand there already takes no turn from itself."""
    itself = Vm("web-0", "web", host="h2", update_domain=4)

    assert chosen(option("h2", 900, itself), option("h3", 800)) == "h2"


def test_the_sentence_names_every_host_and_its_room() -> None:
    """Who reads it knows which host to grow."""
    assert explain_no_host(WEB, 100 * MIB, [option("h2", 9), option("h3", 0)]) == (
        "no host has the 100 MiB that web-0 needs: h2 has 9 MiB free, h3 has 0 MiB free"
    )


GIB = 1 << 30
WEB_0 = Reservation("uuid-0", "web-0", "h2", GIB, 2)
WEB_1 = Reservation("uuid-1", "web-1", "h2", GIB, 2)


def test_a_machine_that_libvirt_does_not_show_yet_takes_its_room() -> None:
    """Memory and CPUs, of what is free and of what the ratio allows."""
    assert FreeCapacity(4 * GIB, 3 * GIB, 8).after([WEB_0]) == HostCapacity(2 * GIB, 6)
    assert FreeCapacity(3 * GIB, 4 * GIB, 8).after([WEB_0, WEB_1]) == HostCapacity(GIB, 4)


def test_a_machine_that_libvirt_shows_is_counted_once() -> None:
    """Only the part of its memory that is still to come is taken from what is free."""
    half = Reservation("uuid-0", "web-0", "h2", GIB, 2, lambda: 50)
    shown = frozenset({"uuid-0"})

    assert FreeCapacity(4 * GIB, 2 * GIB, 6, shown).after([half]) == HostCapacity(2 * GIB, 6)
    assert FreeCapacity(2 * GIB, 4 * GIB, 6, shown).after([half]) == HostCapacity(3 * GIB // 2, 6)


def test_room_is_not_reserved_by_what_was_read_before_another_reservation() -> None:
    """Nor before a release: what it held may not have been shown yet when the host was asked."""
    reservations = Reservations()
    before, _ = reservations.current()

    assert reservations.reserve(WEB_0, before)
    assert not reservations.reserve(WEB_1, before)

    then, standing = reservations.current()
    assert standing == (WEB_0,)
    reservations.release("uuid-0")
    assert not reservations.reserve(WEB_1, then)
    now, standing = reservations.current()
    assert standing == ()
    assert reservations.reserve(WEB_1, now)
