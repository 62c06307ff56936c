"""What the network of this machine is to be, from the settings and the fleet. Pure.

identity = "address" | "mark"        every guest's tap is a port of one bridge, which has the service's address
identity = "tap"                     every guest's tap is a network of its own, whatever addresses are used there
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

import msgspec

from forewarn.config.settings import Settings
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm
from forewarn.network.pieces import Address, AnyPiece, Link, Route, Sysctl, Up
from forewarn.network.sight import OURS, RouteSeen, Sight

ACCEPT_MARKS = "net/ipv4/tcp_fwmark_accept"
_LOOSE = "2"
"""A packet is let in if its source can be reached anyhow. The kernel takes the larger of this and what goes for all
devices, so that 0 would not do where that is stricter."""
_METRIC = 1024


class Guest(msgspec.Struct, frozen=True):
    """A VM as its host sees it: a device, and what may come out of it."""

    name: str
    tap: str
    mark: int = 0
    mac_address: str = ""
    addresses: tuple[str, ...] = ()
    """IPv4; with none, any may come."""
    addresses6: tuple[str, ...] = ()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be there."""

    identity: str
    host: str
    """The address of the service."""
    bridge: str
    uplink: str
    control_port: int
    """0 where there is none to protect."""
    guests: tuple[Guest, ...]

    def pieces(self, sight: Sight) -> tuple[AnyPiece, ...]:
        """Return what is to be there beside the rules, in the order in which it can be made."""
        return tuple(self._on_taps(sight) if self.identity == "tap" else self._on_bridge(sight))

    def _on_bridge(self, sight: Sight) -> Iterator[AnyPiece]:
        yield Link(self.bridge)
        yield Up(self.bridge)
        yield Address(str(ip_network(self.host)), self.bridge)
        if self.identity == "mark":
            yield Sysctl(ACCEPT_MARKS, "1")
        found = {address for guest in self.guests for address in guest.addresses}
        astray = sorted(address for address in found if _way_to(address, sight.routes) != self.bridge)
        yield from _routes((address, self.bridge) for address in astray)

    def _on_taps(self, sight: Sight) -> Iterator[AnyPiece]:
        there = [guest for guest in self.guests if (tap := sight.links.get(guest.tap)) and tap.is_up]
        for guest in there:
            yield Address(str(ip_network(self.host)), guest.tap)
            yield Sysctl(f"net/ipv4/conf/{guest.tap}/rp_filter", _LOOSE)
        yield from _routes((address, guest.tap) for guest in there for address in guest.addresses)


def wanted_of(settings: Settings, vms: Iterable[Vm]) -> Wanted:
    """Return what the settings and the fleet ask for; raise BadInput where no guest could reach the service."""
    host = settings.metadata.host
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is None or address.is_loopback or address.is_unspecified:
        raise BadInput(
            f"metadata is {settings.metadata}, which no guest can reach by an address of its own;"
            ' set metadata = "169.254.169.254:80"'
        )
    network = settings.network
    return Wanted(
        identity=settings.identity,
        host=str(address),
        bridge=network.bridge,
        uplink=network.uplink,
        control_port=settings.control.port if settings.control else 0,
        guests=tuple(
            _guest(vm) for vm in vms if vm.interface.tap and (not network.host or vm.standing_on == network.host)
        ),
    )


def _guest(vm: Vm) -> Guest:
    addresses = [each for each in (vm.address, vm.interface.ipv6_address) if each]
    return Guest(
        vm.name,
        vm.interface.tap,
        vm.interface.mark,
        vm.interface.mac_address,
        tuple(each for each in addresses if ":" not in each),
        tuple(each for each in addresses if ":" in each),
    )


def _routes(ways: Iterable[tuple[str, str]]) -> list[Route]:
    """Return a route for each; those to equal addresses differ in their metric, as the kernel demands."""
    taken: dict[str, int] = {}
    routes = []
    for address, device in ways:
        taken[address] = taken.get(address, -1) + 1
        routes.append(Route(address, device, _METRIC + taken[address]))
    return routes


def _way_to(address: str, routes: Iterable[RouteSeen]) -> str:
    """Return the device by which the address is reached without our doing."""
    wanted = ip_address(address)
    fitting = [
        (ip_network(route.destination).prefixlen, -route.metric, route.device)
        for route in routes
        if route.protocol != OURS and wanted in ip_network(route.destination)
    ]
    return max(fitting, default=(0, 0, ""))[2]
