"""DHCP as far as it names the service."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.dhcp import COOKIE, datagram, discover, endpoint_in, reply_in

MAC = bytes.fromhex("525400123456")
WIRE_SERVER = bytes((168, 63, 129, 16))


def offer(*options: tuple[int, bytes], mac: bytes = MAC, transaction: int = 7) -> bytes:
    head = struct.pack("!4BI20x6s202x", 2, 1, 6, 0, transaction, mac)
    result = b"".join(bytes((code, len(value))) + value for code, value in options)
    return head + COOKIE + result + b"\xff"


def packet(message: bytes, source: int = 67, target: int = 68) -> bytes:
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(message), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    return head + struct.pack("!4H", source, target, 8 + len(message), 0) + message


def test_a_discover_is_as_the_published_sample_has_it() -> None:
    """244 bytes: transaction at 4, the broadcast flag at 10, the address at 28, the cookie at 236, option 53."""
    sent = discover(MAC, 0x01020304)

    assert len(sent) == 244
    assert sent[:12] == bytes((1, 1, 6, 0, 1, 2, 3, 4, 0, 0, 0x80, 0))
    assert sent[0x1C:0x22] == MAC
    assert sent[0xEC:] == COOKIE + bytes((53, 1, 1, 255))


def test_a_discover_goes_to_everybody_with_a_sound_header() -> None:
    """From nobody's address; the words of the header add up to all ones."""
    sent = datagram(discover(MAC, 1))
    total = sum(struct.unpack("!10H", sent[:20]))

    assert sent[12:24] == bytes(4) + b"\xff" * 4 + struct.pack("!2H", 68, 67)
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
    assert struct.unpack("!H", sent[2:4])[0] == len(sent) == 272
    assert sent[6:8] == bytes(2)  # it is whole


def test_an_offer_names_the_service() -> None:
    """Among other options and padding."""
    message = offer((53, b"\2"), (3, bytes(4)), (0, b""), (245, WIRE_SERVER))

    assert endpoint_in(reply_in(packet(message), MAC, 7)) == "168.63.129.16"


def test_what_is_not_meant_for_us_is_not_heard() -> None:
    """Another's address or question, another port, another protocol, a question."""
    message = offer((245, WIRE_SERVER))
    others = (
        packet(offer((245, WIRE_SERVER), mac=bytes(6))),
        packet(offer((245, WIRE_SERVER), transaction=8)),
        packet(message, 68, 67),
        packet(b"\x01" + message[1:]),
        b"\x60" + packet(message)[1:],
        packet(message)[:9] + b"\x06" + packet(message)[10:],
    )

    assert [reply_in(each, MAC, 7) for each in others] == [b""] * 6


def test_an_option_that_is_no_address_names_nothing() -> None:
    """It must have four bytes, and not be zero."""
    for value in (b"", b"\1\2\3", bytes(4), bytes(16)):
        assert endpoint_in(offer((245, value))) == ""


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_bytes_are_read_without_harm(data: bytes, cut: int) -> None:
    """Whatever comes from the network."""
    reply_in(data, MAC, 7)
    endpoint_in(offer()[:-1] + data)
    endpoint_in(offer((245, WIRE_SERVER))[:cut])


def test_what_follows_the_end_is_no_option() -> None:
    """Servers fill a message up with whatever they have."""
    assert endpoint_in(offer() + bytes((245, 4)) + WIRE_SERVER) == ""
