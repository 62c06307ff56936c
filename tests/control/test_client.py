"""The operator's end: what is said when the service is not there, or goes away."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.control import messages
from forewarn.control.client import Client
from forewarn.control.views import HostView
from forewarn.core.errors import Unavailable


@contextmanager
def answering(directory: Path, answer: bytes) -> Iterator[None]:
    """Be a service that says one thing and hangs up."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "control.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(answer)

        service = threading.Thread(target=serve)
        service.start()
        yield
        service.join(20)


def test_a_service_that_is_not_there_is_said_so_with_the_remedy(tmp_path: Path) -> None:
    """One sentence that names the directory and what to type."""
    with pytest.raises(Unavailable, match=f"no service answers in {tmp_path}; start one with 'forewarn serve"):
        Client(tmp_path)


def test_a_socket_without_a_service_is_the_same(tmp_path: Path) -> None:
    """One that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))

    with pytest.raises(Unavailable, match="no service answers"):
        Client(tmp_path)


@pytest.mark.parametrize("answer", [b"", b'{"part": []}\n', b'{"ok": nu'])
def test_a_service_that_goes_away_in_the_middle_is_said_so(tmp_path: Path, answer: bytes) -> None:
    """Whether the command was carried out is not known, and that is what is said."""
    gone = pytest.raises(Unavailable, match="may have been done or not")

    with answering(tmp_path, answer), Client(tmp_path) as client, gone:
        list(client.stream(messages.Hosts(), HostView))


def test_an_answer_that_makes_no_sense_is_said_so(tmp_path: Path) -> None:
    """Nothing is made of it."""
    senseless = pytest.raises(Unavailable, match="makes no sense")

    with answering(tmp_path, b"hello\n"), Client(tmp_path) as client, senseless:
        list(client.stream(messages.Hosts(), HostView))


@pytest.mark.parametrize("kind", messages.KINDS)
def test_every_kind_of_error_arrives_as_what_it_was(kind: str) -> None:
    """An exit code depends on it."""
    error = messages.KINDS[kind]("why")

    assert messages.show_error(error).kind == kind
    assert type(messages.read_error(messages.show_error(error))) is type(error)
