"""Frames as a guest would write them that lies, byte by byte."""

import struct
from ipaddress import ip_address

from tests.network.namespaces import SERVICE

ALL = bytes([0xFF] * 6)
REPLY = 2
MORE = 0x2000
"""The first of several fragments."""
_ICMP, _TCP, _UDP, _ICMP6 = 1, 6, 17, 58
_IP, _ARP, _IP6 = b"\x08\x00", b"\x08\x06", b"\x86\xdd"
_SYN = 0x5002
_SOLICITATION, _ADVERTISEMENT = 135, 136
_OVERRIDE = 0x20000000


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


def syn(to: bytes, source: str, target: str, port: int, number: int = 2) -> bytes:
    """Return the first packet of a connection; the kernel counts it before it looks at the missing checksum."""
    segment = struct.pack("!HHIIHHHH", 40_000, port, 1, 0, _SYN, 1024, 0, 0)
    return to + mac(number) + _IP + _packet(_TCP, source, target, segment)


def advertisement(number: int, claimed: str, *, source: str, to: bytes, target: str) -> bytes:
    """Return the claim of a guest, as an IPv6 neighbour, that an address is its own."""
    message = struct.pack("!BBHI", _ADVERTISEMENT, 0, 0, _OVERRIDE) + ip_address(claimed).packed + b"\x02\x01"
    return to + mac(number) + _IP6 + _packet6(source, target, message + mac(number))


def solicitation(number: int, about: str, *, source: str, to: bytes) -> bytes:
    """Return a guest's question for an IPv6 neighbour, which also claims the source address."""
    message = struct.pack("!BBHI", _SOLICITATION, 0, 0, 0) + ip_address(about).packed + b"\x01\x01"
    return to + mac(number) + _IP6 + _packet6(source, about, message + mac(number))


def _packet6(source: str, target: str, message: bytes) -> bytes:
    addresses = ip_address(source).packed + ip_address(target).packed
    pseudo = addresses + struct.pack("!II", len(message), _ICMP6)
    total = sum(struct.unpack(f"!{len(pseudo + message) // 2}H", pseudo + message))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    checked = message[:2] + struct.pack("!H", checksum) + message[4:]
    return struct.pack("!IHBB", 6 << 28, len(message), _ICMP6, 255) + addresses + checked


def _packet(protocol: int, source: str, target: str, content: bytes, fragment: int = 0) -> bytes:
    addresses = ip_address(source).packed + ip_address(target).packed
    header = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(content), 0, fragment, 64, protocol)
    total = sum(struct.unpack("!9H", header + addresses))
    checksum = ~(total + (total >> 16)) & 0xFFFF
    return header + struct.pack("!H", checksum) + addresses + content
