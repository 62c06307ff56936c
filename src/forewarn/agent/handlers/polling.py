"""Polling intervals and timeouts of handlers, bounded by the task's deadline."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from forewarn.agent.handler import Task

_MARGIN = 0.3
"""Seconds before the deadline at which waiting ends, so that the result is in time."""
_LEAST = 0.1
"""Least timeout of one query in seconds, even after the deadline."""


def polls(task: Task, every: timedelta) -> Iterator[None]:
    """Yield at once, then at intervals, a last time shortly before the deadline; end when the task is stopped."""
    while True:
        yield
        left = _left(task)
        if left <= 0 or task.stopping.wait(min(every.total_seconds(), left)):
            return


def is_over(task: Task) -> bool:
    """Return whether no time is left for another query."""
    return _left(task) <= 0


def question_timeout(task: Task, longest: float) -> float:
    """Return the timeout of one query in seconds."""
    return max(_LEAST, min(longest, _left(task)))


def _left(task: Task) -> float:
    return (task.deadline - datetime.now(UTC)).total_seconds() - _MARGIN
