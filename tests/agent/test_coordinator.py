"""The command that decides for several VMs."""

import sys

import pytest

from forewarn.agent import coordinator
from forewarn.agent.coordinator import Answer, consult
from tests.agent.world import event


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_it_is_given_the_event() -> None:
    """As JSON on stdin, in the words of the document."""
    answer = consult(program("import json, sys; print(json.load(sys.stdin)['EventType'])"), event())

    assert answer == Answer(agreed=True, detail="Reboot")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", Answer(agreed=True)),
        ("raise SystemExit(1)", Answer(agreed=False)),
        ("import sys; sys.exit('web-1 still drains')", Answer(agreed=False, detail="web-1 still drains")),
        ("raise SystemExit(7)", Answer(agreed=False, detail="exit code 7")),
    ],
)
def test_only_exit_code_0_agrees(text: str, answer: Answer) -> None:
    """Its last line is told."""
    assert consult(program(text), event()) == answer


def test_a_program_that_is_not_there_does_not_agree() -> None:
    """The reason names it."""
    assert consult(["/no/such/program"], event()) == Answer(
        agreed=False, detail="/no/such/program could not be run: No such file or directory"
    )


def test_a_program_that_takes_too_long_does_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended."""
    monkeypatch.setattr(coordinator, "_LONGEST", 0.05)
    answer = consult(program("input(); import threading; threading.Event().wait()"), event())

    assert not answer.agreed
    assert "took longer" in answer.detail
