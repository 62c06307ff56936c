"""Path of the control socket, and short names for paths that are too long for a socket."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forewarn.socket_files import LONGEST_PATH

NAME = "control.sock"
_DESCRIPTORS = Path("/proc/self/fd")


def socket_path(directory: Path) -> Path:
    return directory / NAME


@contextmanager
def short_path(path: Path, descriptors: Path = _DESCRIPTORS) -> Iterator[str]:
    """Yield a name of ``path`` that is short enough for a socket; it is valid within the context."""
    if len(os.fsencode(path)) <= LONGEST_PATH:
        yield str(path)
    elif descriptors.exists():
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield str(descriptors / str(directory) / path.name)
        finally:
            os.close(directory)
    else:
        with tempfile.TemporaryDirectory(prefix="forewarn-", dir="/tmp") as short:
            link = Path(short) / "d"
            link.symlink_to(path.parent.absolute())
            yield str(link / path.name)
