"""Looking again and again whether something has become so, within what a task allows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from forewarn.agent.handler import Task

_MARGIN = 0.3
"""Seconds before the deadline at which waiting ends, so that the answer is in time."""
_LEAST = 0.1
"""Seconds that one question gets, even if the time is over already."""


def polls(task: Task, every: timedelta) -> Iterator[None]:
    """Yield at once, then every so often, a last time shortly before the deadline; end when the agent stops."""
    while True:
        yield
        left = _left(task)
        if left <= 0 or task.stopping.wait(min(every.total_seconds(), left)):
            return


def is_over(task: Task) -> bool:
    """Tell whether there is no time left to look once more."""
    return _left(task) <= 0


def question_timeout(task: Task, longest: float) -> float:
    """Return how many seconds a single question may take."""
    return max(_LEAST, min(longest, _left(task)))


def _left(task: Task) -> float:
    return (task.deadline - datetime.now(UTC)).total_seconds() - _MARGIN
