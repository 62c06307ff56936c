"""The server: who is behind a connection, what it makes of garbage, and how it stops."""

import asyncio
import contextlib
import getpass
import http.client
import json
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.control.server import http_server
from forewarn.control.server.http_server import LARGEST_HEAD
from forewarn.control.server.sockets import ServerLimits
from tests.harness import ApiHarness, open_harness


def test_who_asks_through_the_socket_is_found_out_from_the_system(harness: ApiHarness) -> None:
    """A header or a body that claims somebody else changes nothing."""
    assert harness.ask(
        "GET", "/v1/me", headers={"Authorization": "Bearer fw_x", "X-Forwarded-For": "1.2.3.4"}
    ).json == {
        "name": getpass.getuser(),
        "role": "operator",
        "groups": [],
        "origin": "control.sock",
        "expires_at": None,
        "version": harness.ask("GET", "/v1/me").json["version"],
    }


def test_nobody_is_the_local_operator_over_tcp(harness: ApiHarness) -> None:
    """Not even from this machine."""
    assert harness.ask("GET", "/v1/me", token="").status == 401


def test_a_token_names_its_bearer_and_the_address(harness: ApiHarness) -> None:
    """As the record will tell it."""
    said = harness.ask("GET", "/v1/me", token=harness.token("ada", "owner", "web")).json

    assert (said["name"], said["role"], said["groups"], said["origin"]) == ("ada", "owner", ["web"], "127.0.0.1")


@given(st.binary(min_size=1, max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
def test_garbage_is_refused_and_the_next_caller_is_answered(harness: ApiHarness, garbage: bytes) -> None:
    """Whatever is sent, nobody else notices."""
    with socket.socket() as caller:
        caller.settimeout(20)
        caller.connect(("127.0.0.1", harness.control_plane.port))
        caller.sendall(garbage + b"\r\n\r\n")
        caller.shutdown(socket.SHUT_WR)
        caller.recv(1_000)

    assert harness.ask("GET", "/v1/health/live").status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"BREW /v1/vms HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (b"GET /v1/vms HTTP/1.1\r\nX: a\x01b\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX:".ljust(LARGEST_HEAD + 1, b"a"), "431 Request Header Fields Too Large"),
    ],
    ids=["method", "control character", "large"],
)
def test_what_no_route_sees_is_answered_with_a_problem_too(harness: ApiHarness, sent: bytes, status: str) -> None:
    """And the connection ends, before more of an endless head arrives."""
    with socket.create_connection(("127.0.0.1", harness.control_plane.port), 20) as caller:
        with contextlib.suppress(ConnectionError):
            caller.sendall(sent)
        head, _, body = caller.recv(10_000).partition(b"\r\n\r\n")

    assert head.startswith(f"HTTP/1.1 {status}\r\n".encode())
    assert b"\r\ncontent-type: application/problem+json\r\n" in head
    assert json.loads(body)["status"] == int(status[:3])


def test_a_request_for_an_upgrade_is_answered_as_any_other(
    harness: ApiHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """The log does not advise an operator to install something."""
    said = harness.ask("GET", "/v1/health/live", headers={"Connection": "Upgrade", "Upgrade": "websocket"})

    assert (said.status, caplog.messages) == (200, [])


def test_answers_tell_the_time_and_not_what_serves_them(harness: ApiHarness) -> None:
    """A Date that every answer needs, and no name of a program."""
    headers = harness.ask("GET", "/v1/health/live").headers

    assert headers["date"].endswith(" GMT")
    assert "server" not in headers


def test_a_connection_is_kept_for_more_than_one_request(harness: ApiHarness) -> None:
    """So that reading a list page by page costs one connection."""
    connection = harness.connect()
    for _ in range(3):
        connection.request("GET", "/v1/hosts")
        assert connection.getresponse().read()
    connection.close()


def test_what_is_being_answered_when_the_service_stops_is_answered(harness: ApiHarness) -> None:
    """Others that are connected and silent, or listen to changes, are let go of."""
    release = asyncio.Event()
    begun = threading.Event()
    plain = harness.context.names.after

    async def slow(*arguments: Any) -> Any:
        begun.set()
        await release.wait()
        return await plain(*arguments)

    harness.context.names.after = slow  # type: ignore[method-assign, assignment]  # it is to take its time
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(harness.ask("GET", "/v1/hosts").status))
    silent, listening = harness.connect(), harness.connect()
    silent.connect()
    listening.request("GET", "/v1/changes")
    stream = listening.getresponse()
    asking.start()
    begun.wait(20)
    harness.loop.call_soon_threadsafe(lambda: harness.loop.call_later(0, release.set))
    harness.run(harness.control_plane.close)
    asking.join(20)

    assert answers == [200]
    assert silent.sock.recv(1) == b""
    assert stream.read() == b": still here\n\n"
    silent.close()
    listening.close()


def test_an_idle_connection_is_closed_when_the_service_stops(harness: ApiHarness) -> None:
    """At once: nothing is answered on it."""
    idle = harness.connect()
    idle.request("GET", "/v1/hosts")
    assert idle.getresponse().read()
    harness.run(harness.control_plane.close)

    idle.sock.setblocking(False)
    assert idle.sock.recv(1) == b""
    idle.close()


def test_nothing_is_taken_in_after_the_end(harness: ApiHarness) -> None:
    """Neither through the socket, which is gone, nor over TCP."""
    port = harness.control_plane.port
    harness.run(harness.control_plane.close)

    assert not (harness.directory / "control.sock").exists()
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")


def test_whoever_sends_no_request_is_hung_up_on(tmp_path: Path) -> None:
    """Nobody holds a connection for ever with half a head, or with none."""
    with open_harness(tmp_path, limits=ServerLimits(arrival=0.05)) as harness:
        for sent in (b"", b"GET /v1/hosts HTTP/1.1\r\nHost: "):
            with socket.create_connection(("127.0.0.1", harness.control_plane.port), timeout=20) as caller:
                caller.sendall(sent)
                with contextlib.suppress(ConnectionResetError):
                    assert caller.recv(1) == b""


def test_too_many_connections_over_tcp_keep_no_local_operator_out(tmp_path: Path) -> None:
    """Those beyond the limit are closed at once."""
    with open_harness(tmp_path, limits=ServerLimits(connections=1)) as harness:
        first, second = (harness.connect("") for _ in range(2))
        first.request("GET", "/v1/health/live")
        assert first.getresponse().read()
        second.connect()
        with contextlib.suppress(ConnectionResetError):
            assert second.sock.recv(1) == b""

        assert harness.ask("GET", "/v1/health/live").status == 200
        first.close()
        second.close()


def test_one_address_cannot_take_every_connection(tmp_path: Path) -> None:
    """What it has beyond its share is closed; when it lets one go it may have another."""
    with (
        open_harness(tmp_path, limits=ServerLimits(per_address=1)) as harness,
        socket.create_connection(("127.0.0.1", harness.control_plane.port), timeout=20) as first,
    ):
        first.sendall(b"GET /v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.recv(4096).startswith(b"HTTP/1.1 200 ")
        with (
            socket.create_connection(("127.0.0.1", harness.control_plane.port), timeout=20) as second,
            contextlib.suppress(ConnectionError),
        ):
            assert second.recv(4096) == b""
        with socket.create_connection(
            ("127.0.0.1", harness.control_plane.port), timeout=20, source_address=("127.0.0.2", 0)
        ) as other:
            other.sendall(b"GET /v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert other.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_never_ends_is_hung_up_on(tmp_path: Path) -> None:
    """Also after it was refused: whoever drips bytes holds no connection for ever."""
    with (
        open_harness(tmp_path, limits=ServerLimits(body_arrival=0.05)) as harness,
        socket.create_connection(("127.0.0.1", harness.control_plane.port), timeout=20) as slow,
    ):
        slow.sendall(b"POST /v1/fleet HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        with contextlib.suppress(ConnectionError):
            while slow.recv(4096):
                pass


def test_an_endless_head_behind_a_request_that_is_being_answered_is_hung_up_on(harness: ApiHarness) -> None:
    """Whoever listens to changes cannot fill the memory meanwhile."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(str(harness.directory / "control.sock"))
        caller.sendall(b"GET /v1/changes HTTP/1.1\r\nHost: x\r\n\r\n")
        assert caller.recv(4096).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(ConnectionError):
            caller.sendall(b"GET / HTTP/1.1\r\nX: ".ljust(20_000_000, b"a"))


@pytest.mark.parametrize("framing", [b"Content-Length: 300000", b"Transfer-Encoding: chunked"])
def test_an_endless_head_behind_a_body_that_nobody_reads_is_hung_up_on(tmp_path: Path, framing: bytes) -> None:
    """A request that is refused before its body is read leaves no way around the limit."""
    with open_harness(tmp_path, limits=ServerLimits(unread=300_000)) as harness:
        body = b"x" * 300_000 if b"Length" in framing else b"493e0\r\n" + b"x" * 300_000 + b"\r\n0\r\n\r\n"
        with socket.create_connection(("127.0.0.1", harness.control_plane.port), timeout=20) as caller:
            caller.sendall(b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n")
            assert caller.recv(4096).startswith(b"HTTP/1.1 401 ")
            with pytest.raises(ConnectionError):
                caller.sendall(body + b"GET / HTTP/1.1\r\nX: ".ljust(20_000_000, b"a"))


def test_a_request_after_a_body_that_nobody_read_is_answered(harness: ApiHarness) -> None:
    """The connection is kept, and the rest of the body is not taken for a request."""
    with socket.create_connection(("127.0.0.1", harness.control_plane.port), timeout=20) as caller:
        caller.sendall(b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
        assert caller.recv(4096).startswith(b"HTTP/1.1 401 ")
        caller.sendall(b"x" * 200_000 + b"GET /v1/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while b"HTTP/1.1 200 " not in received:
            part = caller.recv(4096)
            assert part, received
            received += part


def test_invalid_requests_are_logged_once_a_minute_with_their_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one constant line of ours: a caller without a token must not fill the log."""
    caplog.set_level(logging.DEBUG)
    with open_harness(tmp_path, limits=ServerLimits(log_interval=float("inf"))) as harness:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", harness.control_plane.port), 20) as caller:
                caller.sendall(b"garbage\r\n\r\n")
                assert caller.recv(1_000).startswith(b"HTTP/1.1 400 ")
    assert _invalid_lines(caplog) == [{"count": 1, "last_address": "127.0.0.1"}]
    assert "Invalid HTTP" not in caplog.text

    caplog.clear()
    invalid = http_server._InvalidRequestLog(interval=60.0)
    for now in (0.0, 1.0, 59.9, 60.0, 61.0, 120.0):
        invalid.add("192.0.2.1", now)
    assert [line["count"] for line in _invalid_lines(caplog)] == [1, 3, 2]


def _invalid_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [vars(each)["fields"] for each in caplog.records if each.msg == "invalid HTTP requests were refused"]
