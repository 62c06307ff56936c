"""Unix sockets in the file system: created with restricted permissions, and never in place of another file."""

import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from forewarn.core.errors import BadInput, Unavailable

LONGEST_PATH = 100
"""Bytes that fit into a socket's address on every system, including the terminating zero."""
KEEP_SOCKET_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""Options of ``create_unix_server``: keep the file, because only its creator (sometimes systemd) removes it.

Without them Python 3.13 removes the file when the server is closed.
"""


def listen(path: Path, *, name: str = "", mask: int, backlog: int, owner: str, remedy: str) -> socket.socket:
    """Create a listening socket at a path, and return it. Raise ForewarnError or OSError if that is not possible.

    ``name`` is another name of the path, if the path is too long for a socket. ``mask`` works as a umask. A stale
    socket is replaced; if another ``owner`` (such as "service") listens there, the error contains ``remedy``.
    """
    if not _make_way(path, name or str(path)):
        raise Unavailable(f"another {owner} listens on {path}; stop it, or {remedy}")
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
    """Remove a stale socket, and nothing else; return whether the path is free."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return True
    if not stat.S_ISSOCK(mode):
        raise BadInput(f"{path} exists and is not a socket; move it elsewhere")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            path.unlink()
            return True
        except BlockingIOError:
            pass  # another process listens, with many connections waiting
    return False


def _bind(listener: socket.socket, name: str, mask: int) -> None:
    before = os.umask(mask)
    try:
        listener.bind(name)
    finally:
        os.umask(before)


def identity(path: Path) -> tuple[int, int]:
    """Return a key that distinguishes this file from another of the same name."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def remove(path: Path, made: tuple[int, int]) -> None:
    """Remove a socket's file, if it is still the one that was created."""
    with suppress(OSError):
        if identity(path) == made:
            path.unlink()
