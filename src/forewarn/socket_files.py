"""Sockets that are files: from the first moment for few eyes, and never in place of something else."""

import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from forewarn.core.errors import BadInput, Unavailable

KEEP_SOCKET_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""Options of ``create_unix_server``: the maker of a socket's file removes it, and systemd is the maker of some.

Without them Python 3.13 removes the file when the server is closed.
"""


def listen(path: Path, *, name: str = "", mask: int, backlog: int, whose: str, remedy: str) -> socket.socket:
    """Make a socket at a path, and return it, listening. Raise what is in the way, or OSError.

    ``name`` is by what the path is reached where it is too long for a socket. ``mask`` takes rights away, as a umask
    does. One that its maker left behind is replaced; where another one of ``whose`` answers, ``remedy`` is said.
    """
    if not _make_way(path, name or str(path)):
        raise Unavailable(f"another {whose} answers on {path}; stop it, or {remedy}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind(listener, name or str(path), mask)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _make_way(path: Path, name: str) -> bool:
    """Remove a socket that nobody listens on, and nothing else; tell whether the place is free."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return True
    if not stat.S_ISSOCK(mode):
        raise BadInput(f"{path} is in the way and is not a socket; move it elsewhere")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            path.unlink()
            return True
        except BlockingIOError:
            pass  # somebody listens, with many waiting
    return False


def _bind(listener: socket.socket, name: str, mask: int) -> None:
    before = os.umask(mask)
    try:
        listener.bind(name)
    finally:
        os.umask(before)


def identity(path: Path) -> tuple[int, int]:
    """Return what tells this file from another of its name."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def remove(path: Path, made: tuple[int, int]) -> None:
    """Take a socket's file away, if it is still the one that was made."""
    with suppress(OSError):
        if identity(path) == made:
            path.unlink()
