"""Files that must be right: there whole or not at all, also after a power failure, and used by one process only."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from forewarn.core.errors import Unavailable

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        # The pid is written below the locked byte, because Windows hides locked bytes from readers.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class InUse(Unavailable):
    """Another process works there."""


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that is on the disk when the block ends, and gone when it fails."""
    try:
        with path.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    if os.name == "nt":
        return  # Windows cannot open directories; it writes names through by itself
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Lock:
    """The right to work in a directory, held from ``acquire`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or keep it; raise InUse where another one holds it, and OSError where none can be."""
        if self._descriptor is not None:
            return
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _try_lock(descriptor)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise InUse(
                f"{self.path.parent} is in use by the process with id {holder}: "
                "stop that one first, or name another directory"
            ) from error
        self._descriptor = descriptor
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())

    def release(self) -> None:
        """Give the lock back. Repeating it does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
