"""What a VM reads about its interface."""

import pytest

from forewarn.core.model import Interface, Vm
from forewarn.wire.interfaces import JsonNode, interfaces_of
from forewarn.wire.versions import INSTANCE

LATER = [version for version in INSTANCE.names if version != "2017-03-01"]


def test_who_has_no_address_has_no_interface() -> None:
    """A tap and a mark are the host's business."""
    vm = Vm("db", "db", interface=Interface(tap="tap0", mark=7))

    assert interfaces_of(vm, LATER[0]) == []


@pytest.mark.parametrize("version", LATER)
def test_what_is_not_declared_is_empty_and_not_absent(version: str) -> None:
    """Clients look values up without asking whether they are there."""
    shown: list[JsonNode] = [
        {
            "ipv4": {"ipAddress": [{"privateIpAddress": "10.0.0.4", "publicIpAddress": ""}], "subnet": []},
            "ipv6": {"ipAddress": []},
            "macAddress": "",
        }
    ]

    assert interfaces_of(Vm("db", "db", address="10.0.0.4"), version) == shown


def test_an_address_stands_in_the_part_of_its_kind() -> None:
    """Also where the VM asks from an IPv6 address."""
    (shown,) = interfaces_of(Vm("db", "db", address="2001:db8::4"), LATER[0])

    assert isinstance(shown, dict)
    assert shown["ipv4"] == {"ipAddress": [], "subnet": []}
    assert shown["ipv6"] == {"ipAddress": [{"privateIpAddress": "2001:db8::4"}]}


def test_a_public_address_alone_is_shown_too() -> None:
    """Beside a private one that nobody declared."""
    (shown,) = interfaces_of(Vm("db", "db", interface=Interface(public_ip_address="203.0.113.4")), LATER[0])

    assert isinstance(shown, dict)
    assert shown["ipv4"] == {"ipAddress": [{"privateIpAddress": "", "publicIpAddress": "203.0.113.4"}], "subnet": []}
