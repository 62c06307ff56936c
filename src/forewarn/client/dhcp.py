"""DHCP messages for discovery: a DISCOVER that requests no lease, and option 245 of the reply. Pure.

Azure: outside a virtual network the fabric's DHCP server hands out the address of the service, four bytes.
"""

import struct

COOKIE = b"\x63\x82\x53\x63"
CLIENT_PORT, SERVER_PORT = 68, 67
_COOKIE_AT = 0xEC
_OPTIONS_AT = 0xF0
_PAD, _MESSAGE, _ENDPOINT, _END = 0, 53, 245, 255
_DISCOVER = 1
_BROADCAST = 0x8000
_UDP = 17


def discover(mac: bytes, transaction: int) -> bytes:
    """Return a DHCPDISCOVER for the interface with this hardware address; the reply is a broadcast."""
    # op, htype, hlen, hops; transaction; seconds, flags; four addresses; hardware address; names, empty
    head = struct.pack("!4BIHH16s16s192s", 1, 1, 6, 0, transaction, 0, _BROADCAST, b"", mac, b"")
    return head + COOKIE + bytes((_MESSAGE, 1, _DISCOVER, _END))


def datagram(payload: bytes) -> bytes:
    """Return the IP packet of a DISCOVER; the interface may have no address yet."""
    length = 8 + len(payload)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 64, _UDP, 0, bytes(4), b"\xff" * 4)
    header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
    # UDP: a checksum of zero means that there is none.
    return header + struct.pack("!4H", CLIENT_PORT, SERVER_PORT, length, 0) + payload


def reply_in(packet: bytes, mac: bytes, transaction: int) -> bytes:
    """Return the DHCP message in an IP packet if it is a reply to this DISCOVER, else nothing."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != _UDP:
        return b""
    start = (packet[0] & 0x0F) * 4
    if packet[start : start + 4] != struct.pack("!HH", SERVER_PORT, CLIENT_PORT):
        return b""
    message = packet[start + 8 :]
    is_ours = message[4:8] == transaction.to_bytes(4, "big") and message[0x1C:0x22] == mac
    return message if is_ours and message[:1] == b"\x02" else b""


def endpoint_in(message: bytes) -> str:
    """Return the address in option 245 of a DHCP message; empty if there is none."""
    if message[_COOKIE_AT:_OPTIONS_AT] != COOKIE:
        return ""
    at = _OPTIONS_AT
    while at < len(message) and message[at] != _END:
        if message[at] == _PAD:
            at += 1
            continue
        value = message[at + 2 : at + 2 + message[at + 1]] if at + 1 < len(message) else b""
        if message[at] == _ENDPOINT:
            return address(value)
        at += 2 + len(value) if value else 2
    return ""


def address(value: bytes) -> str:
    """Format four bytes as an address; empty if they are not an address."""
    return ".".join(map(str, value)) if len(value) == 4 and any(value) else ""


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
