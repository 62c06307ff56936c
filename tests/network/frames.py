"""Frames as a guest would write them that lies, byte by byte."""

import struct
from ipaddress import ip_address

from tests.network.namespaces import SERVICE

ALL = bytes([0xFF] * 6)
REPLY = 2
MORE = 0x2000
"""The first of several fragments."""
_ICMP, _UDP = 1, 17
_IP, _ARP = b"\x08\x00", b"\x08\x06"


def mac(number: int) -> bytes:
    """Return the MAC address of the guest of that number."""
    return bytes.fromhex(f"5254000000{number:02x}")


def arp(number: int, claimed: str, *, to: bytes = ALL, about: str = "10.0.0.1") -> bytes:
    """Return the claim of a guest that an address is its own."""
    addresses = mac(number) + ip_address(claimed).packed + bytes(6) + ip_address(about).packed
    return to + mac(number) + _ARP + struct.pack("!HHBBH", 1, 0x0800, 6, 4, REPLY) + addresses


def echo(to: bytes, source: str, *, tag: bytes = b"", number: int = 2, fragment: int = 0) -> bytes:
    """Return an echo request from an address to the service."""
    packet = _packet(_ICMP, source, SERVICE, b"\x08\x00\xf7\xff" + bytes(4), fragment)
    return to + mac(number) + tag + _IP + packet


def offer(source: str, number: int = 2) -> bytes:
    """Return what a server for DHCP says to everybody."""
    return ALL + mac(number) + _IP + _packet(_UDP, source, "255.255.255.255", struct.pack("!HHHH", 67, 68, 8, 0))


def _packet(protocol: int, source: str, target: str, content: bytes, fragment: int = 0) -> bytes:
    addresses = ip_address(source).packed + ip_address(target).packed
    header = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(content), 0, fragment, 64, protocol)
    total = sum(struct.unpack("!9H", header + addresses))
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return header + struct.pack("!H", checksum) + addresses + content
