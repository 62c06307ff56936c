"""Asks the DHCP servers around for the service, on every Ethernet interface at once. Linux, as root.

Packets are sent and read below the firewall and beside whatever DHCP client runs here, so that neither is disturbed.
"""

import os
import selectors
import socket
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Self

from forewarn.client.dhcp import datagram, discover, endpoint_in, reply_in

_SENT_AT = (0.0, 1.5, 4.0)
_PATIENCE = 7.0
"""Seconds. Servers may look for three of them whether the address they offer is free."""
_ETHERNET = "1"
_IP = 0x0800
_MOST = 16
_UP = 1


def offered_endpoints() -> tuple[str, ...]:
    """Return the address that a DHCP server names; none where it may not be asked: elsewhere, or by others."""
    if not hasattr(socket, "AF_PACKET"):
        return ()
    with ExitStack() as stack:
        try:
            ears = [stack.enter_context(_Interface(name, mac)) for name, mac in _interfaces()]
        except OSError:
            return ()
        return _listen(ears)


class _Interface:
    """One interface on which is asked."""

    def __init__(self, name: str, mac: bytes) -> None:
        self._name = name
        self._mac = mac
        self._transaction = int.from_bytes(os.urandom(4), "big")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IP))
        self.socket.setblocking(False)

    def __enter__(self) -> Self:
        self.socket.bind((self._name, _IP))
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self) -> None:
        """Send the question; harmless where the interface cannot."""
        packet = datagram(discover(self._mac, self._transaction))
        try:
            self.socket.sendto(packet, (self._name, _IP, 0, 0, b"\xff" * 6))
        except OSError:
            return  # the interface went down; the others are asked

    def hear(self) -> str:
        """Return the address that the next packet names; most packets name none."""
        try:
            packet = self.socket.recv(65_536)
        except OSError:
            return ""
        return endpoint_in(reply_in(packet, self._mac, self._transaction))


def _listen(ears: list[_Interface]) -> tuple[str, ...]:
    began = monotonic()
    due = list(_SENT_AT)
    with selectors.DefaultSelector() as selector:
        for ear in ears:
            selector.register(ear.socket, selectors.EVENT_READ, ear)
        while ears and (left := began + _PATIENCE - monotonic()) > 0:
            if due and monotonic() - began >= due[0]:
                due.pop(0)
                for ear in ears:
                    ear.ask()
            wait = min(left, began + due[0] - monotonic()) if due else left
            for key, _ in selector.select(max(wait, 0.0)):
                found = key.data.hear()
                if found:
                    return (found,)
    return ()


def _interfaces() -> list[tuple[str, bytes]]:
    found = []
    for _, name in socket.if_nameindex():
        folder = Path("/sys/class/net") / name
        try:
            kind = (folder / "type").read_text().strip()
            flags = int((folder / "flags").read_text(), 16)
            mac = bytes.fromhex((folder / "address").read_text().strip().replace(":", ""))
        except (OSError, ValueError):
            continue
        if kind == _ETHERNET and flags & _UP and len(mac) == 6 and any(mac):
            found.append((name, mac))
    return found[:_MOST]
