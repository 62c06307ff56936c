"""Requests to an API server that is slow, gone or talks nonsense; what a good one does is held by slow/kubernetes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.handlers.kubernetes.access import KubernetesAccess, KubernetesCredential
from forewarn.agent.handlers.kubernetes.api import KubernetesApi
from forewarn.agent.handlers.kubernetes.errors import ApiForbidden, ApiUnable, ApiUnreachable
from forewarn.core.errors import BadInput, ForewarnError

pytestmark = pytest.mark.end_to_end


@contextmanager
def server(*answers: bytes) -> Iterator[str]:
    """Take one connection after another; answer its first request with these bytes, and hang up if there are any."""
    listener = socket.create_server(("127.0.0.1", 0))
    held = []

    def work() -> None:
        for answer in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(65536)
            connection.sendall(answer)
            held.append(connection)
            if answer:
                connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # Whoever still waits for a connection that will not come wakes up.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in (*held, listener):
            each.close()


def ask(api: KubernetesApi) -> object:
    return api.ask("GET", "/version", dict[str, str])


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


FORBIDDEN = answer(
    b'{"kind": "Status", "message": "User \\"bob\\" cannot get resource \\"nodes\\" in API group \\"\\""}',
    b"403 Forbidden",
)


def test_a_connection_that_died_is_opened_again() -> None:
    """A server that hung up after the last answer is asked over a new connection."""
    with (
        server(answer(b'{"a": "1"}'), answer(b'{"a": "2"}')) as url,
        KubernetesApi(KubernetesAccess(url=url), lambda: 30.0) as api,
    ):
        assert ask(api) == {"a": "1"}
        assert ask(api) == {"a": "2"}


def test_a_server_that_is_silent_is_left_in_time() -> None:
    """No answer within the patience is one sentence."""
    with server(b"") as url, KubernetesApi(KubernetesAccess(url=url), lambda: 0.3) as api:
        began = datetime.now(UTC)
        with pytest.raises(ApiUnreachable, match="does not answer: timed out"):
            ask(api)

    assert datetime.now(UTC) - began < timedelta(seconds=30)


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-x\r\n", answer(b"<html>"), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_nonsense_is_told(said: bytes) -> None:
    """Another protocol, a page and half an answer are one sentence each."""
    with (
        server(said) as url,
        KubernetesApi(KubernetesAccess(url=url), lambda: 30.0) as api,
        pytest.raises(ApiUnreachable, match=url),
    ):
        ask(api)


@pytest.mark.parametrize(
    ("answers", "trouble"),
    [
        ((FORBIDDEN, answer(b"ok"), FORBIDDEN), ApiForbidden),
        ((FORBIDDEN, answer(b"", b"500 not yet")), ApiUnable),
        ((FORBIDDEN, FORBIDDEN), ApiUnable),
    ],
    ids=["ready", "not ready", "not even that may be asked"],
)
def test_a_right_is_missing_only_where_the_server_is_ready(
    answers: tuple[bytes, ...], trouble: type[ForewarnError]
) -> None:
    """A server that has just started refuses everybody; what it says counts when it has read the rights."""
    with (
        server(*answers) as url,
        KubernetesApi(KubernetesAccess(url=url), lambda: 30.0) as api,
        pytest.raises(trouble, match="bob may") as raised,
    ):
        ask(api)

    assert raised.type is trouble


def test_a_right_that_was_read_meanwhile_counts() -> None:
    """If the server became ready between the refusal and the question, the request is made again."""
    answers = (FORBIDDEN, answer(b"ok"), answer(b'{"a": "1"}'))
    with server(*answers) as url, KubernetesApi(KubernetesAccess(url=url), lambda: 30.0) as api:
        assert ask(api) == {"a": "1"}


def test_a_server_that_is_not_there_is_told() -> None:
    """Where nobody listens, the sentence names the address."""
    with server() as url:
        pass

    with (
        KubernetesApi(KubernetesAccess(url=url), lambda: 30.0) as api,
        pytest.raises(ApiUnreachable, match=f"{url} does not answer"),
    ):
        ask(api)


def test_a_certificate_that_is_none_is_told() -> None:
    """A file that holds no certificate is told before anything is sent."""
    access = KubernetesAccess(url="https://127.0.0.1:1", authority=KubernetesCredential(text="no certificate"))

    with KubernetesApi(access, lambda: 30.0) as api, pytest.raises(BadInput, match="cannot be used"):
        ask(api)


def test_what_is_costly_is_loaded_when_it_is_needed() -> None:
    """An agent that only reads its settings has loaded neither TLS nor an HTTP client for it."""
    import subprocess  # noqa: PLC0415 used here alone
    import sys  # noqa: PLC0415 as above

    code = (
        "import sys, forewarn.agent.handlers.kubernetes.handler; print('ssl' in sys.modules, 'http' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert said.split() == ["False", "False"]
