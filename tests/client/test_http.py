"""HTTP as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.client.http import Garbled, Line
from forewarn.client.places import Place
from forewarn.client.steps import Answer, Send
from tests.client.hostile import DOCUMENT, whole

GET = Send(place=Place("::1", 8254), target="/metadata/scheduledevents?api-version=2020-07-01", seconds=1)


def test_a_question_is_spelled_out() -> None:
    """With the header that every service wants, and no more than it needs."""
    assert Line().say(GET) == (
        b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
        b"Host: [::1]:8254\r\nMetadata: true\r\nUser-Agent: forewarn\r\n\r\n"
    )


def test_an_approval_has_its_length() -> None:
    """And says that it is JSON, which every service ignores."""
    post = Send(place=Place("a"), method="POST", target="/x", body=b"{}", seconds=1)

    assert Line().say(post).endswith(b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


@given(st.lists(st.integers(1, 40), max_size=20))
def test_an_answer_is_whole_however_it_is_cut(cuts: list[int]) -> None:
    """And the line is open for the next question then."""
    line = Line()
    data = whole(DOCUMENT, 'ETag: "g-1"').data
    for _ in range(2):
        line.say(GET)
        rest, answer = data, None
        for cut in [*cuts, len(data)]:
            piece, rest = rest[:cut], rest[cut:]
            if piece:
                assert answer is None
                answer = line.hear(piece)

        assert answer == Answer(200, {"etag": '"g-1"', "content-length": "37"}, DOCUMENT)
        assert line.is_open


def test_a_chunked_answer_and_one_that_ends_with_the_connection_are_whole() -> None:
    """Services behind other servers answer so."""
    chunked, ended = Line(), Line()
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
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_100_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 60_000,
    ],
)
def test_what_is_no_http_or_too_much_of_it_is_garbled(data: bytes) -> None:
    """It is said before memory is full."""
    line = Line()
    line.say(GET)
    pieces = (data[start : start + 65_536] for start in range(0, len(data), 65_536))
    with pytest.raises(Garbled, match=r"does not speak HTTP|sends more than 1 MiB"):
        list(map(line.hear, pieces))
