"""Inventory of the machines that libvirt has: identity, host and address."""

from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from forewarn.core.redaction import shown_uri
from forewarn.drivers.libvirt.location import DomainState, read_state
from forewarn.drivers.libvirt.problems import problem_of

_AGENT = "org.qemu.guest_agent.0"


class InventoryMachine(msgspec.Struct, frozen=True):
    """One domain."""

    name: str
    uuid: str
    mac_address: str = ""
    tap: str = ""
    """Its tap device on the host while it runs; empty if the name changes at each start."""
    address: str = ""
    state: DomainState = DomainState(libvirt.VIR_DOMAIN_RUNNING, 0, 1)


class Inventory(msgspec.Struct, frozen=True):
    """One host and its machines."""

    host: str
    uri: str
    machines: tuple[InventoryMachine, ...] = ()


def read_inventory(connection: libvirt.virConnect, host: str, uri: str) -> Inventory:
    """Return the machines of a host; raise LibvirtProblem if it does not answer."""
    try:
        name = host or str(connection.getHostname()).partition(".")[0]
        found = sorted((_machine(domain) for domain in connection.listAllDomains()), key=lambda each: each.name)
    except libvirt.libvirtError as error:
        raise problem_of(host or shown_uri(uri), error, "its machines") from None
    return Inventory(name, shown_uri(uri), tuple(found))


def _machine(domain: libvirt.virDomain) -> InventoryMachine:
    root = ET.fromstring(domain.XMLDesc())  # noqa: S314 libvirt's own words
    interface = root.find("./devices/interface")
    mac_address = _attribute(interface, "mac", "address").lower()
    tap = _attribute(interface, "target", "dev")
    return InventoryMachine(
        name=domain.name(),
        uuid=domain.UUIDString(),
        mac_address=mac_address,
        # libvirt numbers vnet devices at each start; a name chosen by the operator is stable.
        tap="" if tap.startswith("vnet") else tap,
        address=_address(domain, root, mac_address),
        state=read_state(domain),
    )


def _attribute(holder: ET.Element | None, tag: str, name: str) -> str:
    found = holder.find(tag) if holder is not None else None
    return (found.get(name) or "") if found is not None else ""


def _address(domain: libvirt.virDomain, root: ET.Element, mac_address: str) -> str:
    if not domain.isActive():
        return ""
    sources = [libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE, libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP]
    channel = root.find(f"./devices/channel/target[@name='{_AGENT}']")
    if channel is not None and channel.get("state") == "connected":
        # Query the agent only if it is connected: else libvirt would wait for it.
        sources.insert(1, libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT)
    for source in sources:
        with suppress(libvirt.libvirtError):
            for address in _addresses(domain.interfaceAddresses(source), mac_address):
                return address
    return ""


def _addresses(interfaces: Any, mac_address: str) -> Iterator[str]:  # noqa: ANN401 a table without types
    """Yield the reachable addresses, those of the first interface first, IPv4 before IPv6."""
    reachable = []
    for interface in (interfaces or {}).values():
        for each in interface.get("addrs") or ():
            address = ip_address(each["addr"])
            if not (address.is_loopback or address.is_link_local):
                reachable.append((interface.get("hwaddr") != mac_address, address.version, str(address)))
    yield from (address for _, _, address in sorted(reachable))
