"""Sockets that are files."""

import asyncio
import socket
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
import uvloop

from forewarn import socket_files
from forewarn.core.errors import BadInput, Unavailable


def made(path: Path) -> socket.socket:
    return socket_files.listen(path, mask=0o177, backlog=1, owner="service", remedy="go elsewhere")


def test_nobody_else_may_open_it(tmp_path: Path) -> None:
    """Its rights are those of the mask from the first moment on."""
    with made(tmp_path / "socket"):
        assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o600


def test_one_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    """A process that was killed could not take it away."""
    made(tmp_path / "socket").close()

    with made(tmp_path / "socket"), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(tmp_path / "socket"))


def test_one_that_is_answered_is_left_alone(tmp_path: Path) -> None:
    """Also where so many wait that nobody can be added."""
    with made(tmp_path / "socket"):
        waiting = []
        for _ in range(5):
            with pytest.raises(Unavailable, match=r"^another service listens on .*socket; stop it, or go elsewhere$"):
                made(tmp_path / "socket")
            caller = socket.socket(socket.AF_UNIX)
            caller.setblocking(False)
            waiting.append(caller)
            caller.connect_ex(str(tmp_path / "socket"))
        for caller in waiting:
            caller.close()


def test_what_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    """Neither a file nor a link that leads to a socket."""
    (tmp_path / "file").write_text("of another")
    (tmp_path / "link").symlink_to("file")

    for name in ("file", "link"):
        with pytest.raises(BadInput, match=f"{name} exists and is not a socket; move it elsewhere"):
            made(tmp_path / name)
    assert (tmp_path / "file").read_text() == "of another"


def test_only_the_file_that_was_made_is_removed(tmp_path: Path) -> None:
    """What took its place in the meantime belongs to another."""
    path = tmp_path / "agent.sock"
    with made(path):
        own = socket_files.identity(path)
        path.rename(tmp_path / "kept")
        path.write_text("of another")

        socket_files.remove(path, own)
        assert path.read_text() == "of another"

        path.unlink()
        (tmp_path / "kept").rename(path)
        socket_files.remove(path, own)
        assert not path.exists()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_server_that_is_closed_leaves_the_file_to_its_maker(
    tmp_path: Path, run: Callable[[Coroutine[object, object, None]], None]
) -> None:
    """Python 3.13 would remove it, also where systemd made it and listens on."""
    path = tmp_path / "socket"

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(asyncio.Protocol, sock=made(path), **socket_files.KEEP_SOCKET_FILE)
        server.close()
        await server.wait_closed()

    run(serve())
    assert path.is_socket()
