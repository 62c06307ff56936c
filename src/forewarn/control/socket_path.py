"""Where the control socket is, and how a path that is too long for a socket is reached all the same."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "control.sock"
_LONGEST = 100
"""Bytes that fit into a socket's address on every system, the closing zero included."""
_DESCRIPTORS = Path("/proc/self/fd")


def socket_path(directory: Path) -> Path:
    return directory / NAME


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yield a name of ``path`` that is short enough to bind and connect; it holds while the context does."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
    elif _DESCRIPTORS.exists():
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield str(_DESCRIPTORS / str(directory) / path.name)
        finally:
            os.close(directory)
    else:
        with tempfile.TemporaryDirectory(prefix="forewarn-", dir="/tmp") as short:
            link = Path(short) / "d"
            link.symlink_to(path.parent.absolute())
            yield str(link / path.name)
