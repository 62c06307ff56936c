"""What guests claim to be on the bridge, and what reaches the control port: real frames, real rules."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.frames import advertisement, arp, mac, solicitation, syn
from tests.network.namespaces import SERVICE, Guest, Hypervisor, hypervisor
from tests.network.test_link_local import FLEET, TENANTS, bridge_mac, counted

pytestmark = pytest.mark.end_to_end

LIAR_WITHOUT_ADDRESS = FLEET.replace('address = "10.0.0.2"\n', "")
CONTROL = 'control = "0.0.0.0:8255"\ncontrol_plain_http = true\n'
LIAR = "52:54:00:00:00:02"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Hypervisor]:
    with hypervisor(tmp_path) as machine:
        yield machine


def set_up(machine: Hypervisor, settings: str, fleet: str = LIAR_WITHOUT_ADDRESS) -> None:
    machine.settings(fleet, settings)
    machine.forewarn("network", "setup")


def trust_anybody(machine: Hypervisor, *guests: Guest) -> None:
    """Make kernels take the last word of ARP at once."""
    machine.run("sysctl", "-q", "-w", "net.ipv4.neigh.forewarn0.locktime=0", "net.ipv4.conf.forewarn0.arp_accept=1")
    for guest in guests:
        guest.run("sysctl", "-q", "-w", "net.ipv4.neigh.eth0.locktime=0", "net.ipv4.conf.eth0.arp_accept=1")


def test_a_vm_known_by_its_mark_does_not_cut_off_a_neighbour(machine: Hypervisor) -> None:
    """A VM without a declared address claims the neighbour's by ARP: the service and the neighbour ignore it."""
    set_up(machine, 'identity = "mark"\n')
    honest, liar = machine.guest(1), machine.guest(2)
    machine.serve()
    trust_anybody(machine, honest)
    assert honest.ask() == "honest"
    for frame in (
        arp(2, "10.0.0.1", about="10.0.0.1"),
        arp(2, "10.0.0.1", about=SERVICE, to=bridge_mac(machine)),
        arp(2, SERVICE, about=SERVICE),
        arp(2, SERVICE, about="10.0.0.1", to=mac(1)),
    ):
        liar.send(frame)

    assert LIAR not in machine.run("ip", "neigh", "show", "10.0.0.1")
    assert LIAR not in honest.run("ip", "neigh", "show", SERVICE)
    assert honest.ask() == "honest"
    liar.send(arp(2, "10.0.0.9", about="10.0.0.9"))
    assert LIAR in machine.run("ip", "neigh", "show", "10.0.0.9")


def test_check_finds_a_rule_against_false_arp_missing(machine: Hypervisor) -> None:
    """The rule is removed by hand: the neighbour is cut off, check names the rules, and setup puts them back."""
    set_up(machine, 'identity = "mark"\n')
    liar = machine.guest(2)
    trust_anybody(machine)
    listing = json.loads(machine.run("nft", "-j", "list", "table", "bridge", "forewarn"))["nftables"]
    (handle,) = (
        rule["handle"]
        for each in listing
        if (rule := each.get("rule")) and "arp" in (text := json.dumps(rule)) and "all_addresses" in text
    )
    machine.run("nft", "delete", "rule", "bridge", "forewarn", "prerouting", "handle", str(handle))
    liar.send(arp(2, "10.0.0.1", about="10.0.0.1"))
    assert LIAR in machine.run("ip", "neigh", "show", "10.0.0.1")
    assert "missing: the rules of the packet filter" in machine.forewarn("network", "check", is_sure=False)

    machine.run("ip", "neigh", "flush", "all")
    machine.forewarn("network", "setup")
    liar.send(arp(2, "10.0.0.1", about="10.0.0.1"))
    assert LIAR not in machine.run("ip", "neigh", "show", "10.0.0.1")


@pytest.mark.parametrize("identity", ["address", "mark"])
def test_a_vm_without_a_declared_address_claims_no_neighbours_ipv6_address(
    machine: Hypervisor, identity: str
) -> None:
    """Neither by an advertisement from an address of its own, nor as the source of a question."""
    fleet = LIAR_WITHOUT_ADDRESS.replace('address = "10.0.0.1"\n', 'ipv6_address = "fd00:1::1"\n')
    set_up(machine, f'identity = "{identity}"\n', fleet)
    liar = machine.guest(2)
    machine.run("ip", "address", "add", "fd00:1::ff/64", "dev", "forewarn0", "nodad")
    machine.run(
        "ip", "neigh", "replace", "fd00:1::1", "lladdr", "52:54:00:00:00:01", "dev", "forewarn0", "nud", "stale"
    )
    machine.run(
        "ip", "neigh", "replace", "fd00:1::3", "lladdr", "52:54:00:00:00:03", "dev", "forewarn0", "nud", "stale"
    )
    to = bridge_mac(machine)
    for claimed in ("fd00:1::1", "fd00:1::3"):
        liar.send(advertisement(2, claimed, source="fe80::2", to=to, target="fd00:1::ff"))
    assert LIAR not in machine.run("ip", "neigh", "show", "fd00:1::1")
    assert LIAR in machine.run("ip", "neigh", "show", "fd00:1::3")

    liar.send(solicitation(2, "fd00:1::ff", source="fd00:1::1", to=to))
    assert LIAR not in machine.run("ip", "neigh", "show", "fd00:1::1")


@pytest.mark.parametrize("identity", ["address", "mark", "tap"])
@pytest.mark.parametrize("uplink", ["", '[network]\nuplink = "up0"\n'])
@pytest.mark.parametrize("place", ["no bridge", "forewarn0", "br9"])
def test_the_control_port_is_closed_to_taps_that_nobody_declared(
    machine: Hypervisor, identity: str, uplink: str, place: str
) -> None:
    """Also to one that comes after setup, on the bridge, on another one or on none; the machine itself gets in."""
    fleet = TENANTS if identity == "tap" else FLEET
    set_up(machine, f'identity = "{identity}"\n{CONTROL}{uplink}', fleet)
    for bridge in ("forewarn0", "br9"):
        machine.run("ip", "link", "add", bridge, "type", "bridge", is_sure=False)
        machine.run("ip", "link", "set", bridge, "up")
    bridge = "" if place == "no bridge" else place
    stranger = machine.tap("tap9", bridge)
    device = bridge or "tap9"
    machine.run("ip", "address", "add", "10.9.0.1/24", "dev", device)
    (link,) = json.loads(machine.run("ip", "-json", "link", "show", device))
    to = bytes.fromhex(link["address"].replace(":", ""))
    before = counted(machine, "Tcp", "InSegs")
    stranger.send(syn(to, "10.9.0.9", "10.9.0.1", 8255, number=9))
    assert counted(machine, "Tcp", "InSegs") == before

    stranger.send(syn(to, "10.9.0.9", "10.9.0.1", 8256, number=9))
    assert counted(machine, "Tcp", "InSegs") > before


@pytest.mark.parametrize("identity", ["address", "mark"])
def test_with_an_uplink_operators_reach_the_control_port_by_it_and_nobody_else_by_the_bridge(
    machine: Hypervisor, identity: str
) -> None:
    """A container that is plugged in after setup does not either."""
    set_up(machine, f'identity = "{identity}"\n{CONTROL}[network]\nuplink = "tap7"\n', FLEET)
    operator, guest, late = machine.guest(7), machine.guest(1), machine.guest(8)
    machine.run("ip", "address", "add", "10.0.0.254/24", "dev", "forewarn0")
    machine.serve()
    knock = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "2")
    for each in (operator, guest, late):
        each.run("ip", "route", "add", "10.0.0.254", "dev", "eth0")

    assert operator.run(*knock, "http://10.0.0.254:8255/v1/me") == "401"
    assert guest.run(*knock, "http://10.0.0.254:8255/v1/me", is_sure=False) == "000"
    assert late.run(*knock, "http://10.0.0.254:8255/v1/me", is_sure=False) == "000"
