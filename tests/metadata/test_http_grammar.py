"""The HTTP edge against a plain reference parser: the same verdicts, whatever is sent and however it is split."""

import asyncio
import re
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.facts import Enrolled
from forewarn.metadata.http_connection import HttpConnection
from tests.metadata import reference
from tests.metadata.harness import GENEROUS, NOW, WEB, MetadataHarness

METHODS = st.sampled_from(["GET"] * 6 + ["POST", "HEAD", "PUT", "OPTIONS", "CONNECT", "get", "G(T", ""])
VERSIONS = st.sampled_from(["2020-07-01"] * 4 + ["2017-03-01", "2019-08-01", "2016-01-01", "latest", ""])
PATHS = st.sampled_from(
    ["/metadata/scheduledevents"] * 5
    + [
        "/metadata/scheduledEvents/",
        "/METADATA/versions",
        "/metadata",
        "/",
        "//",
        "/metadata/scheduled%65vents",
        "/%zz",
    ]
    + [
        "http://h/metadata/scheduledevents",
        "http:///x",
        "http://u@h/",
        "https://h/",
        "*",
        "x",
        "/a#b",
        "/\xe4",
        "/a b",
    ]
)
QUERIES = st.sampled_from(
    ["?api-version={}"] * 8
    + [
        "?api-version={0}&api-version={0}",
        "?a=1&A=2&api-version={}",
        "?&&api-version={}&",
        "?%61pi-version={}",
        "",
        "?",
    ]
)
PROTOCOLS = st.sampled_from(
    ["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/11", ""]
)
FIELDS = st.sampled_from(
    ["Metadata: true"] * 6
    + [
        "metadata:TRUE",
        "Metadata: false",
        "Metadata : true",
        "Host: h",
        "Host: [::1]:80",
        "Host: a b",
        "hOST:",
        "Host: h:x",
    ]
    + [
        "Connection: close",
        "Connection: keep-alive",
        "Connection: x, CLOSE",
        "X-Forwarded-For: 1.2.3.4",
        "A: b",
        "A:",
    ]
    + [
        "Content-Length: 20",
        "Content-Length: 0",
        "Content-Length: 020",
        "Content-Length: 99999",
        "Content-Length: -1",
    ]
    + ["Content-Length: 2 0", "Transfer-Encoding: chunked", "Transfer-Encoding: CHUNKED,", "Transfer-Encoding: gzip"]
    + [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding:",
        "Expect: 100-continue",
        "Expect: x",
        " folded",
        "\tfolded",
    ]
    + ['If-None-Match: "web-1"', 'If-None-Match: W/"web-1", "x"', "If-None-Match: web-1", "If-None-Match: 0"]
    + ["If-None-Match: *", "A: \x00", "A: \x7f", "A: \xe4", ": x", "", "Upgrade: h2c", "A: " + "b" * 9000]
)
ENDS = st.sampled_from(["\r\n"] * 40 + ["\n", "\r", "\r\r\n", "\n\r"])
BODIES = st.sampled_from(
    [b""] * 5
    + [b'{"StartRequests":[]}'] * 3
    + [b'14\r\n{"StartRequests":[]}\r\n0\r\n\r\n', b'a\r\n{"StartReq\r\n0A;x=y\r\nuests":[]}\r\n00\r\nT: x\r\n\r\n']
    + [
        b"14 ;\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"0\r\n x\r\n\r\n",
        b"-1\r\n",
        b"11111\r\n",
        b"123456789\r\n",
        b"0\n\n",
        b"x" * 30,
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Make a request that is nearly always nearly right."""
    target = draw(PATHS) + draw(QUERIES).format(draw(VERSIONS))
    end = draw(ENDS)
    lines = [f"{draw(METHODS)} {target} {draw(PROTOCOLS)}"]
    if draw(st.integers(0, 9)):
        lines.append("Host: 169.254.169.254")
    if draw(st.integers(0, 9)):
        lines.append("Metadata: true")
    lines += draw(st.lists(FIELDS, max_size=3))
    head = "\r\n".join(lines[:-1]) + ("\r\n" if lines[:-1] else "") + lines[-1] + end + "\r\n"
    return head.encode("latin-1") + draw(BODIES)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Make several requests in a row, and maybe spoil a byte of them."""
    stream = b"".join(draw(st.lists(requests(), min_size=1, max_size=4)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(stream)))
        stream = stream[:place] + draw(st.binary(max_size=2)) + stream[place + draw(st.integers(0, 2)) :]
    return stream


class MemoryTransport:
    """The transport's side of a conversation, in memory."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False

    def write(self, sent: bytes) -> None:
        self.sent += sent

    def close(self) -> None:
        self.is_closed = True

    write_eof = abort = close

    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def converse(pieces: list[bytes]) -> tuple[list[int], bool]:
    """Return the statuses of the answers to these bytes, and whether the connection was closed."""

    async def run() -> MemoryTransport:
        service = MetadataHarness(GENEROUS)
        service.commit(WEB, Enrolled("web", NOW, "web-0"))
        wire = MemoryTransport()
        conversation = HttpConnection(service.registry, "127.0.0.1")
        conversation.connection_made(cast("asyncio.Transport", wire))
        for piece in pieces:
            if not wire.is_closed:
                conversation.data_received(piece)
        return wire

    wire = asyncio.run(run())
    found = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) [A-Z]", wire.sent)]
    return [status for status in found if status != 100], wire.is_closed


@given(streams())
def test_the_edge_and_the_reference_agree(stream: bytes) -> None:
    """The same requests are accepted and refused, with the same statuses, at the same places in the stream."""
    assert converse([stream]) == reference.statuses(stream)


@given(streams(), st.data())
def test_splitting_changes_nothing(stream: bytes, data: st.DataObject) -> None:
    """A stream in any pieces gets the answers of the whole."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert converse(pieces) == reference.statuses(stream)


@given(requests())
def test_single_bytes_change_nothing(request: bytes) -> None:
    """A request byte by byte gets the answer of the whole."""
    assert converse([request[at : at + 1] for at in range(len(request))]) == reference.statuses(request)


@given(st.binary(max_size=300))
def test_noise_is_refused_or_waited_for(noise: bytes) -> None:
    """Bytes of any kind never break the edge."""
    assert converse([noise]) == reference.statuses(noise)
