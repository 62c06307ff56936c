"""The rules as nft reads them."""

import subprocess

import pytest

from forewarn.network.rules import rules_of
from forewarn.network.wanted import Guest, Wanted

GUESTS = (
    Guest("whole", "tap0", 7, "52:54:00:00:00:01", ("10.0.0.4",), ("2001:db8::4",)),
    Guest("marked", "tap1", 8),
    Guest("bare", "tap2"),
)


def wanted(identity: str, *guests: Guest, uplink: str = "", control_port: int = 8255) -> Wanted:
    return Wanted(
        identity=identity,
        host="169.254.169.254",
        bridge="br0",
        uplink=uplink,
        control_port=control_port,
        guests=guests,
    )


def test_each_guest_is_held_to_what_is_known_of_it() -> None:
    """Whoever has no address or no MAC address declared may use any."""
    rules = rules_of(wanted("mark", *GUESTS), ())

    assert 'iifname { "tap0" } iifname . ip saddr != @addresses drop' in rules
    assert 'iifname { "tap0" } iifname . arp saddr ip != @addresses drop' in rules
    assert 'iifname { "tap0" } iifname . ip6 saddr != @addresses6 drop' in rules
    assert 'iifname { "tap0" } iifname . ether saddr != @macs drop' in rules
    assert 'elements = { "tap0" : 7, "tap1" : 8 }' in rules
    assert 'iifname { "tap0", "tap1", "tap2" } ether type { 8021q, 8021ad } drop' in rules
    assert 'iifname { "tap0", "tap1", "tap2" } arp saddr ip 169.254.169.254 drop' in rules


def test_nobody_is_marked_who_is_not_known_by_it() -> None:
    """Marks of others may mean something else."""
    assert "mark" not in rules_of(wanted("address", *GUESTS), ())


def test_the_control_port_is_closed_to_guests_and_open_to_operators() -> None:
    """Operators come by the uplink where there is one, else not by the bridge at all."""
    closed = "tcp dport 8255 drop"

    assert f'iifname "br0" {closed}' in rules_of(wanted("mark", *GUESTS), ())
    assert f'iifname {{ "tap0", "tap1", "tap2" }} {closed}' in rules_of(wanted("mark", *GUESTS, uplink="eth0"), ())
    assert f'iifname {{ "tap0", "tap1", "tap2" }} {closed}' in rules_of(wanted("tap", *GUESTS), ())
    assert closed not in rules_of(wanted("mark", *GUESTS, control_port=0), ())


@pytest.mark.end_to_end
@pytest.mark.parametrize("identity", ["address", "mark", "tap"])
@pytest.mark.parametrize("guests", [GUESTS, ()])
@pytest.mark.parametrize("uplink", ["", "eth0"])
def test_nft_takes_the_rules(identity: str, guests: tuple[Guest, ...], uplink: str) -> None:
    """Whatever is or is not declared."""
    rules = rules_of(wanted(identity, *guests, uplink=uplink), ("link br0", "address 169.254.169.254/32 br0"))

    subprocess.run(["unshare", "--net", "nft", "-f", "-"], input=rules, text=True, check=True)
