"""Sockets that a service manager passes, as real descriptors."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from forewarn.core.errors import BadInput
from forewarn.socket_activation import PassedSockets, from_environment

CONTROL_SOCKET = ("control-socket", socket.AF_UNIX, True)


@pytest.fixture
def first() -> Iterator[int]:
    """A number from which on descriptors are free."""
    with ExitStack() as opened:
        spare = os.dup(0)
        os.close(spare)
        number = spare + 64
        opened.callback(os.closerange, number, number + 8)
        yield number


def pass_on(
    first: int, *kinds: tuple[str, socket.AddressFamily, bool], path: Path | str = "", mode: int = 0o600
) -> dict[str, str]:
    """Put sockets where a service manager would, and return what it would say of them; ``path`` is of a unix one."""
    for number, (_, family, is_listening) in enumerate(kinds):
        with socket.socket(family) as made:
            if is_listening:
                made.bind(
                    str(path)
                    if family == socket.AF_UNIX
                    else ("::1" if family == socket.AF_INET6 else "127.0.0.1", 0)
                )
                if family == socket.AF_UNIX and Path(path).is_socket():
                    Path(path).chmod(mode)
                made.listen()
            os.dup2(made.fileno(), first + number)
    names = ":".join(name for name, _, _ in kinds)
    return {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(kinds)), "LISTEN_FDNAMES": names}


def test_sockets_are_told_apart_by_name(first: int, tmp_path: Path) -> None:
    """Several of one name are all taken; children inherit neither descriptors nor variables."""
    environment = pass_on(
        first,
        CONTROL_SOCKET,
        ("metadata", socket.AF_INET, True),
        ("metadata", socket.AF_INET6, True),
        ("control", socket.AF_INET, True),
        path=tmp_path / "control.sock",
    ) | {"PATH": "/bin"}
    passed = from_environment(environment, first)

    assert [each.fileno() - first for each in passed.metadata] == [1, 2]
    assert [each.fileno() - first for each in passed.control] == [3]
    assert [each.fileno() - first for each in passed.control_socket] == [0]
    assert not any(os.get_inheritable(first + number) for number in range(4))
    assert environment == {"PATH": "/bin"}
    passed.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(first)


@pytest.mark.parametrize("environment", [{}, {"LISTEN_FDS": "2", "LISTEN_PID": "1"}, {"LISTEN_FDS": "0"}])
def test_what_was_not_passed_to_this_process_is_left_alone(environment: dict[str, str]) -> None:
    """The variables may come from a parent."""
    assert from_environment(environment) == PassedSockets()
    assert environment == {}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (("metdata", socket.AF_INET, True), "has the name 'metdata'; set FileDescriptorName="),
        (("", socket.AF_INET, True), "has no name; set FileDescriptorName="),
        (("metadata", socket.AF_UNIX, True), "(metadata) is AF_UNIX, SOCK_STREAM"),
        (("control-socket", socket.AF_INET, True), "(control-socket) is AF_INET, SOCK_STREAM"),
        (("metadata", socket.AF_INET, False), "(metadata) does not listen; set Accept=no"),
    ],
)
def test_a_socket_that_is_not_what_its_name_says_is_refused(
    first: int, kind: tuple[str, socket.AddressFamily, bool], said: str
) -> None:
    """By its number, with the remedy."""
    with pytest.raises(BadInput) as refused:
        from_environment(pass_on(first, kind), first)

    assert str(first) in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o755])
def test_a_control_socket_that_only_its_owner_and_group_may_write_is_taken(
    first: int, tmp_path: Path, mode: int
) -> None:
    """To connect, a user needs permission to write, and no other."""
    passed = from_environment(pass_on(first, CONTROL_SOCKET, path=tmp_path / "control.sock", mode=mode), first)

    assert len(passed.control_socket) == 1
    passed.close()


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777])
def test_a_control_socket_that_every_user_may_write_is_refused(first: int, tmp_path: Path, mode: int) -> None:
    """When the descriptors are taken over: nothing is loaded, and no guest is answered."""
    with pytest.raises(BadInput, match=r"\(control-socket\) .* lets every user give commands; set SocketMode=0600"):
        from_environment(pass_on(first, CONTROL_SOCKET, path=tmp_path / "control.sock", mode=mode), first)


def test_an_abstract_control_socket_is_refused(first: int) -> None:
    """Its address has no permissions."""
    with pytest.raises(BadInput, match="lets every user give commands"):
        from_environment(pass_on(first, CONTROL_SOCKET), first)


def test_descriptors_that_are_no_sockets_are_refused(first: int) -> None:
    """A file and an invalid number are refused."""
    os.dup2(0, first)
    environment = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "metadata"}

    with pytest.raises(BadInput, match="is not a socket"):
        from_environment(dict(environment), first)
    with pytest.raises(BadInput, match="LISTEN_FDS is 'two'"):
        from_environment(environment | {"LISTEN_FDS": "two"}, first)
