"""When a driver is called, seen from outside: its first deed is to open the record of the event."""

import ctypes
import os
import select
from pathlib import Path
from time import monotonic

_IN_CREATE = 0x100
_PATIENCE = 30.0


class RecordWatch:
    """The directory of a driver's records, whose every new file the kernel tells of at once (inotify)."""

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init()
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _IN_CREATE) < 0:
            raise SystemExit(f"{directory} cannot be watched: {os.strerror(ctypes.get_errno())}.")

    def wait_for_record(self) -> float:
        """Return when the next record was opened, by the monotonic clock."""
        if not select.select([self._descriptor], [], [], _PATIENCE)[0]:
            raise SystemExit(f"The driver was not called within {_PATIENCE:.0f} s of the approval.")
        now = monotonic()
        os.read(self._descriptor, 4096)
        return now

    def close(self) -> None:
        os.close(self._descriptor)
