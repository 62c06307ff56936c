"""Resources that setup creates beside rules; each can be detected, created, removed and recorded.

A resource that setup created is recorded in one line, from which teardown recognises it. What existed before is not
recorded and stays. If all rules were flushed, and the record with them, resources recognisable as ours are recorded
again.
"""

import shlex
from hashlib import sha256
from ipaddress import ip_network
from platform import node
from typing import TypeAlias

import msgspec

from forewarn.network.current import ROUTE_PROTOCOL, CurrentNetwork


class SystemCommand(msgspec.Struct, frozen=True):
    """A program, its arguments, and its stdin."""

    words: tuple[str, ...]
    given: str = ""

    def __str__(self) -> str:
        """Return the command as a shell would accept it."""
        line = shlex.join(self.words)
        return f"{line} <<'EOF'\n{self.given}EOF" if self.given else line


def mac_of(bridge: str) -> str:
    """Return a MAC address that is constant for this machine's bridge of that name, and differs between machines."""
    digest = sha256(f"{node()}/{bridge}".encode()).hexdigest()
    return ":".join(("02", *(digest[at : at + 2] for at in range(0, 10, 2))))


def is_our_link(name: str, current: CurrentNetwork) -> bool:
    """Return whether setup created a bridge, by its MAC address."""
    return name in current.links and current.links[name].mac == mac_of(name)


class BridgeLink(msgspec.Struct, frozen=True):
    """A bridge."""

    name: str

    def __str__(self) -> str:
        return f"the bridge {self.name}"

    def exists(self, current: CurrentNetwork) -> bool:
        return self.name in current.links

    def is_ours(self, current: CurrentNetwork) -> bool:
        return is_our_link(self.name, current)

    def create_command(self) -> SystemCommand:
        # Without its own MAC a bridge takes that of its lowest port, and guests keep using the previous one.
        return SystemCommand(("ip", "link", "add", self.name, "address", mac_of(self.name), "type", "bridge"))

    def remove_command(self) -> SystemCommand:
        return SystemCommand(("ip", "link", "delete", self.name))

    def line(self, current: CurrentNetwork) -> str:
        return f"link {self.name}"


class LinkUp(msgspec.Struct, frozen=True):
    """A device in state up."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} up"

    def exists(self, current: CurrentNetwork) -> bool:
        return self.name in current.links and current.links[self.name].is_up

    def is_ours(self, current: CurrentNetwork) -> bool:
        return is_our_link(self.name, current)

    def create_command(self) -> SystemCommand:
        return SystemCommand(("ip", "link", "set", self.name, "up"))

    def remove_command(self) -> SystemCommand:
        return SystemCommand(("ip", "link", "set", self.name, "down"))

    def line(self, current: CurrentNetwork) -> str:
        return f"up {self.name}"


class LinkAddress(msgspec.Struct, frozen=True):
    """An address of this machine."""

    address: str
    device: str

    def __str__(self) -> str:
        return f"the address {self.address} on {self.device}"

    def exists(self, current: CurrentNetwork) -> bool:
        return self.device in current.links and self.address in current.links[self.device].addresses

    def is_ours(self, current: CurrentNetwork) -> bool:
        return is_our_link(self.device, current)

    def create_command(self) -> SystemCommand:
        # Skip duplicate address detection: the service could not listen on the address meanwhile.
        at_once = ("nodad",) if ":" in self.address else ()
        return SystemCommand(("ip", "address", "add", self.address, "dev", self.device, *at_once))

    def remove_command(self) -> SystemCommand:
        return SystemCommand(("ip", "address", "delete", self.address, "dev", self.device))

    def line(self, current: CurrentNetwork) -> str:
        return f"address {self.address} {self.device}"


class GuestRoute(msgspec.Struct, frozen=True):
    """A route to a guest."""

    address: str
    device: str
    metric: int

    def __str__(self) -> str:
        return f"the route to {self.address} via {self.device}"

    def exists(self, current: CurrentNetwork) -> bool:
        mine = (str(ip_network(self.address)), self.device, self.metric, ROUTE_PROTOCOL)
        return any((each.destination, each.device, each.metric, each.protocol) == mine for each in current.routes)

    def is_ours(self, current: CurrentNetwork) -> bool:
        return self.exists(current)

    def create_command(self) -> SystemCommand:
        return SystemCommand(("ip", "route", "add", *self._words))

    def remove_command(self) -> SystemCommand:
        return SystemCommand(("ip", "route", "delete", *self._words))

    @property
    def _words(self) -> tuple[str, ...]:
        return (self.address, "dev", self.device, "metric", str(self.metric), "proto", ROUTE_PROTOCOL)

    def line(self, current: CurrentNetwork) -> str:
        return f"route {self.address} {self.device} {self.metric}"


class Sysctl(msgspec.Struct, frozen=True):
    """A kernel parameter; its name is written with slashes, because device names may contain dots."""

    name: str
    value: str
    before: str = ""

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"

    def exists(self, current: CurrentNetwork) -> bool:
        return current.sysctls.get(self.name) == self.value

    def is_ours(self, current: CurrentNetwork) -> bool:
        return False

    def create_command(self) -> SystemCommand:
        return SystemCommand(("sysctl", "-q", "-w", f"{self.name}={self.value}"))

    def remove_command(self) -> SystemCommand:
        return SystemCommand(("sysctl", "-q", "-w", f"{self.name}={self.before}"))

    def line(self, current: CurrentNetwork) -> str:
        return f"sysctl {self.name} {self.value} {current.sysctls.get(self.name, '0')}"


AnyResource: TypeAlias = BridgeLink | LinkUp | LinkAddress | GuestRoute | Sysctl


def parse_resource(line: str) -> AnyResource | None:
    """Parse a line of the record; None for a line of another release."""
    match line.split():
        case ["link", name]:
            return BridgeLink(name)
        case ["up", name]:
            return LinkUp(name)
        case ["address", address, device]:
            return LinkAddress(address, device)
        case ["route", address, device, metric] if metric.isdigit():
            return GuestRoute(address, device, int(metric))
        case ["sysctl", name, value, before]:
            return Sysctl(name, value, before)
        case _:
            return None
