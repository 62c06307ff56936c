"""The command that decides for several VMs."""

import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.agent.runtime.coordinator import CoordinatorReply, consult
from tests.agent.harness import event


def asked(command: list[str], longest: timedelta = timedelta(minutes=1)) -> CoordinatorReply:
    return consult(command, event(), "web-0", threading.Event(), longest)


def is_alive(pid: str) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_it_is_given_the_event() -> None:
    """As JSON on stdin, in the words of the document."""
    answer = asked(program("import json, sys; print(json.load(sys.stdin)['EventType'])"))

    assert answer == CoordinatorReply(agreed=True, detail="Reboot")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", CoordinatorReply(agreed=True)),
        ("raise SystemExit(1)", CoordinatorReply(agreed=False)),
        ("import sys; sys.exit('web-1 still drains')", CoordinatorReply(agreed=False, detail="web-1 still drains")),
        ("raise SystemExit(7)", CoordinatorReply(agreed=False, detail=f"{sys.executable} ended with exit code 7")),
    ],
)
def test_only_exit_code_0_agrees(text: str, answer: CoordinatorReply) -> None:
    """Its last line is told."""
    assert asked(program(text)) == answer


def test_a_program_that_is_not_there_does_not_agree() -> None:
    """The reason names it."""
    assert asked(["/no/such/program"]) == CoordinatorReply(
        agreed=False, detail="there is no program /no/such/program; give its full path"
    )


def test_a_program_that_takes_too_long_does_not_agree() -> None:
    """It is ended."""
    answer = asked(program("input(); import threading; threading.Event().wait()"), timedelta(seconds=0.5))

    assert not answer.agreed
    assert "took too long" in answer.detail


@pytest.mark.end_to_end
def test_an_agent_that_stops_does_not_wait_for_it(tmp_path: Path) -> None:
    """It is ended with all that it started."""
    stopping = threading.Event()
    pids = tmp_path / "pids"
    answers: list[CoordinatorReply] = []
    script = f"sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    asking = threading.Thread(
        target=lambda: answers.append(consult(["sh", "-c", script], event(), "web-0", stopping))
    )
    asking.start()
    while not pids.exists():
        time.sleep(0.01)
    stopping.set()
    asking.join(30)

    assert answers == [CoordinatorReply(agreed=False, detail="sh was stopped before it had ended")]
    until = time.monotonic() + 30
    for pid in pids.read_text().split():
        while is_alive(pid):  # who was killed ends a moment later
            assert time.monotonic() < until
            time.sleep(0.01)
