"""The network part of ``/metadata/instance``: the addresses of a VM's interface, in each api-version's words."""

from typing import TypeAlias

import msgspec

from forewarn.core.model import Vm

JsonNode: TypeAlias = "str | list[JsonNode] | dict[str, JsonNode]"


class _InterfaceKeys(msgspec.Struct, frozen=True):
    addresses: str
    private: str
    public: str
    mac: str


_FIRST = "2017-03-01"
_EARLY = _InterfaceKeys("ipaddress", "ipaddress", "publicip", "mac")
"""What the first api-version called them, and no other."""
_WORDS = _InterfaceKeys("ipAddress", "privateIpAddress", "publicIpAddress", "macAddress")


def interfaces_of(vm: Vm, version: str) -> list[JsonNode]:
    """Return the VM's interface, if anything is known of it."""
    interface = vm.interface
    addresses = [address for address in (vm.address, interface.ipv6_address) if address]
    if not (addresses or interface.mac_address or interface.public_ip_address):
        return []
    words = _EARLY if version == _FIRST else _WORDS
    private = [address for address in addresses if ":" not in address]
    ipv4: list[JsonNode] = [
        {words.private: address, words.public: interface.public_ip_address}
        for address in private or [""] * bool(interface.public_ip_address)
    ]
    ipv6: list[JsonNode] = [{words.private: address} for address in addresses if ":" in address]
    return [
        {
            "ipv4": {words.addresses: ipv4, "subnet": _subnets(interface.subnet, version)},
            "ipv6": {words.addresses: ipv6},
            # Azure: twelve digits, without anything between them
            words.mac: interface.mac_address.replace(":", "").upper(),
        }
    ]


def _subnets(subnet: str, version: str) -> list[JsonNode]:
    if not subnet:
        return []
    address, _, prefix = subnet.partition("/")
    if version == _FIRST:
        return [{"address": address, "dnsservers": [], "prefix": prefix}]
    return [{"address": address, "prefix": prefix}]
