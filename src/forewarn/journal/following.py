"""Lets threads wait until a journal has more entries."""

from collections.abc import Callable
from threading import Condition
from time import monotonic


class AppendNotifier:
    """Wakes the threads that wait for entries of one journal.

    Appends of other processes are noticed by looking again every ``interval`` seconds.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._changed = Condition()
        self._closings = 0

    def notify(self) -> None:
        """Let waiting threads look: entries are durable."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let waiting threads go."""
        with self._changed:
            self._closings += 1
            self._changed.notify_all()

    def wait(self, is_there: Callable[[], bool], timeout: float) -> bool:
        """Return True as soon as ``is_there`` does; False after ``timeout`` seconds, and when the journal closes."""
        until = monotonic() + timeout
        with self._changed:
            closings = self._closings
            while not is_there():
                left = until - monotonic()
                if left <= 0 or self._closings != closings:
                    return False
                self._changed.wait(min(left, self._interval))
        return True
