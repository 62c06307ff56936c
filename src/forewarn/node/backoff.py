"""How long to wait after a failure: not at all after the first, then longer each time."""

from collections.abc import Callable

_FIRST = 1.0
_LONGEST = 30.0


class Backoff:
    """Counts failures in a row, and says how many seconds are left until the next attempt."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failures = 0
        self._until = 0.0
        self.reason = ""
        """What failed last."""

    @property
    def remaining(self) -> float:
        return max(0.0, self._until - self._seconds()) if self._failures else 0.0

    def fail(self, reason: str) -> None:
        self.reason = reason
        self._failures += 1
        if self._failures > 1:
            self._until = self._seconds() + min(_FIRST * 2 ** min(self._failures - 2, 10), _LONGEST)

    def succeed(self) -> None:
        self._failures = 0
        self._until = 0.0
