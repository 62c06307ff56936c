"""Limit of concurrent migrations: each takes bandwidth from the others and from the guests."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forewarn.drivers.executor import WorkInterrupted

_POLL_EVERY = 0.1


class MigrationSlots:
    """Semaphore for migrations over all events."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def taken(self, closing: threading.Event, tell: Callable[[str], None]) -> Iterator[None]:
        """Wait for a slot and hold it; raise WorkInterrupted if the driver is closed meanwhile."""
        if not self._free.acquire(blocking=False):
            tell("waiting for other migrations to end")
            while not self._free.acquire(timeout=_POLL_EVERY):
                if closing.is_set():
                    raise WorkInterrupted
        try:
            yield
        finally:
            self._free.release()
