"""Connections, blocking and not: whatever the other side does, a request ends, in time and with what was seen."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from forewarn.client.async_connection import AsyncConnection
from forewarn.client.connection import BlockingConnection
from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.steps import NoResponse, SendRequest
from forewarn.http.codec import HttpResponse
from tests.client.hostile_server import DOCUMENT, CannedResponse, HostileServer, whole

Exchange = Callable[[SendRequest], HttpResponse | NoResponse]


@contextmanager
def _blocking() -> Iterator[Exchange]:
    wire = BlockingConnection()
    try:
        yield wire.exchange
    finally:
        wire.end()


@contextmanager
def _looping() -> Iterator[Exchange]:
    with asyncio.Runner() as runner:
        wire = AsyncConnection()
        try:
            yield lambda request: runner.run(wire.exchange(request))
        finally:
            wire.end()
            runner.run(asyncio.sleep(0))


@pytest.fixture(params=[_blocking, _looping], ids=["blocking", "asyncio"])
def exchange(request: pytest.FixtureRequest) -> Iterator[Exchange]:
    with request.param() as exchange:
        yield exchange


def test_a_connection_is_kept(exchange: Exchange) -> None:
    """One is enough for all questions."""
    with HostileServer(whole()) as server:
        answers = [exchange(server.get()) for _ in range(3)]

        assert [each.body for each in answers if isinstance(each, HttpResponse)] == [DOCUMENT] * 3
        assert server.connections == 1


def test_a_connection_that_the_service_let_go_of_is_opened_anew(exchange: Exchange) -> None:
    """Nobody notices: closed with the answer, closed while idle, reset."""
    with HostileServer(
        whole(then="close"), whole(), CannedResponse(then="close"), whole(), CannedResponse(then="reset"), whole()
    ) as server:
        answers = [exchange(server.get()) for _ in range(4)]

        assert all(isinstance(each, HttpResponse) for each in answers)
        assert server.connections == 4


def test_a_new_connection_that_breaks_is_not_tried_again(exchange: Exchange) -> None:
    """That is for whoever waits between attempts."""
    with HostileServer(CannedResponse(then="close")) as server:
        assert exchange(server.get()) == NoResponse("closed the connection before its answer was whole")
        assert server.connections == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            CannedResponse(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"),
            "closed the connection before its answer was whole",
        ),
        (
            CannedResponse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
            "closed the connection before",
        ),
        (CannedResponse(b"HTTP/1.1 200"), "closed the connection before"),
        (CannedResponse(b"garbage\r\n\r\n"), "does not speak HTTP"),
        (CannedResponse(b"\x00\xff" * 40_000), "does not speak HTTP"),
        (CannedResponse(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000), "does not speak HTTP"),
        (CannedResponse(then="reset"), "broke the connection"),
    ],
)
def test_half_an_answer_and_none_at_all_are_silence(exchange: Exchange, said: CannedResponse, why: str) -> None:
    """With what was seen of it."""
    with HostileServer(said) as server:
        silence = exchange(server.get())

        assert isinstance(silence, NoResponse)
        assert silence.why.startswith(why)
        assert silence.connected
        assert silence.in_time
        assert silence.garbled is (why == "does not speak HTTP")


@pytest.mark.end_to_end
def test_who_never_answers_is_not_waited_for_longer_than_said(exchange: Exchange) -> None:
    """And the next request goes over a connection of its own."""
    with HostileServer(CannedResponse(then="hang"), whole()) as server:
        assert exchange(server.get(0.3)) == NoResponse("has not answered within 0.3 s", in_time=False)
        assert isinstance(exchange(server.get()), HttpResponse)
        assert server.connections == 2


@pytest.mark.end_to_end
def test_who_answers_byte_by_byte_is_not_waited_for_longer_than_said(exchange: Exchange) -> None:
    """The whole answer counts, not each byte."""
    with HostileServer(CannedResponse(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", then="drip")) as server:
        assert exchange(server.get(2)) == NoResponse("has not finished its answer within 2 s", in_time=False)


def test_an_answer_that_has_begun_must_soon_be_whole(exchange: Exchange) -> None:
    """Two minutes are for the first byte; who stops in the middle has stopped."""
    with HostileServer(CannedResponse(b"HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{", then="hang")) as server:
        impatient = replace(server.get(125), rest=0.05)
        assert exchange(impatient) == NoResponse("has not finished its answer within 0.05 s", in_time=False)


def test_where_nobody_listens_nothing_is_connected(exchange: Exchange) -> None:
    """Nor where the name is unknown or impossible."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        refused = exchange(
            SendRequest(endpoint=EndpointUrl("127.0.0.1", reserved.getsockname()[1]), target="/", seconds=1)
        )
    impossible = exchange(SendRequest(endpoint=EndpointUrl("a" * 70 + ".example"), target="/", seconds=1))

    assert refused == NoResponse("cannot be reached (connection refused)", connected=False)
    assert isinstance(impossible, NoResponse)
    assert not impossible.connected


def test_a_proxy_in_the_environment_is_not_asked(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    """A VM's service stands next to it."""
    with HostileServer(whole(b"proxy")) as proxy, HostileServer(whole()) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)

        assert isinstance(exchange(server.get()), HttpResponse)
        assert proxy.connections == 0
