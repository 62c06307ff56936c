"""The sockets of the control plane: who may open them, and what is in the way."""

import resource
import socket
import stat
from pathlib import Path

import pytest

from forewarn.config.values import ListenAddress
from forewarn.control.client import ControlClient
from forewarn.control.server.sockets import ControlSockets, UnixSocket, listen, load_certificate, most_connections
from forewarn.core.errors import BadInput, Unavailable
from tests.harness import ApiHarness, open_harness


def test_nobody_else_may_open_the_socket(harness: ApiHarness) -> None:
    """It is its owner's alone, whatever the umask."""
    assert stat.S_IMODE((harness.directory / "control.sock").stat().st_mode) == 0o600


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    """A service that was killed leaves one; nobody listens on it."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "control.sock"))

    with open_harness(tmp_path) as harness, ControlClient.local(harness.directory) as client:
        assert len(list(client.vms())) == 4


def test_a_socket_that_is_answered_is_left_alone(harness: ApiHarness) -> None:
    """A second service in the same directory is refused, and the first goes on."""
    with pytest.raises(Unavailable, match="another service listens"):
        UnixSocket(harness.directory).open()

    assert harness.ask("GET", "/v1/hosts").status == 200


def test_what_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    """Somebody's file may bear that name."""
    file = tmp_path / "control.sock"
    file.write_text("mine", encoding="utf-8")

    with pytest.raises(BadInput, match="exists and is not a socket"), open_harness(tmp_path):
        pass

    assert file.read_text(encoding="utf-8") == "mine"


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """In one sentence, with the remedy."""
    with pytest.raises(BadInput, match="No such file or directory; use a writable directory"):
        UnixSocket(tmp_path / "absent").open()


def test_closing_takes_away_its_own_socket_only(tmp_path: Path) -> None:
    """One that somebody else put there in the meantime stays."""
    with open_harness(tmp_path):
        (tmp_path / "control.sock").unlink()
        (tmp_path / "control.sock").touch()

    assert (tmp_path / "control.sock").exists()


def test_a_path_too_long_for_a_socket_is_no_hindrance(tmp_path: Path) -> None:
    """Both ends find the way."""
    directory = tmp_path.joinpath(*["a-directory-with-a-long-name"] * 8)
    directory.mkdir(parents=True)

    with open_harness(directory) as harness, ControlClient.local(harness.directory) as client:
        assert len(list(client.vms())) == 4

    assert not (directory / "control.sock").exists()


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    """Another port, or none at all."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{port}: another program .*--control off"):
            listen(ListenAddress("127.0.0.1", port))


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-machine.invalid"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    """In one sentence."""
    with pytest.raises(Unavailable, match="cannot listen for operators on"):
        listen(ListenAddress(host, 0))


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    """Whether it is not there or is something else."""
    file = tmp_path / "control.pem"
    if content:
        file.write_text(content, encoding="utf-8")

    with pytest.raises(BadInput, match=r"control\.pem .*cannot be used: .*both in PEM"):
        load_certificate(file, None)


@pytest.mark.parametrize(("hard", "most"), [(200, 50), (1_000_000, 4_096), (resource.RLIM_INFINITY, 4_096)])
def test_operators_take_no_more_than_a_quarter_of_the_files(
    monkeypatch: pytest.MonkeyPatch, hard: int, most: int
) -> None:
    """So that the local operator, VMs and the journal find one, however many connect."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, hard))

    assert most_connections() == most


def test_every_socket_is_closed_and_may_be_closed_again(tmp_path: Path) -> None:
    """The file of the unix socket is removed."""
    sockets = ControlSockets(tmp_path, ListenAddress("127.0.0.1", 0))
    sockets.open()
    opened = tuple(sockets.all)
    sockets.close()
    sockets.close()

    assert [each.fileno() for each in opened] == [-1, -1]
    assert not (tmp_path / "control.sock").exists()
