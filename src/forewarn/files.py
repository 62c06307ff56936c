"""Durable, private and locked files.

Files of a service or an agent may contain secrets: directories have mode 0700, files 0600.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from forewarn.core.errors import Unavailable

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        # The pid is written before the locked byte, because Windows hides locked bytes from readers.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_BINARY: int = getattr(os, "O_BINARY", 0)


class InUse(Unavailable):
    """Another process uses the directory."""


PRIVATE = 0o600
"""Mode of a file that only its owner may read."""


@contextmanager
def write_atomically(path: Path, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a new file that is durable when the block ends, and removed when it fails."""
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    if os.name != "nt":  # Windows cannot open directories; it writes names through by itself
        sync_file(directory)


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_directory(directory: Path, *, parents: bool = False) -> None:
    """Create a directory for its owner alone, or remove other users' rights to an existing one.

    A directory shared by design, such as /tmp, and one that belongs to another user stay as they are.
    """
    directory.mkdir(mode=0o700, parents=parents, exist_ok=True)
    if not directory.stat().st_mode & stat.S_ISVTX:
        _restrict(directory.resolve(), 0o700)


def restrict_files(paths: Iterable[Path]) -> None:
    """Remove other users' rights to files and sockets."""
    for path in paths:
        _restrict(path, PRIVATE)


def _restrict(path: Path, mode: int) -> None:
    if os.name == "nt":
        return  # Windows inherits permissions from the parent directory
    try:
        found = path.lstat()
        has = stat.S_IMODE(found.st_mode)
        if has & ~mode and not stat.S_ISLNK(found.st_mode):
            path.chmod(has & mode)
    except (FileNotFoundError, PermissionError):
        pass  # it was removed meanwhile, or belongs to another user


class FileLock:
    """An exclusive lock on a directory, held from ``acquire`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or keep it; raise InUse if another process holds it, and OSError if it cannot be created."""
        if self._descriptor is not None:
            return
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE)
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
        """Release the lock. Repeating it does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
