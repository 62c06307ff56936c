"""What is found of a receiver without sending it anything."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.config.values import ListenAddress
from forewarn.drivers import webhook_checks
from tests.control.notifications.conftest import certificate, served
from tests.drivers.receiver import Receiver

__all__ = ["certificate", "served"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    path.chmod(0o600)
    return path


def found(secret: Path, *urls: str, callback: ListenAddress | None = None, is_running: bool = False) -> list[str]:
    return list(webhook_checks.find_problems(urls, secret, callback, is_running=is_running))


@contextmanager
def listening(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Take in one caller after another, and greet each if there is a certificate to do it with."""
    server = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        while True:
            try:
                line, _ = server.accept()
            except OSError:
                return
            try:
                (tls.wrap_socket(line, server_side=True) if tls else line).close()
            except OSError:
                line.close()

    thread = threading.Thread(target=greet)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def test_a_receiver_that_is_there_is_well_and_hears_nothing(secret: Path) -> None:
    """A connection is opened and closed; no message is sent."""
    with Receiver() as receiver:
        assert found(secret, receiver.url) == []
        assert receiver.messages == []


def test_a_receiver_that_is_not_there_is_found_once(secret: Path) -> None:
    """However many addresses name it."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]

    (trouble,) = found(secret, f"http://127.0.0.1:{port}/a", f"http://127.0.0.1:{port}/b")
    assert trouble.startswith(f"cannot connect to 127.0.0.1:{port}: connection refused; start the receiver")


def test_a_name_that_nobody_has_is_found(secret: Path) -> None:
    """A name too long to be one is known to be none without asking anybody."""
    host = "x" * 64 + ".invalid"

    (trouble,) = found(secret, f"https://{host}/")
    assert trouble.startswith(f"cannot connect to {host}:443: there is no host {host}")


def test_a_certificate_that_is_not_trusted_is_found(
    secret: Path, served: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is, is not."""
    with listening(served) as port:
        (trouble,) = found(secret, f"https://localhost:{port}/")
        assert "its certificate is not trusted" in trouble
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert found(secret, f"https://localhost:{port}/") == []


def test_a_receiver_that_says_nothing_is_found() -> None:
    """It takes connections, and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = webhook_checks._try_connection("https", "127.0.0.1", silent.getsockname()[1], longest=0.1)

    assert said == "no answer within 0 s; check packet filters in between"


def test_a_receiver_without_tls_is_found(secret: Path) -> None:
    """Where the address says https."""
    with listening() as port:
        (trouble,) = found(secret, f"https://localhost:{port}/")

    assert trouble.startswith(f"cannot connect to localhost:{port}: ")


@pytest.mark.parametrize(("mode", "count"), [(0o600, 0), (0o640, 0), (0o644, 1), (0o620, 1)])
def test_a_secret_that_others_can_get_at_is_found(secret: Path, mode: int, count: int) -> None:
    """A group may read it, so that the service's may be one of its own."""
    secret.chmod(mode)

    assert len(found(secret)) == count


@pytest.mark.parametrize(
    ("is_taken", "is_running", "said"),
    [
        (False, False, ""),
        (True, True, ""),
        (True, False, "cannot listen for callbacks on {}: another program listens there; change 'callback'"),
        (False, True, "the running service does not listen for callbacks on {}; restart it"),
    ],
)
def test_the_callback_port_is_free_or_ours(secret: Path, said: str, *, is_taken: bool, is_running: bool) -> None:
    """A service that runs has it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        callback = ListenAddress("127.0.0.1", int(other.getsockname()[1]))
        if not is_taken:
            other.close()
        troubles = found(secret, callback=callback, is_running=is_running)

    assert [each[: len(said.format(callback))] for each in troubles] == ([said.format(callback)] if said else [])
