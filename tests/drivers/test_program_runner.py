"""Running an operator's program: whatever it does, we come back, in time and with little memory."""

import os
import signal
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from forewarn.drivers.program_runner import KEPT, CompletedRun, run


def python(script: str, *, said: bytes = b"", timeout: float = 20.0, grace: float = 5.0) -> CompletedRun:
    return run([sys.executable, "-I", "-S", "-c", script], said, timeout, grace)


def shell(script: str, *, timeout: float = 20.0, grace: float = 5.0) -> CompletedRun:
    return run(["/bin/sh", "-c", script], b"", timeout, grace)


def test_exit_code_and_words_come_back() -> None:
    """A run that ends by itself is told with its exit code, stdout and stderr."""
    assert shell("echo out; echo err >&2; exit 7") == CompletedRun(exit=7, stdout="out\n", stderr="err\n")


def test_what_is_said_reaches_stdin_whole() -> None:
    """More than a pipe holds can be said while the program talks back."""
    ended = python("import sys; print(len(sys.stdin.buffer.read()))", said=b"x" * 1_000_000)

    assert ended == CompletedRun(stdout="1000000\n")


def test_stdin_that_is_not_read_hangs_nobody() -> None:
    """A program that ends without reading its stdin is no problem."""
    assert python("pass", said=b"x" * 1_000_000) == CompletedRun()


def test_only_the_beginning_of_stdout_and_the_end_of_stderr_are_kept() -> None:
    """The answer comes first, the reason of a failure last."""
    ended = python(
        "import sys\nsys.stdout.write('first ' + 'x' * 5_000_000)\nsys.stderr.write('y' * 5_000_000 + ' last')"
    )

    assert ended.stdout.startswith("first ")
    assert ended.stderr.endswith(" last")
    assert (len(ended.stdout), len(ended.stderr)) == (KEPT, KEPT)


def test_a_program_that_talks_without_end_fills_no_memory() -> None:
    """What is not kept is dropped while it comes, not at the end."""
    tracemalloc.start()
    try:
        shell("yes | head -c 20000000; yes | head -c 20000000 >&2")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000


def test_words_that_are_not_utf_8_are_tolerated() -> None:
    """Bytes that are no text become replacement characters."""
    assert shell(r"printf 'a\377b'").stdout == "a�b"


def test_a_signal_is_told_below_zero() -> None:
    """A program killed by a signal did not exit, and the signal is told."""
    assert shell("kill -9 $$").exit == -signal.SIGKILL


def test_a_program_that_takes_too_long_is_stopped() -> None:
    """When the time is over the program is asked to stop."""
    ended = shell("sleep 60", timeout=0.1)

    assert (ended.timed_out, ended.exit) == (True, -signal.SIGTERM)


@pytest.mark.end_to_end
def test_a_program_that_does_not_stop_is_killed() -> None:
    """Who ignores the request to stop is killed after the grace."""
    ended = shell("trap '' TERM; while :; do sleep 1; done", timeout=4.0, grace=0.1)

    assert (ended.timed_out, ended.exit) == (True, -signal.SIGKILL)


@pytest.mark.end_to_end
def test_the_whole_group_is_stopped(tmp_path: Path) -> None:
    """What the program started goes down with it when it takes too long, even if it ignores the request."""
    pid_file = tmp_path / "pid"
    stubborn = f'trap "" TERM; echo $$ > {pid_file}; exec sleep 60'
    shell(f"sh -c '{stubborn}' & sleep 60", timeout=4.0, grace=0.1)

    assert is_gone(int(pid_file.read_text()))


def is_gone(pid: int) -> bool:
    """Look until the process is gone; the kernel takes a moment to clear away what was killed."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
    return False


def test_a_process_left_behind_is_neither_waited_for_nor_killed() -> None:
    """A program may leave a machine running that holds its output open; it has ended all the same."""
    begun = time.monotonic()
    ended = shell("sleep 60 & echo $!")
    child = int(ended.stdout)

    try:
        assert time.monotonic() - begun < 20
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_closed_output_is_not_the_end() -> None:
    """A program that closes its output and works on is waited for."""
    assert shell("exec >&- 2>&-; sleep 0.2; exit 3").exit == 3


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/"], ["a\0b"]])
def test_what_cannot_be_started_is_a_sentence(argv: list[str]) -> None:
    """A program that is missing, or none at all, is told and not raised."""
    assert run(argv, b"", 1, 1).problem.startswith("the program could not be started: ")


def test_the_program_has_a_session_of_its_own() -> None:
    """A key pressed in Forewarn's terminal does not reach the program."""
    assert python("import os; print(os.getsid(0) == os.getpid())").stdout == "True\n"
