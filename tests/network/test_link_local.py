"""The link-local network, with real packets: who a guest is, whatever it pretends to be."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network.frames import MORE, arp, echo, mac, offer
from tests.network.namespaces import PATIENT, SERVICE, Hypervisor, Namespace, hypervisor

pytestmark = pytest.mark.end_to_end

FLEET = """
[[vm]]
name = "honest"
address = "10.0.0.1"
tap = "tap1"
mark = 17
mac_address = "52:54:00:00:00:01"

[[vm]]
name = "liar"
address = "10.0.0.2"
tap = "tap2"
mark = 18
mac_address = "52:54:00:00:00:02"
"""
TENANTS = """
[[vm]]
name = "blue"
address = "10.0.0.1"
tap = "tap1"

[[vm]]
name = "green"
address = "10.0.0.1"
tap = "tap2"
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Hypervisor]:
    with hypervisor(tmp_path) as machine:
        yield machine


def test_setup_twice_is_setup_once(machine: Hypervisor) -> None:
    """What is there is left as it is, and check finds nothing to do."""
    machine.settings(FLEET, 'identity = "mark"\n')
    machine.forewarn("network", "setup")
    state = machine.state()

    assert machine.forewarn("network", "setup") == "nothing is missing\n"
    assert machine.state() == state
    assert "nothing is missing, but see the notes" in machine.forewarn("network", "check")


def test_what_is_printed_is_what_is_run(machine: Hypervisor) -> None:
    """Whoever pastes the printed commands into a shell has the same network."""
    machine.settings(FLEET, 'identity = "mark"\n')
    before = machine.state()
    printed = machine.forewarn("network", "setup", "--print")
    assert machine.state() == before

    machine.run("sh", "-e", "-c", printed)
    by_hand = machine.state()
    assert machine.forewarn("network", "setup") == "nothing is missing\n"
    undone = machine.forewarn("network", "teardown", "--print")
    machine.run("sh", "-e", "-c", undone)
    assert machine.state() == before

    assert machine.forewarn("network", "setup") == printed
    assert machine.state() == by_hand
    assert machine.forewarn("network", "teardown") == undone


@pytest.mark.parametrize("identity", ["address", "mark", "tap"])
def test_teardown_leaves_nothing(machine: Hypervisor, identity: str) -> None:
    """Nothing of ours is left, and nothing of others' is touched: rules, addresses, routes, switches."""
    fleet = TENANTS if identity == "tap" else FLEET
    machine.run("nft", "add table inet forewarn_of_others; add chain inet forewarn_of_others input")
    machine.run("ip", "link", "add", "br9", "type", "bridge")
    machine.run("ip", "address", "add", "192.0.2.1/24", "dev", "br9")
    guests = [machine.guest(number, "10.0.0.1", bridge="br9" if identity != "tap" else "") for number in (1, 2)]
    before = machine.state()
    machine.settings(fleet, f'identity = "{identity}"\n[network]\nbridge = "br9"\n')
    machine.forewarn("network", "setup")
    assert machine.state() != before
    machine.forewarn("network", "teardown")

    assert machine.state() == before
    assert machine.forewarn("network", "teardown") == "there is nothing of forewarn's here\n"
    assert len(guests) == 2


def test_rules_that_somebody_flushed_are_found_missing_and_teardown_still_leaves_nothing(machine: Hypervisor) -> None:
    """With all rules the record is gone, too; what can be known to be ours is."""
    before = machine.state()
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    state = machine.state()
    machine.run("nft", "flush ruleset")
    assert "missing: the rules of the packet filter" in machine.forewarn("network", "check", is_sure=False)

    machine.forewarn("network", "setup")
    assert machine.state() == state
    machine.forewarn("network", "teardown")
    assert machine.state() == before


def test_a_bridge_with_guests_on_it_stays(machine: Hypervisor) -> None:
    """They would lose their network; the next setup knows it for its own, and the next teardown takes it away."""
    before = machine.state()
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    guest = machine.guest(1)
    machine.forewarn("network", "teardown")
    assert SERVICE not in machine.run("ip", "address")
    assert "master forewarn0" in machine.run("ip", "link", "show", "tap1")

    machine.forewarn("network", "setup")
    machine.serve()
    assert guest.ask() == "honest"
    machine.run("ip", "link", "delete", "tap1")
    machine.forewarn("network", "teardown")
    assert machine.state() == before


def test_a_device_that_is_no_bridge_is_refused(machine: Hypervisor) -> None:
    """Nothing of it is changed; a bridge that has the address beside ours is told of."""
    machine.settings(FLEET, '[network]\nbridge = "lo"\n')
    before = machine.state()
    assert "lo is a device of this machine, but not a Linux bridge" in machine.complaint("network", "setup")
    assert machine.state() == before

    machine.run("ip", "link", "add", "br9", "type", "bridge")
    machine.run("ip", "address", "add", f"{SERVICE}/32", "dev", "br9")
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    assert f"note: br9: has {SERVICE} too" in machine.forewarn("network", "check")


def test_a_filter_of_others_that_keeps_guests_away_is_told(machine: Hypervisor) -> None:
    """Our rules cannot let in what another table drops; with the rule that is asked for, guests are answered."""
    machine.settings(FLEET, "")
    machine.run("nft", "add table inet filter; add chain inet filter input { type filter hook input priority 0; }")
    machine.run("nft", "chain inet filter input { policy drop; }")
    machine.forewarn("network", "setup")
    guest = machine.guest(1)
    machine.serve()
    assert guest.ask() == ""
    assert "note: table inet filter: accepts only what its rules name" in machine.forewarn("network", "check")

    machine.run("nft", 'add rule inet filter input iifname "forewarn0" tcp dport 80 accept')
    assert "note: table" not in machine.forewarn("network", "check")
    assert guest.ask() == "honest"


def test_whoever_may_not_look_says_so(machine: Hypervisor) -> None:
    """A container without the right to the network does not take what it cannot see for missing."""
    machine.settings(FLEET, "")
    may_not = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
    assert "give the container CAP_NET_ADMIN" in machine.complaint("network", "check", under=may_not)
    # The checkout may be in a directory that only root enters.
    reads = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    user = ("setpriv", "--reuid=65534", *reads)
    assert "run the command with sudo" in machine.complaint("network", "check", under=user)


def test_check_names_what_is_missing_and_the_command_that_mends_it(machine: Hypervisor) -> None:
    """A rule flushed by hand, an address deleted, a switch turned back: each is found, and mended."""
    machine.settings(FLEET, 'identity = "mark"\n')
    machine.forewarn("network", "setup")
    state = machine.state()
    machine.run("nft", "flush chain bridge forewarn prerouting")
    machine.run("ip", "address", "delete", f"{SERVICE}/32", "dev", "forewarn0")
    machine.run("sysctl", "-q", "-w", "net.ipv4.tcp_fwmark_accept=0")
    found = machine.forewarn("network", "check", is_sure=False)

    assert "missing: the rules of the packet filter" in found
    assert f"\nip address add {SERVICE}/32 dev forewarn0\n" in found
    assert "\nsysctl -q -w net/ipv4/tcp_fwmark_accept=1\n" in found
    machine.forewarn("network", "setup")
    assert machine.state() == state


def test_a_guest_cannot_use_the_address_of_another(machine: Hypervisor) -> None:
    """Known by address, a liar gets no answer; its own address goes on working."""
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    honest, liar = machine.guest(1), machine.guest(2)
    machine.serve()
    assert (honest.ask(), liar.ask()) == ("honest", "liar")

    liar.take("10.0.0.1")
    assert liar.ask("--interface", "10.0.0.1") == ""
    assert (liar.ask("--interface", "10.0.0.2"), honest.ask()) == ("liar", "honest")


def bridge_mac(machine: Hypervisor) -> bytes:
    link = json.loads(machine.run("ip", "-json", "link", "show", "forewarn0"))[0]["address"]
    return bytes.fromhex(link.replace(":", ""))


def counted(machine: Namespace, protocol: str, what: str) -> int:
    """Return how much of something the kernel has counted there."""
    names, values = (line.split() for line in machine.run("grep", f"^{protocol}:", "/proc/net/snmp").splitlines())
    return int(values[names.index(what)])


@pytest.mark.parametrize(
    ("source", "tag", "passed"),
    [("10.0.0.2", "", 1), ("10.0.0.1", "", 0), ("10.0.0.1", "81000000", 0), ("10.0.0.1", "88a80000", 0)],
)
def test_only_own_addresses_get_past_the_rules(machine: Hypervisor, source: str, tag: str, passed: int) -> None:
    """Also in a frame with a tag for VLAN 0, which the kernel would take as one without."""
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    machine.guest(2).send(echo(bridge_mac(machine), source, tag=bytes.fromhex(tag)))

    assert counted(machine, "Icmp", "InEchos") == passed


def test_no_guest_can_pretend_to_be_the_service(machine: Hypervisor) -> None:
    """Not even one that may use any other address, while the service's own is away."""
    machine.settings(FLEET.replace('address = "10.0.0.2"\n', ""), "")
    machine.forewarn("network", "setup")
    honest, liar = machine.guest(1), machine.guest(2)
    machine.run("ip", "address", "delete", f"{SERVICE}/32", "dev", "forewarn0")
    liar.run("ip", "route", "add", "10.0.0.1", "dev", "eth0")
    liar.take(SERVICE)

    assert honest.ask() == ""
    assert "lladdr" not in honest.run("ip", "neigh", "show", SERVICE)
    machine.run("nft", "flush chain bridge forewarn prerouting")
    honest.run("ip", "neigh", "flush", "all")  # it has given up
    honest.ask()
    assert "lladdr" in honest.run("ip", "neigh", "show", SERVICE)


def test_a_port_that_nobody_declared_is_nobody(machine: Hypervisor) -> None:
    """A guest that is not in the fleet is not taken for one that is, from its first packet on; check names it."""
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    honest, stranger = machine.guest(1), machine.guest(3)
    machine.run("ip", "address", "add", "10.0.0.254/24", "dev", "forewarn0")
    machine.serve()
    assert (honest.ask(), stranger.ask()) == ("honest", "403")

    stranger.take("10.0.0.1")
    machine.run("ip", "neigh", "replace", "10.0.0.1", "lladdr", "52:54:00:00:00:03", "dev", "forewarn0")
    assert stranger.ask("--interface", "10.0.0.1") == ""
    result = machine.forewarn("network", "check", is_sure=False)
    assert "note: tap3: on forewarn0, but no VM of the fleet has it; declare the VM behind it" in result
    assert "missing: the rules of the packet filter" in result


@pytest.mark.parametrize("identity", ["address", "mark"])
def test_a_port_that_nobody_declared_takes_nothing_from_guests(machine: Hypervisor, identity: str) -> None:
    """Neither the packets of a guest nor those of the service."""
    machine.settings(FLEET, f'identity = "{identity}"\n')
    machine.forewarn("network", "setup")
    honest, stranger = machine.guest(1), machine.guest(3)
    machine.run("ip", "address", "add", "10.0.0.254/24", "dev", "forewarn0")
    machine.serve()
    machine.forewarn("network", "setup")
    assert honest.ask() == "honest"

    machine.run("sysctl", "-q", "-w", "net.ipv4.neigh.forewarn0.locktime=0")
    honest.run("sysctl", "-q", "-w", "net.ipv4.neigh.eth0.locktime=0")
    stranger.send(arp(3, "10.0.0.1", about=SERVICE))
    stranger.send(arp(3, SERVICE, to=mac(1)))
    stranger.send(echo(bridge_mac(machine), "10.0.0.3", number=1))
    assert "52:54:00:00:00:03" not in machine.run("ip", "neigh", "show", "10.0.0.1")
    assert "52:54:00:00:00:03" not in honest.run("ip", "neigh", "show", SERVICE)
    assert honest.ask() == "honest"
    assert (counted(machine, "Icmp", "InEchos"), stranger.ask()) == (0, "403")


def test_a_guest_without_a_declared_address_cannot_use_that_of_another(machine: Hypervisor) -> None:
    """Where guests are known by their address; it may use any that is nobody's."""
    machine.settings(FLEET.replace('address = "10.0.0.2"\n', ""), "")
    machine.forewarn("network", "setup")
    liar = machine.guest(2)
    for source in ("10.0.0.1", "10.0.0.9"):
        liar.send(echo(bridge_mac(machine), source))
    assert counted(machine, "Icmp", "InEchos") == 1

    machine.run("sysctl", "-q", "-w", "net.ipv4.conf.forewarn0.arp_accept=1")
    for address in ("10.0.0.1", "10.0.0.9"):
        liar.send(arp(2, address, about=address))
    assert "10.0.0.9 dev forewarn0" in machine.run("ip", "neigh", "show")
    assert "10.0.0.1 dev forewarn0" not in machine.run("ip", "neigh", "show")


def test_fragments_do_not_reach_the_service(machine: Hypervisor) -> None:
    """Those of several guests would be put together."""
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    machine.guest(2).send(echo(bridge_mac(machine), "10.0.0.2", fragment=MORE))

    assert counted(machine, "Ip", "ReasmReqds") == 0


def test_a_guest_gives_nobody_an_address(machine: Hypervisor) -> None:
    """With it would come where the service is said to be."""
    machine.settings(FLEET, "")
    machine.forewarn("network", "setup")
    liar = machine.guest(2)
    liar.send(offer("10.0.0.2"))
    assert counted(machine, "Udp", "IgnoredMulti") == 0

    machine.run("nft", "flush chain bridge forewarn prerouting")
    liar.send(offer("10.0.0.2"))
    assert counted(machine, "Udp", "IgnoredMulti") == 1


def test_a_flood_of_connections_is_cut_off_before_the_service(machine: Hypervisor) -> None:
    """Each guest has so many new ones a second; what the rules learn on the way is not held against them."""
    machine.settings(FLEET, "rate_burst = 5\n")
    machine.forewarn("network", "setup")
    honest, liar = machine.guest(1), machine.guest(2)
    machine.serve()
    flood = f"""
import select, socket
lines = [socket.socket() for _ in range(400)]
waiting = select.poll()
for line in lines:
    line.setblocking(False)
    line.connect_ex(("{SERVICE}", 80))
    waiting.register(line, select.POLLOUT)
print(len(waiting.poll(500)))
"""
    passed = int(liar.run(sys.executable, "-c", flood))

    assert 0 < passed < 200
    assert honest.ask() == "honest"
    assert "the network is as it should be" in machine.forewarn("network", "check")


def test_check_tells_what_only_the_operator_can_mend(machine: Hypervisor) -> None:
    """A tap that is not there, one on no bridge, one on a bridge that should be on none."""
    machine.settings(FLEET, 'identity = "mark"\n')
    machine.forewarn("network", "setup")
    guest = machine.guest(1, bridge="")
    result = machine.forewarn("network", "check")
    assert "note: liar: the tap does not exist on this machine, or is down" in result
    assert "note: honest: the tap is not a port of a bridge; add it: ip link set TAP master forewarn0" in result

    machine.run("ip", "link", "add", "br9", "type", "bridge")
    machine.run("ip", "link", "set", "tap1", "master", "br9")
    machine.settings(TENANTS, 'identity = "tap"\n')
    machine.forewarn("network", "setup")
    assert "note: blue: the tap is a port of a bridge" in machine.forewarn("network", "check")
    assert guest.pid


def test_a_liar_is_known_by_its_wire(machine: Hypervisor) -> None:
    """Where addresses are not guarded, the mark still tells who asks; a wire without one is nobody."""
    unguarded = FLEET.replace('address = "10.0.0.2"\n', "")
    machine.settings(unguarded, 'identity = "mark"\n')
    machine.forewarn("network", "setup")
    honest, liar, stranger = machine.guest(1), machine.guest(2), machine.guest(3)
    machine.run("ip", "address", "add", "10.0.0.254/24", "dev", "forewarn0")
    machine.serve()

    liar.take("10.0.0.1")
    machine.run("ip", "neigh", "replace", "10.0.0.1", "lladdr", "52:54:00:00:00:02", "dev", "forewarn0")
    assert liar.ask("--interface", "10.0.0.2") == "liar"
    assert liar.ask("--interface", "10.0.0.1") == "liar"  # it has learnt by now where the service is
    assert stranger.ask() == "403"
    machine.run("ip", "neigh", "delete", "10.0.0.1", "dev", "forewarn0")
    liar.run("ip", "address", "delete", "10.0.0.1/32", "dev", "eth0")
    assert honest.ask() == "honest"


def test_two_tenants_with_one_address_are_two(machine: Hypervisor) -> None:
    """Each has a network of its own, and the service a listener on each; also on a tap that comes later."""
    machine.settings(TENANTS, 'identity = "tap"\n')
    blue = machine.guest(1, "10.0.0.1", bridge="")
    machine.forewarn("network", "setup")
    machine.serve()
    assert blue.ask() == "blue"

    green = machine.guest(2, "10.0.0.1", bridge="")
    machine.forewarn("network", "setup")
    assert green.ask("--retry", "5", "--retry-connrefused") == "green"
    same_port = ("--local-port", "40000")
    assert (blue.ask(*same_port), green.ask(*same_port)) == ("blue", "green")
    green.take("10.0.0.9")
    assert green.ask("--interface", "10.0.0.9") == ""


@pytest.mark.parametrize("identity", ["address", "mark", "tap"])
def test_guests_without_ipv4_are_known_as_well(machine: Hypervisor, identity: str) -> None:
    """The service, its rules and the ways back are those of its address; nobody reaches the control port by it."""
    service = "fd00::a9fe:a9fe"
    control = 'control = "[::]:8255"\ncontrol_plain_http = true\n'
    fleet = FLEET.replace("10.0.0.", "fd00:1::")
    machine.settings(fleet, f'identity = "{identity}"\n{control}')
    settings = machine.directory / "forewarn.toml"
    settings.write_text(settings.read_text().replace(SERVICE, f"[{service}]"))
    guests = [machine.guest(number, bridge="") for number in (1, 2)]
    machine.forewarn("network", "setup")
    for number, guest in enumerate(guests, start=1):
        if identity != "tap":
            machine.run("ip", "link", "set", f"tap{number}", "master", "forewarn0")
        guest.run("ip", "address", "add", f"fd00:1::{number}/128", "dev", "eth0", "nodad")
        guest.run("ip", "route", "add", service, "dev", "eth0")
    machine.serve()
    honest, liar = guests

    assert [guest.ask(at=f"[{service}]") for guest in guests] == ["honest", "liar"]
    liar.run("ip", "address", "add", "fd00:1::1/128", "dev", "eth0", "nodad")
    assert liar.ask("--interface", "fd00:1::1", at=f"[{service}]") == ""
    knock = (
        "curl",
        "-gs",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--max-time",
        "1",
        f"http://[{service}]:8255/v1/me",
    )
    assert (honest.run(*knock, is_sure=False), machine.run(*knock)) == ("000", "401")


@pytest.mark.parametrize("network", ["", '[network]\nuplink = "up0"\n'])
@pytest.mark.parametrize("identity", ["address", "mark", "tap"])
def test_guests_do_not_reach_the_control_port(machine: Hypervisor, identity: str, network: str) -> None:
    """By no address of the machine; the machine itself does."""
    settings = 'control = "0.0.0.0:8255"\ncontrol_plain_http = true\n'
    machine.settings(TENANTS if identity == "tap" else FLEET, f'identity = "{identity}"\n{settings}{network}')
    guest = machine.guest(1, bridge="")
    machine.forewarn("network", "setup")
    if identity != "tap":
        machine.run("ip", "link", "set", "tap1", "master", "forewarn0")
    machine.serve()
    knock = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *PATIENT)

    assert guest.ask() in ("honest", "blue")
    assert guest.run(*knock, f"http://{SERVICE}:8255/v1/me", is_sure=False) == "000"
    assert machine.run(*knock, f"http://{SERVICE}:8255/v1/me") == "401"
    machine.run("nft", "delete table inet forewarn")
    machine.run("nft", "delete table bridge forewarn", is_sure=False)
    assert guest.run(*knock, f"http://{SERVICE}:8255/v1/me", is_sure=False) == "401"


@pytest.mark.parametrize(("ttl", "heard"), [(0, "honest"), (1, "")])
def test_answers_that_travel_one_hop_stay_in_the_guest(machine: Hypervisor, ttl: int, heard: str) -> None:
    """With answer_ttl = 1 whoever is behind the guest hears nothing; as it is by default, everything."""
    machine.settings(FLEET, f"answer_ttl = {ttl}\n")
    machine.forewarn("network", "setup")
    guest = machine.guest(1)
    machine.serve()
    assert guest.ask() == "honest"

    assert guest.container().ask() == heard
