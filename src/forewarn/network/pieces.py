"""What can be made on this machine's network beside rules: each piece can tell whether it is there, and be undone.

A piece that setup made is written down in one line, from which teardown knows it again. What was there before is not
written down, and stays; but where somebody has flushed all rules, and that record with them, what can be known to be
ours is written down again.
"""

from hashlib import sha256
from ipaddress import ip_network
from platform import node
from typing import TypeAlias

import msgspec

from forewarn.network.commands import Command
from forewarn.network.sight import OURS, Sight


def mac_of(bridge: str) -> str:
    """Return a MAC that this machine's bridge of that name always has, and that of another machine has not."""
    digest = sha256(f"{node()}/{bridge}".encode()).hexdigest()
    return ":".join(("02", *(digest[at : at + 2] for at in range(0, 10, 2))))


def is_our_link(name: str, sight: Sight) -> bool:
    """Tell whether a bridge is one that setup made, by its MAC."""
    return name in sight.links and sight.links[name].mac == mac_of(name)


class Link(msgspec.Struct, frozen=True):
    """A bridge."""

    name: str

    def __str__(self) -> str:
        return f"the bridge {self.name}"

    def is_there(self, sight: Sight) -> bool:
        return self.name in sight.links

    def is_ours(self, sight: Sight) -> bool:
        return is_our_link(self.name, sight)

    def make(self) -> Command:
        # Without a MAC of its own a bridge takes that of its lowest port, and guests go on writing to the last one.
        return Command(("ip", "link", "add", self.name, "address", mac_of(self.name), "type", "bridge"))

    def unmake(self) -> Command:
        return Command(("ip", "link", "delete", self.name))

    def line(self, sight: Sight) -> str:
        return f"link {self.name}"


class Up(msgspec.Struct, frozen=True):
    """A device that is switched on."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} switched on"

    def is_there(self, sight: Sight) -> bool:
        return self.name in sight.links and sight.links[self.name].is_up

    def is_ours(self, sight: Sight) -> bool:
        return is_our_link(self.name, sight)

    def make(self) -> Command:
        return Command(("ip", "link", "set", self.name, "up"))

    def unmake(self) -> Command:
        return Command(("ip", "link", "set", self.name, "down"))

    def line(self, sight: Sight) -> str:
        return f"up {self.name}"


class Address(msgspec.Struct, frozen=True):
    """An address of this machine."""

    address: str
    device: str

    def __str__(self) -> str:
        return f"the address {self.address} on {self.device}"

    def is_there(self, sight: Sight) -> bool:
        return self.device in sight.links and self.address in sight.links[self.device].addresses

    def is_ours(self, sight: Sight) -> bool:
        return is_our_link(self.device, sight)

    def make(self) -> Command:
        # An IPv6 address that waits to hear whether somebody else has it cannot be listened on, and nobody has it.
        at_once = ("nodad",) if ":" in self.address else ()
        return Command(("ip", "address", "add", self.address, "dev", self.device, *at_once))

    def unmake(self) -> Command:
        return Command(("ip", "address", "delete", self.address, "dev", self.device))

    def line(self, sight: Sight) -> str:
        return f"address {self.address} {self.device}"


class Route(msgspec.Struct, frozen=True):
    """The way to a guest."""

    address: str
    device: str
    metric: int

    def __str__(self) -> str:
        return f"the route to {self.address} by {self.device}"

    def is_there(self, sight: Sight) -> bool:
        mine = (str(ip_network(self.address)), self.device, self.metric, OURS)
        return any((each.destination, each.device, each.metric, each.protocol) == mine for each in sight.routes)

    def is_ours(self, sight: Sight) -> bool:
        return self.is_there(sight)

    def make(self) -> Command:
        return Command(("ip", "route", "add", *self._words))

    def unmake(self) -> Command:
        return Command(("ip", "route", "delete", *self._words))

    @property
    def _words(self) -> tuple[str, ...]:
        return (self.address, "dev", self.device, "metric", str(self.metric), "proto", OURS)

    def line(self, sight: Sight) -> str:
        return f"route {self.address} {self.device} {self.metric}"


class Sysctl(msgspec.Struct, frozen=True):
    """A switch of the kernel; its name is written with slashes, since names of devices may hold dots."""

    name: str
    value: str
    before: str = ""

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"

    def is_there(self, sight: Sight) -> bool:
        return sight.sysctls.get(self.name) == self.value

    def is_ours(self, sight: Sight) -> bool:
        return False

    def make(self) -> Command:
        return Command(("sysctl", "-q", "-w", f"{self.name}={self.value}"))

    def unmake(self) -> Command:
        return Command(("sysctl", "-q", "-w", f"{self.name}={self.before}"))

    def line(self, sight: Sight) -> str:
        return f"sysctl {self.name} {self.value} {sight.sysctls.get(self.name, '0')}"


AnyPiece: TypeAlias = Link | Up | Address | Route | Sysctl


def piece_of(line: str) -> AnyPiece | None:
    """Return the piece that a line of the record tells of; None for what another release wrote."""
    match line.split():
        case ["link", name]:
            return Link(name)
        case ["up", name]:
            return Up(name)
        case ["address", address, device]:
            return Address(address, device)
        case ["route", address, device, metric] if metric.isdigit():
            return Route(address, device, int(metric))
        case ["sysctl", name, value, before]:
            return Sysctl(name, value, before)
        case _:
            return None
