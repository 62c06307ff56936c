"""Programs that handlers run: within the time of the task, and refusals in words."""

import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.handler import Direction, Task
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from tests.agent.samples import REBOOT

pytestmark = pytest.mark.end_to_end


def task(seconds: float = 20.0, stopping: threading.Event | None = None) -> Task:
    return Task(
        event=REBOOT,
        vm="web-0",
        direction=Direction.DO,
        deadline=datetime.now(UTC) + timedelta(seconds=seconds),
        stopping=stopping or threading.Event(),
    )


def test_a_program_that_takes_too_long_is_asked_to_end_before_the_deadline() -> None:
    """SIGTERM leaves it a part of the time to tidy up, and the deadline is kept."""
    began = time.monotonic()
    ended = run_program(["sh", "-c", "trap 'echo tidy; exit 0' TERM; while :; do sleep 0.05; done"], task(5))

    assert (ended.stdout, ended.cut_off) == ("tidy\n", "took too long and was stopped")
    assert time.monotonic() - began < 5


def test_it_ends_soon_when_the_agent_stops() -> None:
    """Whatever time was left."""
    stopping = threading.Event()
    stopping.set()

    assert run_program(["sleep", "60"], task(60, stopping)).problem == "was stopped before it had ended"


@pytest.mark.parametrize(
    ("argv", "directory", "sentence"),
    [
        (["/no/such"], None, "there is no program /no/such; give its full path"),
        (["/etc/passwd"], None, "/etc/passwd may not be executed; chmod +x it"),
        ([sys.executable], "/no/where", f"{sys.executable} could not be run: there is no directory /no/where"),
        (["a\0b"], None, "a\0b could not be run: embedded null byte"),
    ],
)
def test_what_cannot_be_started_says_why(argv: list[str], directory: str | None, sentence: str) -> None:
    """Each reason is one sentence."""
    with pytest.raises(ProgramNotStarted) as raised:
        run_program(argv, task(), directory=directory)

    assert str(raised.value) == sentence
