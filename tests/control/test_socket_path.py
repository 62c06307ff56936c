"""Where the control socket is, however long its path."""

import socket
from pathlib import Path

import pytest

from forewarn.control import socket_path


def deep(tmp_path: Path) -> Path:
    directory = tmp_path.joinpath(*["a-directory-with-a-long-name"] * 8)
    directory.mkdir(parents=True)
    return socket_path.socket_path(directory)


@pytest.mark.parametrize("descriptors", [Path("/proc/self/fd"), Path("/absent")])
def test_a_path_too_long_for_a_socket_is_reached_all_the_same(tmp_path: Path, descriptors: Path) -> None:
    """Through a descriptor of its directory, or through a short link to it where there are none."""
    path = deep(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        with pytest.raises(OSError, match="too long"):
            listener.bind(str(path))
        with socket_path.short_path(path, descriptors) as name:
            listener.bind(name)
        listener.listen()
        with socket_path.short_path(path, descriptors) as name:
            caller.connect(name)

    assert path.is_socket()


def descriptors() -> list[str]:
    return sorted(each.name for each in Path("/proc/self/fd").iterdir())


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """The descriptor is closed once the path was used."""
    path = deep(tmp_path)
    before = descriptors()
    with socket_path.short_path(path):
        pass

    assert descriptors() == before


def test_a_short_path_is_used_as_it_is() -> None:
    """No detour where none is needed."""
    with socket_path.short_path(Path("/run/forewarn/control.sock")) as name:
        assert name == "/run/forewarn/control.sock"
