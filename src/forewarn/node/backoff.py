"""How long to wait after a failure: not at all after the first, then longer each time."""

from collections.abc import Callable, Hashable, Iterator
from datetime import timedelta
from typing import Generic, TypeVar

_Work = TypeVar("_Work", bound=Hashable)
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


class WorkBackoffs(Generic[_Work]):
    """The backoff of each piece of work that failed; what succeeded has none."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failing: dict[_Work, Backoff] = {}

    def __iter__(self) -> Iterator[_Work]:
        return iter(tuple(self._failing))

    def fail(self, work: _Work, reason: str) -> bool:
        """Note a failure; return whether it is the first in a row, which is the one to be logged."""
        is_first = work not in self._failing
        self._failing.setdefault(work, Backoff(self._seconds)).fail(reason)
        return is_first

    def pause_after(self, work: _Work, least: timedelta) -> timedelta:
        """Return how long to wait before the work is tried again."""
        failed = self._failing.get(work)
        return max(least, timedelta(seconds=failed.remaining)) if failed else least

    def succeed(self, work: _Work) -> None:
        """Forget the failures of a piece of work."""
        self._failing.pop(work, None)
