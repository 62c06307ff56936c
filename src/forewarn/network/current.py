"""What is seen of this machine's network."""

import msgspec

ROUTE_PROTOCOL = "169"
"""The protocol number that our routes bear, so that nobody takes them for his own."""


class CurrentLink(msgspec.Struct, frozen=True):
    """A device that is there."""

    is_up: bool
    addresses: frozenset[str] = frozenset()
    bridge: str = ""
    """The bridge it is a port of."""
    kind: str = ""
    """What the kernel calls it; nothing for hardware."""
    mac: str = ""

    @property
    def is_virtual(self) -> bool:
        """Whether somebody on this machine is at its other end: a guest, or a container."""
        return self.kind in {"tun", "veth"}


class CurrentRoute(msgspec.Struct, frozen=True):
    """A route that is there."""

    destination: str
    """With its prefix."""
    device: str
    metric: int = 0
    protocol: str = ""


class CurrentNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """What is there."""

    links: dict[str, CurrentLink] = {}
    routes: tuple[CurrentRoute, ...] = ()
    sysctls: dict[str, str] = {}
    record: tuple[str, ...] = ()
    """What earlier runs changed, as they wrote it down."""
    tables: tuple[str, ...] = ()
    """The families of our tables."""
