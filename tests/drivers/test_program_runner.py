"""Running an operator's program: how its end is told and recorded; tests/test_child_process.py has the rest."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn import child_process
from forewarn.drivers.program_runner import ARGUMENTS, CompletedRun, run


def shell(script: str, *, timeout: float = 20.0, grace: float = 5.0) -> CompletedRun:
    return run(["/bin/sh", "-c", script], b"", timeout, grace)


def test_exit_code_and_words_come_back() -> None:
    """A run that ends by itself is told with its exit code, stdout and stderr."""
    assert shell("echo out; echo err >&2; exit 7") == CompletedRun(exit=7, stdout="out\n", stderr="err\n")


def test_a_program_that_takes_too_long_is_stopped() -> None:
    """When the time is over the program is asked to stop."""
    ended = shell("sleep 60", timeout=0.1)

    assert (ended.timed_out, ended.exit) == (True, -signal.SIGTERM)


@pytest.mark.end_to_end
def test_a_program_that_does_not_stop_is_killed() -> None:
    """Who ignores the request to stop is killed after the grace."""
    ended = shell("trap '' TERM; while :; do sleep 1; done", timeout=4.0, grace=0.1)

    assert (ended.timed_out, ended.exit) == (True, -signal.SIGKILL)


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/"], ["a\0b"]])
def test_what_cannot_be_started_is_a_sentence(argv: list[str]) -> None:
    """A program that is missing, or none at all, is told and not raised."""
    assert run(argv, b"", 1, 1).problem.startswith("the program could not be started: ")


@pytest.mark.end_to_end
def test_what_cannot_be_killed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a sentence of its own, and without an exit code."""
    monkeypatch.setattr(child_process, "_signal", lambda *_: None)
    ended = shell(f"echo begun; while ! [ -e {tmp_path}/end ]; do sleep 0.01; done", timeout=1.0, grace=0.1)
    (tmp_path / "end").touch()

    assert ended == CompletedRun(0, timed_out=True, problem="took too long and cannot be killed", stdout="begun\n")


@pytest.mark.end_to_end
def test_the_process_records_beginning_and_end(tmp_path: Path) -> None:
    """In the form that later versions read: a line when it begins, and the end as a JSON array."""
    record = os.open(tmp_path / "record", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    argv = ["/bin/sh", "-c", "cat; echo err >&2; exit 7"]
    asked = {"record": record, "argv": argv, "said": "out", "timeout": 60, "grace": 1}
    try:
        subprocess.run([sys.executable, *ARGUMENTS], input=json.dumps(asked).encode(), pass_fds=(record,), check=True)
    finally:
        os.close(record)

    assert (tmp_path / "record").read_bytes() == b'begun\n[7, false, "", "out", "err\\n"]\n'
