"""Finds VMs that responses of the service cannot reach because of routes. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network

from forewarn.network.current import ROUTE_PROTOCOL, CurrentNetwork
from forewarn.network.desired import DesiredNetwork, GuestInterface

ReturnRoute = tuple[str, int]
"""An address, and the mark of responses to it."""


def find_unanswered(
    desired: DesiredNetwork, current: CurrentNetwork, return_devices: Mapping[ReturnRoute, str]
) -> dict[str, list[str]]:
    """Return the names of VMs that responses cannot reach, by remedy.

    ``return_devices`` holds the device by which the kernel routes each response.
    """
    found: dict[str, list[str]] = {}
    for guest in desired.guests:
        for problem in _problems_of(guest, desired, current, return_devices):
            found.setdefault(problem, []).append(guest.name)
    return found


def return_routes_of(desired: DesiredNetwork) -> list[ReturnRoute]:
    """Return the responses with routes to check; responses on a tap leave by that tap."""
    if desired.identity == "tap":
        return []
    return [(address, desired.mark_of(guest)) for guest in desired.guests for address in desired.answered(guest)]


def _problems_of(
    guest: GuestInterface, desired: DesiredNetwork, current: CurrentNetwork, return_devices: Mapping[ReturnRoute, str]
) -> Iterator[str]:
    for address in desired.answered(guest) if desired.identity != "tap" else ():
        device = return_devices.get((address, desired.mark_of(guest)), "")
        if device != desired.bridge:
            led = f"the route to {address} uses {device}" if device else f"there is no route to {address}"
            yield f"{led}; check 'ip rule' and 'ip route get {address} from {desired.host}'"
    is_known = desired.identity == "tap" or desired.mark_of(guest)
    if is_known and not desired.answered(guest):
        # The listener on a tap answers by it; but the kernel drops packets from sources without any route.
        device = guest.tap if desired.identity == "tap" else desired.bridge
        routes = _routes("" if desired.identity == "tap" else device, current, ip_address(desired.host).version)
        subnet = ip_network(guest.subnet, strict=False) if guest.subnet else None
        if not any(subnet is None or _overlap(subnet, to) for to in routes):
            yield (
                f"no address is declared, and no route to {subnet or 'its subnet'} uses {device}; declare the"
                f" address, or add the route: ip route add {subnet or 'SUBNET'} dev {device}"
            )


def _routes(device: str, current: CurrentNetwork, version: int) -> Iterable[str]:
    """Return the destinations that are reached by a device, or by any."""
    return [
        route.destination
        for route in current.routes
        if (not device or route.device == device)
        and route.protocol != ROUTE_PROTOCOL
        and (to := ip_network(route.destination)).version == version
        and to.prefixlen < to.max_prefixlen
    ]


def _overlap(subnet: object, to: str) -> bool:
    return ip_network(to).overlaps(ip_network(str(subnet)))
