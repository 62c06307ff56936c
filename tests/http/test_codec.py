"""The HTTP codec: requests as bytes, and responses out of bytes."""

from contextlib import suppress

import pytest
from h11 import SERVER, Connection, Data, EndOfMessage, InformationalResponse, Request, Response
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forewarn.http.codec import HttpCodec, HttpRequest, HttpResponse, MalformedResponse, authority
from tests.client.hostile_server import DOCUMENT, whole

GET = HttpRequest(target="/metadata/scheduledevents?api-version=2020-07-01", host="[::1]:8254")


def test_a_request_has_a_host_and_its_headers() -> None:
    """And no more than it needs."""
    request = replace(GET, headers=(("Metadata", "true"),))

    assert HttpCodec().encode(request) == (
        b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: [::1]:8254\r\nMetadata: true\r\n\r\n"
    )


@pytest.mark.parametrize(("method", "body", "length"), [("POST", b"{}", 2), ("PATCH", None, 0), ("DELETE", b"", 0)])
def test_a_body_has_its_length(method: str, body: bytes | None, length: int) -> None:
    """An empty one too, where the method usually has a body."""
    sent = HttpCodec().encode(replace(GET, method=method, body=body))

    assert sent.endswith(b"\r\nContent-Length: %d\r\n\r\n%s" % (length, body or b""))


def test_headers_that_are_given_are_not_added() -> None:
    """A caller may state the host and the framing itself."""
    headers = (("host", "a"), ("content-length", "2"))

    assert HttpCodec().encode(HttpRequest(method="POST", target="/", host="b", headers=headers, body=b"{}")) == (
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    "request_",
    [
        replace(GET, target="/a b"),
        replace(GET, target="/\r\nX: y"),
        replace(GET, headers=(("X", "a\nb: c"),)),
        replace(GET, headers=(("X\r\n", "a"),)),
        replace(GET, headers=(("X", "\u20ac"),)),
    ],
)
def test_what_would_become_another_header_is_not_sent(request_: HttpRequest) -> None:
    """Nor what no header can hold."""
    with pytest.raises(ValueError, match=r"cannot be sent|codec can't encode"):
        HttpCodec().encode(request_)


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [("a", 80, "a"), ("a", 81, "a:81"), ("::1", 80, "[::1]"), ("b\u00fccher.example", 80, "xn--bcher-kva.example")],
)
def test_a_host_header_names_the_port_unless_it_is_the_usual_one(host: str, port: int, expected: str) -> None:
    """Addresses of IPv6 are in brackets, and names are ASCII."""
    assert authority(host, port, 80) == expected


def test_the_answer_to_head_has_no_body() -> None:
    """Whatever it says of its length."""
    codec = HttpCodec()
    codec.encode(replace(GET, method="HEAD"))

    response = codec.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n")
    assert response is not None
    assert response.body == b""
    assert codec.is_open


def test_the_head_is_known_and_the_body_can_be_taken_before_the_response_is_whole() -> None:
    """So that a stream can be read, without any limit on its size."""
    codec = HttpCodec(largest=None)
    codec.encode(GET)

    assert codec.feed(b"HTTP/1.1 200 Very well\r\nX-A: 1\r\nx-a: 2\r\n") is None
    assert codec.status == 0
    assert codec.feed(b"\r\n" + b"x" * 5_000_000) is None
    assert (codec.status, codec.reason, codec.fields) == (200, "Very well", (("X-A", "1"), ("x-a", "2")))
    assert len(codec.take_body()) == 5_000_000
    assert codec.take_body() == b""


@given(st.lists(st.integers(1, 40), max_size=20))
def test_an_answer_is_whole_however_it_is_cut(cuts: list[int]) -> None:
    """And the line is open for the next question then."""
    codec = HttpCodec()
    data = whole(DOCUMENT, 'ETag: "g-1"').data
    for _ in range(2):
        codec.encode(GET)
        rest, answer = data, None
        for cut in [*cuts, len(data)]:
            piece, rest = rest[:cut], rest[cut:]
            if piece:
                assert answer is None
                answer = codec.feed(piece)

        assert answer == HttpResponse(200, {"etag": '"g-1"', "content-length": "37"}, DOCUMENT)
        assert codec.is_open


def test_a_chunked_answer_and_one_that_ends_with_the_connection_are_whole() -> None:
    """Services behind other servers answer so."""
    chunked, ended = HttpCodec(), HttpCodec()
    chunked.encode(GET)
    ended.encode(GET)

    heard = chunked.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    assert heard is not None
    assert heard.body == b"{}"
    assert ended.feed(b"HTTP/1.0 200 OK\r\n\r\n{}") is None
    last = ended.feed(b"")
    assert last is not None
    assert last.body == b"{}"
    assert not ended.is_open


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00" * 10 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000002\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 20_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"b" * 20_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nETag : 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nETag: 1\rX: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"<html>",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 4_300_000,
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 180_000, marks=pytest.mark.end_to_end),
    ],
)
def test_what_is_no_http_or_too_much_of_it_is_garbled(data: bytes) -> None:
    """It is said before memory is full."""
    codec = HttpCodec()
    codec.encode(GET)
    pieces = (data[start : start + 65_536] for start in range(0, len(data), 65_536))
    with pytest.raises(MalformedResponse, match=r"does not speak HTTP|sends more than 4 MiB"):
        list(map(codec.feed, pieces))


def test_lines_may_end_with_less_than_they_should() -> None:
    """As those of a service do that somebody wrote in a shell."""
    codec = HttpCodec()
    codec.encode(GET)

    assert codec.feed(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}") == HttpResponse(
        200, {"content-length": "2"}, b"{}"
    )


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_no_body_whatever_they_say_of_its_length(status: int) -> None:
    """The next answer must not be taken for it."""
    codec = HttpCodec()
    codec.encode(GET)

    heard = codec.feed(b"HTTP/1.1 %d None\r\nContent-Length: 37\r\n\r\n" % status)
    assert heard is not None
    assert heard.body == b""
    assert codec.is_open


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_a_line_that_is_not_kept_is_not_used_again(data: bytes) -> None:
    """Neither one on which more came than was asked for."""
    codec = HttpCodec()
    codec.encode(GET)

    heard = codec.feed(data)
    assert heard is not None
    assert heard.body == b"{}"
    assert not codec.is_open


def test_half_an_answer_is_none() -> None:
    """Wherever the connection ended."""
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    for end in range(len(data)):
        codec = HttpCodec()
        codec.encode(GET)

        assert codec.feed(data[:end]) is None
        assert codec.feed(b"") is None


_NAMES = st.text("abcXYZ-_.!09", min_size=1, max_size=10).filter(
    lambda name: name.lower() not in ("connection", "content-length", "transfer-encoding")
)
_VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"), max_size=10)


@given(
    status=st.sampled_from([200, 204, 304, 400, 404, 500, 599]),
    headers=st.lists(st.tuples(_NAMES, _VALUES), max_size=4),
    parts=st.lists(st.binary(min_size=1, max_size=30), max_size=4),
    is_chunked=st.booleans(),
    continues=st.integers(0, 2),
    cuts=st.lists(st.integers(1, 30), max_size=30),
)
def test_what_another_implementation_writes_is_read(
    status: int,
    headers: list[tuple[str, str]],
    parts: list[bytes],
    is_chunked: bool,  # noqa: FBT001 - drawn
    continues: int,
    cuts: list[int],
) -> None:
    """However it is framed, and however it is cut."""
    codec, server = HttpCodec(), Connection(SERVER)
    server.receive_data(codec.encode(GET))
    assert isinstance(server.next_event(), Request)
    parts = [] if status in (204, 304) else parts
    fields = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    fields += [] if is_chunked else [(b"Content-Length", b"%d" % sum(map(len, parts)))]
    data = b"".join(
        server.send(each) or b""
        for each in (
            *(InformationalResponse(status_code=100, headers=[]) for _ in range(continues)),
            Response(status_code=status, headers=fields),
            *(Data(data=part) for part in parts),
            EndOfMessage(),
        )
    )
    answer = None
    for cut in [*cuts, len(data)]:
        piece, data = data[:cut], data[cut:]
        if piece:
            assert answer is None
            answer = codec.feed(piece)

    assert answer is not None
    assert (answer.status, answer.body) == (status, b"".join(parts))
    assert {name: answer.headers[name.lower()] for name, _ in headers} == {
        name: {each.lower(): value for each, value in headers}[name.lower()] for name, _ in headers
    }
    assert codec.is_open


@given(st.binary(max_size=200))
def test_any_bytes_are_heard_without_harm(data: bytes) -> None:
    """An answer, none yet, or garbled."""
    for beginning in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        codec = HttpCodec()
        codec.encode(GET)
        with suppress(MalformedResponse):
            assert isinstance(codec.feed(beginning + data), HttpResponse | None)
