"""The rules as nft reads them."""

import subprocess

import pytest
from msgspec.structs import replace

from forewarn.network.desired import DesiredNetwork, GuestInterface
from forewarn.network.rules import address_sets, rules_of

GUESTS = (
    GuestInterface("whole", "tap0", 7, "52:54:00:00:00:01", ("10.0.0.4",), ("2001:db8::4",)),
    GuestInterface("marked", "tap1", 8),
    GuestInterface("bare", "tap2"),
)
LOCAL = GuestInterface("local", "tap3", 9, "", (), ("fe80::9",))


def desired(
    identity: str, *guests: GuestInterface, uplink: str = "", control_port: int = 8255, host: str = "169.254.169.254"
) -> DesiredNetwork:
    return DesiredNetwork(
        identity=identity,
        host=host,
        bridge="br0",
        uplink=uplink,
        port=80,
        starts=50,
        starts_burst=200,
        control_port=control_port,
        guests=guests,
    )


def test_each_guest_is_held_to_what_is_known_of_it() -> None:
    """Whoever has no address or no MAC address declared may use any that is nobody's."""
    rules = rules_of(desired("mark", *GUESTS), ())

    assert 'iifname { "tap0" } iifname . ip saddr != @addresses drop' in rules
    assert 'iifname { "tap0" } iifname . arp saddr ip != @addresses drop' in rules
    assert 'iifname { "tap0" } iifname . ip6 saddr != @addresses6 drop' in rules
    assert 'iifname { "tap0" } iifname . ether saddr != @macs drop' in rules
    assert 'elements = { "tap0" : 7, "tap1" : 8 }' in rules
    assert 'iifname { "tap0", "tap1", "tap2" } ether type { 0x0000-0x05ff, 8021q, 8021ad } drop' in rules
    assert 'iifname { "tap0", "tap1", "tap2" } arp saddr ip 169.254.169.254 drop' in rules


def test_nobody_is_marked_who_is_not_known_by_it() -> None:
    """Marks of others may mean something else."""
    assert "mark" not in rules_of(desired("address", *GUESTS), ())


def test_the_control_port_is_closed_to_guests_and_open_to_operators() -> None:
    """Operators come by the uplink where there is one, else not by the bridge at all."""
    closed = "tcp dport 8255 drop"

    assert f'iifname "br0" {closed}' in rules_of(desired("mark", *GUESTS), ())
    for identity in ("address", "mark", "tap"):
        with_uplink = rules_of(desired(identity, *GUESTS, uplink="eth0"), ())
        assert 'iifname "eth0" tcp dport 8255 meta mark set 0x666f7265 accept' in with_uplink
        assert 'iifname "br0" tcp dport 8255 meta mark != 0x666f7265 drop' in with_uplink
        assert f'meta iifkind "tun" {closed}' in with_uplink
        assert f'iifname {{ "tap0", "tap1", "tap2" }} {closed}' in with_uplink
    assert closed not in rules_of(desired("mark", *GUESTS, control_port=0), ())


def test_nobody_uses_what_is_declared_of_another() -> None:
    """Known by its mark, a guest of whom nothing is declared may send from any address, but not claim it."""
    by_address = rules_of(desired("address", *GUESTS), (), ["vnet9"])
    by_mark = rules_of(desired("mark", *GUESTS), (), ["vnet9"])

    for line in ("ip saddr @all_addresses", "arp saddr ip @all_addresses", "ip6 saddr @all_addresses6"):
        assert f'iifname {{ "tap1", "tap2", "vnet9" }} {line} drop' in by_address
        ports = '"tap1", "tap2", "vnet9"' if line.startswith("arp") else '"vnet9"'
        assert f"iifname {{ {ports} }} {line} drop" in by_mark
    for rules in (by_address, by_mark):
        assert 'iifname { "tap1", "tap2", "vnet9" } icmpv6 type nd-neighbor-advert @th,64,128 {' in rules
    assert 'iifname { "tap1", "tap2", "vnet9" } ether saddr @all_macs drop' in by_mark


def test_who_comes_from_outside_may_be_a_vm_that_stands_elsewhere() -> None:
    """By any other wire nobody speaks to the service as a VM, where that would be believed."""
    own = "ip daddr 169.254.169.254 ip saddr @all_addresses drop"

    assert f'iifname != {{ "tap0", "eth0" }} {own}' in rules_of(desired("address", *GUESTS), (), (), ["eth0"])
    assert own not in rules_of(desired("mark", *GUESTS), (), (), ["eth0"])


def test_new_connections_are_limited_where_requests_are() -> None:
    """Where an operator limits nothing, neither do the rules."""
    limit = "add @starters { iifname limit rate over 50/second burst 200 packets } drop"

    assert limit in rules_of(desired("address", *GUESTS), ())
    assert limit in rules_of(desired("tap", *GUESTS), ())
    assert "starters" not in rules_of(replace(desired("address", *GUESTS), starts=0), ())


def test_a_guest_advertises_its_own_addresses_only() -> None:
    """IPv6 has no ARP, but neighbours that say whose an address is; and routers, of which no guest is one."""
    rules = rules_of(desired("address", *GUESTS, host="fd00::1"), ())
    advertised = "icmpv6 type nd-neighbor-advert @th,64,128"

    assert f'iifname "tap0" {advertised} != {{ 0x20010db8000000000000000000000004 }}' in rules
    assert f'iifname {{ "tap0", "tap1", "tap2" }} {advertised} 0xfd000000000000000000000000000001 drop' in rules
    assert 'iifname { "tap0" } icmpv6 type nd-router-advert drop' in rules


@pytest.mark.end_to_end
@pytest.mark.parametrize("identity", ["address", "mark", "tap"])
@pytest.mark.parametrize("guests", [GUESTS, (*GUESTS, LOCAL), ()])
@pytest.mark.parametrize("uplink", ["", "eth0"])
@pytest.mark.parametrize("host", ["169.254.169.254", "fd00::1"])
def test_nft_takes_the_rules(identity: str, guests: tuple[GuestInterface, ...], uplink: str, host: str) -> None:
    """Whatever is or is not declared."""
    whole = desired(identity, *guests, uplink=uplink, host=host)
    rules = rules_of(whole, ("link br0", "address 169.254.169.254/32 br0"), ["vnet9"], ["eth0"])

    subprocess.run(["unshare", "--net", "nft", "-f", "-"], input=rules, text=True, check=True)


def test_a_table_is_made_before_it_is_deleted() -> None:
    """One that is not there cannot be deleted; both are of one transaction."""
    lines = rules_of(desired("mark", *GUESTS), ()).splitlines()

    assert lines[:4] == [
        "table bridge forewarn",
        "delete table bridge forewarn",
        "table inet forewarn",
        "delete table inet forewarn",
    ]


def test_addresses_that_nobody_has_make_no_set() -> None:
    """Nor do MAC addresses where frames pass through a router, which have its own."""
    names = [line.split()[1] for line in address_sets(GUESTS, is_bridge=False)]
    assert names == ["addresses", "addresses6"]
    assert list(address_sets((GUESTS[2],))) == []
