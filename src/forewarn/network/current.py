"""Current state of this machine's network."""

import msgspec

ROUTE_PROTOCOL = "169"
"""Protocol number of our routes, so that they can be recognised."""


class CurrentLink(msgspec.Struct, frozen=True):
    """A network device."""

    is_up: bool
    addresses: frozenset[str] = frozenset()
    bridge: str = ""
    """The bridge it is a port of."""
    kind: str = ""
    """The kernel's kind of device; empty for hardware."""
    mac: str = ""

    @property
    def is_virtual(self) -> bool:
        """Whether its other end is on this machine: a guest or a container."""
        return self.kind in {"tun", "veth"}


class CurrentRoute(msgspec.Struct, frozen=True):
    """A route."""

    destination: str
    """With its prefix."""
    device: str
    metric: int = 0
    protocol: str = ""


class CurrentNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Devices, routes, sysctls and our nft tables."""

    links: dict[str, CurrentLink] = {}
    routes: tuple[CurrentRoute, ...] = ()
    sysctls: dict[str, str] = {}
    record: tuple[str, ...] = ()
    """What earlier runs of setup changed, as recorded."""
    tables: tuple[str, ...] = ()
    """The families of our tables."""
