"""HTTP as bytes."""

from contextlib import suppress

import pytest
from h11 import SERVER, Connection, Data, EndOfMessage, InformationalResponse, Request, Response
from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.http import HttpCodec, MalformedResponse
from forewarn.client.steps import HttpResponse, SendRequest
from tests.client.hostile_server import DOCUMENT, whole

GET = SendRequest(
    endpoint=EndpointUrl("::1", 8254), target="/metadata/scheduledevents?api-version=2020-07-01", seconds=1
)


def test_a_question_is_spelled_out() -> None:
    """With the header that every service wants, and no more than it needs."""
    assert HttpCodec().say(GET) == (
        b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
        b"Host: [::1]:8254\r\nMetadata: true\r\nUser-Agent: forewarn\r\n\r\n"
    )


def test_an_approval_has_its_length() -> None:
    """And says that it is JSON, which every service ignores."""
    post = SendRequest(endpoint=EndpointUrl("a"), method="POST", target="/x", body=b"{}", seconds=1)

    assert HttpCodec().say(post).endswith(b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


@given(st.lists(st.integers(1, 40), max_size=20))
def test_an_answer_is_whole_however_it_is_cut(cuts: list[int]) -> None:
    """And the line is open for the next question then."""
    line = HttpCodec()
    data = whole(DOCUMENT, 'ETag: "g-1"').data
    for _ in range(2):
        line.say(GET)
        rest, answer = data, None
        for cut in [*cuts, len(data)]:
            piece, rest = rest[:cut], rest[cut:]
            if piece:
                assert answer is None
                answer = line.hear(piece)

        assert answer == HttpResponse(200, {"etag": '"g-1"', "content-length": "37"}, DOCUMENT)
        assert line.is_open


def test_a_chunked_answer_and_one_that_ends_with_the_connection_are_whole() -> None:
    """Services behind other servers answer so."""
    chunked, ended = HttpCodec(), HttpCodec()
    chunked.say(GET)
    ended.say(GET)

    heard = chunked.hear(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    assert heard is not None
    assert heard.body == b"{}"
    assert ended.hear(b"HTTP/1.0 200 OK\r\n\r\n{}") is None
    last = ended.hear(b"")
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
        b"HTTP/1.1 100 Continue\r\n\r\n" * 180_000,
    ],
)
def test_what_is_no_http_or_too_much_of_it_is_garbled(data: bytes) -> None:
    """It is said before memory is full."""
    line = HttpCodec()
    line.say(GET)
    pieces = (data[start : start + 65_536] for start in range(0, len(data), 65_536))
    with pytest.raises(MalformedResponse, match=r"does not speak HTTP|sends more than 4 MiB"):
        list(map(line.hear, pieces))


def test_lines_may_end_with_less_than_they_should() -> None:
    """As those of a service do that somebody wrote in a shell."""
    line = HttpCodec()
    line.say(GET)

    assert line.hear(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}") == HttpResponse(200, {"content-length": "2"}, b"{}")


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_no_body_whatever_they_say_of_its_length(status: int) -> None:
    """The next answer must not be taken for it."""
    line = HttpCodec()
    line.say(GET)

    heard = line.hear(b"HTTP/1.1 %d None\r\nContent-Length: 37\r\n\r\n" % status)
    assert heard is not None
    assert heard.body == b""
    assert line.is_open


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
    line = HttpCodec()
    line.say(GET)

    heard = line.hear(data)
    assert heard is not None
    assert heard.body == b"{}"
    assert not line.is_open


def test_half_an_answer_is_none() -> None:
    """Wherever the connection ended."""
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    for end in range(len(data)):
        line = HttpCodec()
        line.say(GET)

        assert line.hear(data[:end]) is None
        assert line.hear(b"") is None


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
    line, server = HttpCodec(), Connection(SERVER)
    server.receive_data(line.say(GET))
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
            answer = line.hear(piece)

    assert answer is not None
    assert (answer.status, answer.body) == (status, b"".join(parts))
    assert {name: answer.headers[name.lower()] for name, _ in headers} == {
        name: {each.lower(): value for each, value in headers}[name.lower()] for name, _ in headers
    }
    assert line.is_open


@given(st.binary(max_size=200))
def test_any_bytes_are_heard_without_harm(data: bytes) -> None:
    """An answer, none yet, or garbled."""
    for beginning in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        line = HttpCodec()
        line.say(GET)
        with suppress(MalformedResponse):
            assert isinstance(line.hear(beginning + data), HttpResponse | None)
