"""One connection to the emulator: however a request arrives, it is one request, and has one answer."""

import re

import pytest

from forewarn.emulator import Emulator
from tests.emulator.callers import send

GET = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n"
LAST = GET[:-2] + b"Connection: close\r\n\r\n"
POST = b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n"


def statuses(received: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", received)


def test_pipelined_requests_are_answered_in_order() -> None:
    """Each answer belongs to its request, also where a fault applies to one of them."""
    with Emulator("web-0") as emulator:
        emulator.add_fault("500", times=1, method="POST")
        received = send(
            emulator.url, GET + POST + b"Content-Length: 20\r\n\r\n" + b'{"StartRequests":[]}' + GET + LAST
        )

        assert statuses(received) == [b"200", b"500", b"200", b"200"]
        assert [sent.status for sent in emulator.requests] == [200, 500, 200, 200]


@pytest.mark.parametrize("fault", ["", "delay"])
def test_a_body_in_chunks_arrives_whole(fault: str) -> None:
    """The record holds the body without its framing, held back or not."""
    with Emulator("web-0") as emulator:
        if fault:
            emulator.add_fault(fault, seconds=0)
        head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        received = send(emulator.url, head + b'5\r\n{"Sta\r\nf\r\nrtRequests":[]}\r\n0\r\n\r\n')

        assert statuses(received) == [b"200"]
        assert emulator.requests[0].body == b'{"StartRequests":[]}'


@pytest.mark.parametrize("fault", ["", "429"])
def test_a_caller_that_expects_to_continue_is_told_to(fault: str) -> None:
    """Before it sends its body, whether the request is held back or not."""
    with Emulator("web-0") as emulator:
        if fault:
            emulator.add_fault(fault)
        head = POST + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 20\r\n\r\n"
        received = send(emulator.url, head, b'{"StartRequests":[]}')

        assert statuses(received) == [b"100", fault.encode() or b"200"]


def test_what_is_not_http_is_refused_by_the_service_and_recorded() -> None:
    """As it was sent, without a method."""
    with Emulator("web-0") as emulator:
        received = send(emulator.url, b"\x16\x03\x01 what is this\r\n\r\n")
        (sent,) = emulator.requests

        assert statuses(received) == [b"400"]
        assert (sent.method, sent.status) == ("", 400)
        assert sent.body.startswith(b"\x16\x03\x01")


def test_a_head_that_arrives_in_pieces_is_one_request() -> None:
    """However it was split on its way."""
    with Emulator("web-0") as emulator:
        emulator.vm("web-0").reboot()
        received = send(emulator.url, GET, LAST[:30] + LAST[30:])

        assert statuses(received) == [b"200", b"200"]


def test_empty_lines_before_a_request_are_passed_over() -> None:
    """Some clients end a body with one line end more than it has."""
    with Emulator("web-0") as emulator:
        received = send(emulator.url, GET + b"\r\n\r\n" + LAST)

        assert statuses(received) == [b"200", b"200"]
        assert [sent.method for sent in emulator.requests] == ["GET", "GET"]


def test_an_answer_to_head_has_no_body_even_when_it_fails() -> None:
    """Or the caller would take the body for its next answer."""
    with Emulator("web-0") as emulator:
        emulator.fail_next(500)
        received = send(emulator.url, LAST.replace(b"GET", b"HEAD", 1))

        assert received.startswith(b"HTTP/1.1 500")
        assert received.endswith(b"\r\n\r\n")


def test_a_failed_answer_closes_where_the_caller_asked_for_it() -> None:
    """``Connection: close`` holds for faults too."""
    with Emulator("web-0") as emulator:
        emulator.fail_next(410)

        assert b"Connection: close\r\n" in send(emulator.url, LAST)
