"""To which VMs an answer of the service would not find its way back. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network

from forewarn.network.sight import OURS, Sight
from forewarn.network.wanted import Guest, Wanted

Way = tuple[str, int]
"""An address, and the mark that answers to it bear."""


def unanswered(wanted: Wanted, sight: Sight, ways_back: Mapping[Way, str]) -> dict[str, list[str]]:
    """Return the names of VMs that get no answer, by what to do; ``ways_back`` is the device the kernel routes by."""
    found: dict[str, list[str]] = {}
    for guest in wanted.guests:
        for told in _troubles(guest, wanted, sight, ways_back):
            found.setdefault(told, []).append(guest.name)
    return found


def ways_of(wanted: Wanted) -> list[Way]:
    """Return the answers whose routes are to be asked for; answers on a tap leave by that tap."""
    if wanted.identity == "tap":
        return []
    return [(address, wanted.mark_of(guest)) for guest in wanted.guests for address in wanted.answered(guest)]


def _troubles(guest: Guest, wanted: Wanted, sight: Sight, ways_back: Mapping[Way, str]) -> Iterator[str]:
    for address in wanted.answered(guest) if wanted.identity != "tap" else ():
        device = ways_back.get((address, wanted.mark_of(guest)), "")
        if device != wanted.bridge:
            led = f"the route to {address} leads by {device}" if device else f"no route leads to {address}"
            yield f"{led}; see 'ip rule' and 'ip route get {address} from {wanted.host}'"
    is_known = wanted.identity == "tap" or wanted.mark_of(guest)
    if is_known and not wanted.answered(guest):
        # The listener on a tap answers by it; but the kernel lets nothing in from where no route leads at all.
        device = guest.tap if wanted.identity == "tap" else wanted.bridge
        routes = _routes("" if wanted.identity == "tap" else device, sight, ip_address(wanted.host).version)
        subnet = ip_network(guest.subnet, strict=False) if guest.subnet else None
        if not any(subnet is None or _overlap(subnet, to) for to in routes):
            yield (
                f"no address is declared, and no route to {subnet or 'its subnet'} leads by {device}; declare the"
                f" address, or add the route: ip route add {subnet or 'SUBNET'} dev {device}"
            )


def _routes(device: str, sight: Sight, version: int) -> Iterable[str]:
    """Return the subnets that are reached by a device, or at all."""
    return [
        route.destination
        for route in sight.routes
        if (not device or route.device == device)
        and route.protocol != OURS
        and (to := ip_network(route.destination)).version == version
        and to.prefixlen < to.max_prefixlen
    ]


def _overlap(subnet: object, to: str) -> bool:
    return ip_network(to).overlaps(ip_network(str(subnet)))
