"""Waiting ends in time."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.handler import Direction, Task
from forewarn.agent.handlers.polling import polls, question_timeout
from forewarn.core.model import EventStatus, EventType
from forewarn.wire.document import ScheduledEvent

EVENT = ScheduledEvent(id="e", type=EventType.REBOOT, status=EventStatus.SCHEDULED, resources=("vm-0",))


class Waits:
    """A wish to stop that notes how long it was waited for; it comes true after so many waits."""

    def __init__(self, until: int = 1_000) -> None:
        self.seconds: list[float] = []
        self.until = until

    def is_set(self) -> bool:
        return len(self.seconds) >= self.until

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0)
        return self.is_set()


@pytest.fixture
def task() -> Callable[..., Task]:
    def make(seconds: float, stopping: Waits | None = None) -> Task:
        return Task(
            event=EVENT,
            vm="vm-0",
            direction=Direction.DO,
            deadline=datetime.now(UTC) + timedelta(seconds=seconds),
            stopping=stopping or threading.Event(),
        )

    return make


def test_one_look_is_always_taken(task: Callable[..., Task]) -> None:
    """Even when the time was over before."""
    assert len(list(polls(task(-5), timedelta(seconds=1)))) == 1


def test_no_look_is_taken_once_the_agent_stops(task: Callable[..., Task]) -> None:
    """The wish to stop ends the waiting, whatever time is left."""
    waits = Waits(until=3)

    assert len(list(polls(task(600, waits), timedelta(seconds=7)))) == 3
    assert waits.seconds == [7, 7, 7]


def test_the_last_look_is_taken_shortly_before_the_deadline(task: Callable[..., Task]) -> None:
    """A wait is never longer than the time left."""
    waits = Waits(until=1)
    list(polls(task(5, waits), timedelta(seconds=60)))

    assert waits.seconds[0] == pytest.approx(4.7, abs=0.2)


def test_a_question_gets_what_is_left_and_never_nothing(task: Callable[..., Task]) -> None:
    """A connection without any time could not even be tried."""
    assert question_timeout(task(600), 5) == 5
    assert question_timeout(task(2), 5) == pytest.approx(1.7, abs=0.2)
    assert question_timeout(task(-9), 5) == pytest.approx(0.1)
