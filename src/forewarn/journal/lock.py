"""One process per directory: a lock that ends with its holder, however that one ends."""

import os
import sys
from pathlib import Path

from forewarn.journal.failures import clearly
from forewarn.journal.port import JournalLocked

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


class Lock:
    """The right to work in a directory, held from ``acquire`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; raise JournalLocked where another one holds it. Repeating it does nothing."""
        if self._descriptor is not None:
            return
        with clearly(self._path):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _try_lock(descriptor)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise JournalLocked(
                f"{self._path.parent} is in use by the process with id {holder}: "
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
