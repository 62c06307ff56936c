"""One blocking HTTP connection; tests/client/test_connection.py holds what a hostile server can do to it."""

import socket
import threading
from functools import partial
from pathlib import Path

import pytest

from forewarn.http.codec import HttpRequest, MalformedResponse
from forewarn.http.connection import ConnectionEnded, HttpClientConnection, TimeLimits, open_tcp, open_unix
from tests.client.hostile_server import DOCUMENT, CannedResponse, HostileServer, whole

GET = HttpRequest(target="/", host="localhost")
LIMITS = TimeLimits(connect=30, total=30)


def connect(server: HostileServer, largest: int | None = None) -> HttpClientConnection:
    return HttpClientConnection(partial(open_tcp, server.endpoint.host, server.endpoint.port), largest)


def test_a_stream_is_read_piece_by_piece() -> None:
    """The head is known before the body has come; the body may have any size."""
    with HostileServer(CannedResponse(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000_000)) as server:
        connection = connect(server)
        connection.start(GET, LIMITS)
        assert connection.codec.status == 200

        assert sum(map(len, iter(connection.read, b""))) == 5_000_000


def test_a_body_past_the_limit_is_malformed() -> None:
    """A server cannot fill our memory."""
    with HostileServer(whole(b"x" * 2_000_000)) as server, pytest.raises(MalformedResponse, match="more than 1 MiB"):
        connect(server, 1 << 20).exchange(GET, LIMITS)


def test_silence_is_bounded() -> None:
    """Where a response may take any time in all, each piece of it may not."""
    with HostileServer(CannedResponse(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", then="hang")) as server:
        connection = connect(server)
        connection.start(GET, TimeLimits(connect=30, silence=0.1))
        with pytest.raises(TimeoutError):
            b"".join(iter(connection.read, b""))


def test_a_stream_that_was_left_is_not_taken_for_the_next_response() -> None:
    """The next request goes over a connection of its own."""
    with HostileServer(CannedResponse(b"HTTP/1.1 200 OK\r\n\r\n{", then="hang"), whole()) as server:
        connection = connect(server)
        connection.start(GET, LIMITS)

        assert connection.exchange(GET, LIMITS).body == DOCUMENT
        connection.close()
        assert server.connections == 2


def test_an_exchange_is_ended_from_another_thread() -> None:
    """And no connection is opened afterwards."""
    with HostileServer(CannedResponse(then="hang")) as server:
        connection = connect(server)

        def end() -> None:
            server.wait_for_requests(1)
            connection.end()

        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(ConnectionEnded):
            connection.exchange(GET, TimeLimits(connect=30))
        ending.join()
        with pytest.raises(ConnectionEnded):
            connection.exchange(GET, LIMITS)


def test_a_connection_that_another_thread_closes_is_a_network_failure() -> None:
    """At any moment: here between the two calls that send the request."""

    class ClosedInBetween(socket.socket):
        def settimeout(self, value: float | None, /) -> None:
            super().settimeout(value)
            connection.close()

    ours, server = socket.socketpair()
    connection = HttpClientConnection(lambda _: ClosedInBetween(fileno=ours.detach()))
    with server, pytest.raises(OSError, match="Bad file descriptor"):
        connection.exchange(GET, LIMITS)


def test_whether_the_server_was_reached_is_known() -> None:
    """What was not reached was not told."""
    with HostileServer(whole()) as server:
        connection = connect(server)
        connection.exchange(GET, LIMITS)
        assert connection.is_connected
        connection.close()
    with pytest.raises(ConnectionRefusedError):
        connection.exchange(GET, LIMITS)

    assert not connection.is_connected


def test_a_unix_socket_is_a_connection_too(tmp_path: Path) -> None:
    """The same exchange over another transport."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(whole().data)

        answering = threading.Thread(target=answer)
        answering.start()
        connection = HttpClientConnection(partial(open_unix, path))
        assert connection.exchange(GET, LIMITS).body == DOCUMENT
        answering.join()
        connection.close()
