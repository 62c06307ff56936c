"""Sending a request to a web address: what comes back, and how nobody waits for ever."""

import socket
import threading

import pytest

from forewarn.http.web_requests import LARGEST_RESPONSE, NoWebResponse, WebRequest, WebResponse, send
from tests.client.hostile_server import CannedResponse, HostileServer
from tests.control.notifications.receivers import Receiver, ReceiverResponse


def test_any_answer_is_an_answer() -> None:
    """Whatever its status; judging it is the sender's matter."""
    with Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(503, {"Retry-After": "7"}, b" not\n now\x07 ")
        reply = send(WebRequest(receiver.url, b"{}"), 5.0)

    assert (reply.status, reply.wait, reply.said) == (503, 7, "not now")
    assert not reply.is_success
    assert not reply.is_redirect


def test_an_answer_is_read_up_to_a_limit() -> None:
    """A receiver cannot fill the sender's memory."""
    with Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(200, body=b"x" * (LARGEST_RESPONSE + 1))
        reply = send(WebRequest(receiver.url, b"{}"), 5.0)

    assert len(reply.body) == LARGEST_RESPONSE


def test_an_answer_that_is_cut_short_is_an_answer() -> None:
    """Its status counts; its words are what has come of them."""
    with HostileServer(CannedResponse(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwel")) as server:
        reply = send(WebRequest(server.url, b"{}"), 5.0)

    assert (reply.status, reply.body) == (200, b"wel")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (CannedResponse(b"SSH-2.0-OpenSSH_9.2\r\n"), r"^it does not speak HTTP \("),
        (CannedResponse(), "^it closed the connection before its answer was whole$"),
    ],
)
def test_what_is_no_answer_is_told(said: CannedResponse, why: str) -> None:
    """The message may have arrived."""
    with HostileServer(said) as server, pytest.raises(NoWebResponse, match=why) as refused:
        send(WebRequest(server.url, b"{}"), 5.0)

    assert refused.value.may_have_arrived


def test_what_nobody_wants_any_more_is_left() -> None:
    """However long the receiver would take; the message may have arrived."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        arrived = threading.Event()

        def take() -> None:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1000)
                arrived.set()
                while connection.recv(1000):
                    pass

        taking = threading.Thread(target=take)
        taking.start()
        message = WebRequest(f"http://127.0.0.1:{silent.getsockname()[1]}/", b"{}")
        with pytest.raises(NoWebResponse, match="no longer wanted") as refused:
            send(message, 60.0, is_unwanted=arrived.is_set)
        taking.join(30)

    assert refused.value.may_have_arrived
    assert not taking.is_alive()


def test_who_was_not_reached_was_not_told() -> None:
    """It is safe to try again."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(NoWebResponse, match="connection refused") as refused:
        send(WebRequest(f"http://127.0.0.1:{port}/secret", b""), 5.0)

    assert not refused.value.may_have_arrived


def test_a_place_tells_no_secret() -> None:
    """Neither a password nor a path."""
    assert WebRequest("https://user:word@example.org:8443/secret?key=1", b"").place == "example.org:8443"


def test_a_user_in_an_address_is_sent_and_never_repeated() -> None:
    """As Basic authorization; a receiver's words are shown without it, the path, the query and other keys."""
    with Receiver() as receiver:
        receiver.answer = lambda taken: ReceiverResponse(400, body=f"{taken.path} {dict(taken.headers)}".encode())
        url = receiver.url.replace("http://", "http://ada:pass%2Fword@").replace("key=1", "key=secret")
        reply = send(WebRequest(url, b"{}", {"X-Key": "Bearer opensesame"}), 5.0)
        (taken,) = receiver.tried

    assert taken.headers["authorization"] == "Basic YWRhOnBhc3Mvd29yZA=="
    assert not any(secret in reply.said for secret in ("YWRhOnBhc3Mvd29yZA", "secret", "opensesame"))


def test_headers_that_hold_no_secret_are_repeated() -> None:
    """A receiver that complains of a content type is understood."""
    headers = {"Content-Type": "application/json", "webhook-id": "one-of-many", "X-Key": "opensesame"}

    assert WebRequest("http://h/", b"", headers).secrets == ("opensesame", "opensesame")


def test_the_path_and_the_query_of_an_address_are_asked_for() -> None:
    """As they are written."""
    with Receiver() as receiver:
        begin, _, _ = receiver.url.partition("://")
        place = receiver.url.split("/")[2]
        send(WebRequest(f"{begin}://{place}/a/b?c=1", b"{}"), 5.0)
        send(WebRequest(f"{begin}://{place}", b"{}"), 5.0)

    assert [taken.path for taken in receiver.tried] == ["/a/b?c=1", "/"]


@pytest.mark.parametrize(("status", "is_success", "is_redirect"), [(204, True, False), (302, False, True)])
def test_an_answer_knows_its_family(status: int, is_success: bool, is_redirect: bool) -> None:  # noqa: FBT001 - cases
    """So that every sender draws the line at the same place."""
    assert (WebResponse(status).is_success, WebResponse(status).is_redirect) == (is_success, is_redirect)


@pytest.mark.parametrize(("status", "is_one"), [(299, False), (300, True), (399, True), (400, False)])
def test_a_redirect_is_told_by_its_status(status: int, *, is_one: bool) -> None:
    """None is followed."""
    assert WebResponse(status).is_redirect is is_one


def test_what_is_sent_to_https_is_never_readable() -> None:
    """Also where no certificates were given: the first that a receiver gets is a TLS handshake."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        first: list[bytes] = []

        def accept() -> None:
            connection, _ = server.accept()
            with connection:
                first.append(connection.recv(1))

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(NoWebResponse):
            send(WebRequest(f"https://127.0.0.1:{server.getsockname()[1]}/", b"{}"), 5.0)
        thread.join()

    assert first == [b"\x16"]
