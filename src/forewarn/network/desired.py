"""Desired state of this machine's network, from the settings and the fleet. Pure functions.

identity = "address" | "mark"        every guest's tap is a port of one bridge, which has the service's address
identity = "tap"                     every guest's tap is a separate network, whatever addresses are used there
"""

import math
import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

import msgspec

from forewarn.config.settings import Settings
from forewarn.core.addresses import LONGEST_DEVICE
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.network.current import ROUTE_PROTOCOL, CurrentNetwork, CurrentRoute
from forewarn.network.resources import AnyResource, BridgeLink, GuestRoute, LinkAddress, LinkUp, Sysctl, is_our_link

ACCEPT_MARKS = "net/ipv4/tcp_fwmark_accept"
_LOOSE = "2"
"""Loose reverse path filter: a packet is accepted if any device reaches its source.

The kernel uses the larger of this and the setting for all devices, so 0 would not suffice if that is stricter.
"""
_METRIC = 1024
_PER_REQUEST = 10
_LEAST_STARTS, _MOST_STARTS = 50, 1_000_000
"""The limit of new connections is far above that of requests: it stops a flood and nothing else."""


OWN_PREFIX = "forewarn"
"""Name prefix of bridges that setup creates; every other bridge belongs to another program."""
_DEVICE = re.compile(rf"(?!\.{{1,2}}$)[^\s/\"'\\]{{1,{LONGEST_DEVICE}}}")


class GuestInterface(msgspec.Struct, frozen=True):
    """A VM's network interface on its host, and the addresses it may use."""

    name: str
    tap: str
    mark: int = 0
    mac_address: str = ""
    addresses: tuple[str, ...] = ()
    """IPv4; if empty, any is accepted."""
    addresses6: tuple[str, ...] = ()
    subnet: str = ""


class DesiredNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The desired network."""

    identity: str
    host: str
    """The address of the service."""
    bridge: str
    uplink: str
    port: int
    control_port: int
    """0 if there is no control port to protect."""
    starts: int
    """New connections per second that one guest may open on average; 0 is no limit."""
    starts_burst: int
    """Burst of new connections."""
    guests: tuple[GuestInterface, ...]

    def resources(self, current: CurrentNetwork) -> tuple[AnyResource, ...]:
        """Return the desired resources other than rules, in the order of creation."""
        return tuple(self._on_taps(current) if self.identity == "tap" else self._on_bridge(current))

    def undeclared_ports(self, current: CurrentNetwork) -> tuple[str, ...]:
        """Return the ports of the bridge with a guest or container that the fleet does not declare."""
        if self.identity == "tap":
            return ()
        known = {self.uplink, *(guest.tap for guest in self.guests)}
        ports = sorted(name for name, link in current.links.items() if link.bridge == self.bridge and link.is_virtual)
        return tuple(name for name in ports if name not in known)

    def outbound_ports(self, current: CurrentNetwork) -> tuple[str, ...]:
        """Return the ports of the bridge by which packets of other hosts may arrive."""
        ports = {name for name, link in current.links.items() if link.bridge == self.bridge and not link.is_virtual}
        return tuple(sorted(ports | ({self.uplink} if self.uplink else set())))

    @property
    def makes_bridge(self) -> bool:
        """Whether setup creates the bridge if it does not exist."""
        return self.bridge.startswith(OWN_PREFIX)

    def mark_of(self, guest: GuestInterface) -> int:
        """Return the mark of a guest's packets to the service, and of the responses."""
        return guest.mark if self.identity == "mark" else 0

    def _on_bridge(self, current: CurrentNetwork) -> Iterator[AnyResource]:
        if self.identity == "mark":
            yield Sysctl(ACCEPT_MARKS, "1")
        if self.makes_bridge or is_our_link(self.bridge, current):  # an earlier release created bridges of any name
            yield BridgeLink(self.bridge)
        elif self.bridge not in current.links:
            return
        yield LinkUp(self.bridge)
        yield LinkAddress(str(ip_network(self.host)), self.bridge)
        found = {address for guest in self.guests for address in self.answered(guest)}
        astray = sorted(address for address in found if _device_towards(address, current.routes) != self.bridge)
        yield from _routes((address, self.bridge) for address in astray)

    def _on_taps(self, current: CurrentNetwork) -> Iterator[AnyResource]:
        there = [guest for guest in self.guests if (tap := current.links.get(guest.tap)) and tap.is_up]
        for guest in there:
            yield LinkAddress(str(ip_network(self.host)), guest.tap)
            yield Sysctl(f"net/ipv4/conf/{guest.tap}/rp_filter", _LOOSE)
        yield from _routes((address, guest.tap) for guest in there for address in self.answered(guest))

    def answered(self, guest: GuestInterface) -> tuple[str, ...]:
        """Return the addresses of a guest that responses go to; link-local ones need no route."""
        if ":" not in self.host:
            return guest.addresses
        return tuple(address for address in guest.addresses6 if not ip_address(address).is_link_local)


def desired_network(settings: Settings, vms: Iterable[Vm]) -> DesiredNetwork:
    """Return the desired network; raise BadInput if no guest could reach the service."""
    host = settings.metadata.host
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is None or address.is_loopback or address.is_unspecified:
        raise BadInput(
            f'metadata is {settings.metadata}, which guests cannot reach; set metadata = "169.254.169.254:80"'
        )
    network = settings.network
    for key, name in (("bridge", network.bridge), ("uplink", network.uplink)):
        if not (_DEVICE.fullmatch(name) or (key == "uplink" and not name)):
            raise BadInput(
                f"{key} in [network] is {name!r}; device names have 1 to 15 characters, no blank, slash or quote"
            )
    return DesiredNetwork(
        identity=settings.identity,
        host=str(address),
        bridge=network.bridge,
        uplink=network.uplink,
        port=settings.metadata.port,
        control_port=settings.control.port if settings.control else 0,
        starts=_starts(settings.rate_limit) if settings.rate_limit else 0,
        starts_burst=_starts(settings.rate_burst),
        guests=tuple(
            _guest(vm) for vm in vms if vm.interface.tap and (not network.host or vm.standing_on == network.host)
        ),
    )


def _starts(requests: float) -> int:
    return min(max(_LEAST_STARTS, math.ceil(_PER_REQUEST * requests)), _MOST_STARTS)


def _guest(vm: Vm) -> GuestInterface:
    addresses = [each for each in (vm.address, vm.interface.ipv6_address) if each]
    return GuestInterface(
        vm.name,
        vm.interface.tap,
        vm.interface.mark,
        vm.interface.mac_address,
        tuple(each for each in addresses if ":" not in each),
        tuple(each for each in addresses if ":" in each),
        vm.interface.subnet,
    )


def _routes(ways: Iterable[tuple[str, str]]) -> list[GuestRoute]:
    """Return a route for each address; routes to equal addresses differ in their metric, as the kernel requires."""
    taken: dict[str, int] = {}
    routes = []
    for address, device in ways:
        taken[address] = taken.get(address, -1) + 1
        routes.append(GuestRoute(address, device, _METRIC + taken[address]))
    return routes


def _device_towards(address: str, routes: Iterable[CurrentRoute]) -> str:
    """Return the device by which the address is reached without our routes."""
    desired = ip_address(address)
    fitting = [
        (ip_network(route.destination).prefixlen, -route.metric, route.device)
        for route in routes
        if route.protocol != ROUTE_PROTOCOL and desired in ip_network(route.destination)
    ]
    return max(fitting, default=(0, 0, ""))[2]
