"""The server: who is behind a connection, what it makes of garbage, and how it stops."""

import asyncio
import contextlib
import getpass
import http.client
import socket
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.office import Office


def test_who_asks_through_the_socket_is_found_out_from_the_system(office: Office) -> None:
    """A header or a body that claims somebody else changes nothing."""
    assert office.ask(
        "GET", "/v1/me", headers={"Authorization": "Bearer fw_x", "X-Forwarded-For": "1.2.3.4"}
    ).json == {
        "name": getpass.getuser(),
        "role": "operator",
        "groups": [],
        "origin": "control.sock",
        "expires_at": None,
        "version": office.ask("GET", "/v1/me").json["version"],
    }


def test_nobody_is_the_local_operator_over_tcp(office: Office) -> None:
    """Not even from this machine."""
    assert office.ask("GET", "/v1/me", token="").status == 401


def test_a_token_names_its_bearer_and_the_address(office: Office) -> None:
    """As the record will tell it."""
    said = office.ask("GET", "/v1/me", token=office.token("ada", "owner", "web")).json

    assert (said["name"], said["role"], said["groups"], said["origin"]) == ("ada", "owner", ["web"], "127.0.0.1")


@given(st.binary(min_size=1, max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
def test_garbage_is_refused_and_the_next_caller_is_answered(office: Office, garbage: bytes) -> None:
    """Whatever is sent, nobody else notices."""
    with socket.socket() as caller:
        caller.settimeout(20)
        caller.connect(("127.0.0.1", office.entrance.port))
        caller.sendall(garbage + b"\r\n\r\n")
        caller.shutdown(socket.SHUT_WR)
        caller.recv(1_000)

    assert office.ask("GET", "/v1/health/live").status == 200


def test_answers_tell_the_time_and_not_what_serves_them(office: Office) -> None:
    """A Date that every answer needs, and no name of a program."""
    headers = office.ask("GET", "/v1/health/live").headers

    assert headers["date"].endswith(" GMT")
    assert "server" not in headers


def test_a_connection_is_kept_for_more_than_one_request(office: Office) -> None:
    """So that reading a list page by page costs one connection."""
    connection = office.connect()
    for _ in range(3):
        connection.request("GET", "/v1/hosts")
        assert connection.getresponse().read()
    connection.close()


def test_what_is_being_answered_when_the_service_stops_is_answered(office: Office) -> None:
    """Others that are connected and silent, or listen to changes, are let go of."""
    release = asyncio.Event()
    begun = threading.Event()
    plain = office.node.look

    async def slow(*arguments: Any) -> Any:
        begun.set()
        await release.wait()
        return await plain(*arguments)

    office.node.look = slow  # type: ignore[method-assign, assignment]  # it is to take its time
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(office.ask("GET", "/v1/hosts").status))
    silent, listening = office.connect(), office.connect()
    silent.connect()
    listening.request("GET", "/v1/changes")
    stream = listening.getresponse()
    asking.start()
    begun.wait(20)
    office.loop.call_soon_threadsafe(lambda: office.loop.call_later(0, release.set))
    office.run(office.entrance.close)
    asking.join(20)

    assert answers == [200]
    assert silent.sock.recv(1) == b""
    assert stream.read() == b": still here\n\n"
    silent.close()
    listening.close()


def test_nothing_is_taken_in_after_the_end(office: Office) -> None:
    """Neither through the socket, which is gone, nor over TCP."""
    port = office.entrance.port
    office.run(office.entrance.close)

    assert not (office.directory / "control.sock").exists()
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")


def test_whoever_sends_no_request_is_hung_up_on(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody holds a connection for ever with half a head, or with none."""
    monkeypatch.setattr("forewarn.control.server.ARRIVAL", 0.05)
    for sent in (b"", b"GET /v1/hosts HTTP/1.1\r\nHost: "):
        with socket.create_connection(("127.0.0.1", office.entrance.port), timeout=20) as caller:
            caller.sendall(sent)
            with contextlib.suppress(ConnectionResetError):
                assert caller.recv(1) == b""


def test_too_many_connections_over_tcp_keep_no_local_operator_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the limit are closed at once."""
    monkeypatch.setattr("forewarn.control.server.MOST_CONNECTIONS", 1)
    first, second = (office.connect("") for _ in range(2))
    first.request("GET", "/v1/health/live")
    assert first.getresponse().read()
    second.connect()
    with contextlib.suppress(ConnectionResetError):
        assert second.sock.recv(1) == b""

    assert office.ask("GET", "/v1/health/live").status == 200
    first.close()
    second.close()
