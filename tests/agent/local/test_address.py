"""Where programs reach the agent: what may be given, what is in the way, who may come in."""

import socket
import stat
from pathlib import Path

import pytest

from forewarn.agent.local.address import listen, make_token, read_address, read_token
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput, Unavailable


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/run/forewarn-agent/agent.sock", Path("/run/forewarn-agent/agent.sock")),
        ("./a:80", Path("./a:80")),
        ("a:\N{SUPERSCRIPT TWO}", Path("a:\N{SUPERSCRIPT TWO}")),
        ("127.0.0.1:9255", ListenAddress("127.0.0.1", 9255)),
        ("[::1]:9255", ListenAddress("::1", 9255)),
        ("localhost:9255", ListenAddress("localhost", 9255)),
        ("off", None),
        ("", None),
    ],
)
def test_a_place_is_a_path_a_port_or_nothing(text: str, place: Path | ListenAddress | None) -> None:
    """As the setting is written."""
    assert read_address(text) == place


@pytest.mark.parametrize("text", ["0.0.0.0:9255", "10.0.0.4:9255", "example.org:9255"])
def test_no_port_is_opened_to_others(text: str) -> None:
    """A token keeps programs of this machine out, not a network."""
    with pytest.raises(BadInput, match=r"other machines could reach it; give 127\.0\.0\.1:PORT"):
        read_address(text)


def test_a_port_that_is_none_is_refused() -> None:
    """The sentence says what may be given."""
    with pytest.raises(BadInput, match=r"expected a path, 127\.0\.0\.1:PORT or off"):
        read_address("127.0.0.1:99999")


def test_only_owner_and_group_may_open_the_socket(tmp_path: Path) -> None:
    """Mode 0660."""
    path = tmp_path / "agent.sock"

    with listen(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    """After a crash the agent starts without help."""
    path = tmp_path / "agent.sock"
    listen(path).close()

    with listen(path), socket.socket(socket.AF_UNIX) as program:
        program.connect(str(path))


def test_an_agent_that_answers_is_not_pushed_aside(tmp_path: Path) -> None:
    """Its socket stays, and the second one is told."""
    path = tmp_path / "agent.sock"

    with listen(path):
        with pytest.raises(Unavailable, match="another agent listens"):
            listen(path)
        assert path.exists()


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    """A file that somebody needs is not removed."""
    path = tmp_path / "agent.sock"
    path.write_text("precious")

    with pytest.raises(BadInput, match="is not a socket; move it elsewhere"):
        listen(path)
    assert path.read_text() == "precious"


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    """The sentence has the path and the remedy."""
    with pytest.raises(BadInput, match=r"nowhere/agent\.sock.*No such file.*give a writable directory"):
        listen(tmp_path / "nowhere" / "agent.sock")


def test_a_path_too_long_for_a_socket_is_refused() -> None:
    """Before the system says so in its own words."""
    with pytest.raises(BadInput, match="shorten it"):
        listen(Path("/tmp") / ("a" * 100))  # noqa: S108 nothing is made there


def test_without_unix_sockets_a_port_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr(socket, "AF_UNIX")

    with pytest.raises(BadInput, match=r"give 127\.0\.0\.1:PORT"):
        listen(tmp_path / "agent.sock")


def test_a_port_that_is_taken_is_named() -> None:
    """The sentence has the setting and the remedy."""
    with listen(ListenAddress("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}.*another program listens there; choose another"):
            listen(ListenAddress("127.0.0.1", port))


def test_the_token_is_new_each_time_and_its_owners_alone(tmp_path: Path) -> None:
    """Mode 0600, also where a file stood already."""
    file = tmp_path / "token"
    file.write_text("old")
    file.chmod(0o644)

    first, second = make_token(file), make_token(file)

    assert first != second
    assert read_token(file) == second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_a_token_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    """Both sentences have the file and what to do."""
    with pytest.raises(BadInput, match=r"nowhere/token cannot be written.*check the setting state"):
        make_token(tmp_path / "nowhere" / "token")
    with pytest.raises(Unavailable, match=r"token cannot be read.*as the user of the agent"):
        read_token(tmp_path / "token")
