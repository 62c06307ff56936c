"""Discovers the service with DHCP, on every Ethernet interface at once. Linux, as root.

Raw sockets are used, so neither the firewall nor a DHCP client of the machine is disturbed.
"""

import os
import selectors
import socket
from contextlib import ExitStack, suppress
from time import monotonic
from typing import Self

from forewarn.client.dhcp import datagram, discover, endpoint_in, reply_in

_SENT_AT = (0.0, 1.5, 4.0)
_TIMEOUT = 7.0
"""Seconds. A server may check for three seconds whether the offered address is free."""
_ETHERNET = 1
_IP = 0x0800
_MOST = 16
"""Maximum number of interfaces; a machine with more is not a VM."""
_LARGEST = 65_536


def offered_endpoints() -> tuple[str, ...]:
    """Return the addresses that DHCP servers offer; none on other systems or without root."""
    if not hasattr(socket, "AF_PACKET"):
        return ()
    with ExitStack() as stack:
        try:
            names = [name for _, name in socket.if_nameindex()]
            interfaces = [stack.enter_context(_DhcpInterface(name)) for name in names[:_MOST]]
        except OSError:
            return ()
        return _listen([interface for interface in interfaces if interface.is_ethernet])


class _DhcpInterface:
    """Discovery on one interface."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._mac = b""
        self._transaction = int.from_bytes(os.urandom(4), "big")
        self.is_ethernet = False
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IP))

    def __enter__(self) -> Self:
        self.socket.setblocking(False)
        self.socket.bind((self._name, _IP))
        *_, kind, self._mac = self.socket.getsockname()
        self.is_ethernet = kind == _ETHERNET and len(self._mac) == 6
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self) -> None:
        """Send the DISCOVER; do nothing if the interface cannot send."""
        packet = datagram(discover(self._mac, self._transaction))
        with suppress(OSError):  # an interface may be down; the others are used
            self.socket.sendto(packet, (self._name, _IP, 0, 0, b"\xff" * 6))

    def hear(self) -> str:
        """Return the address in the next packet; empty for most packets."""
        try:
            packet = self.socket.recv(_LARGEST)
        except OSError:
            return ""
        return endpoint_in(reply_in(packet, self._mac, self._transaction))


def _listen(interfaces: list[_DhcpInterface]) -> tuple[str, ...]:
    began = monotonic()
    due = list(_SENT_AT)
    with selectors.DefaultSelector() as selector:
        for interface in interfaces:
            selector.register(interface.socket, selectors.EVENT_READ, interface)
        while interfaces and (left := began + _TIMEOUT - monotonic()) > 0:
            if due and monotonic() - began >= due[0]:
                due.pop(0)
                for interface in interfaces:
                    interface.ask()
            wait = min(left, began + due[0] - monotonic()) if due else left
            for key, _ in selector.select(max(wait, 0.0)):
                found = key.data.hear()
                if found:
                    return (found,)
    return ()
