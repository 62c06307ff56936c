"""Child processes: bounded in time and output, ended with all they started, never held by what stays behind."""

import os
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from forewarn import child_process
from forewarn.child_process import KEPT, ProgramExit, last_line, run

pytestmark = pytest.mark.end_to_end

PATIENCE = 30.0
"""Seconds that a busy machine may take for what takes it none; what hangs here would take twice as long."""


def shell(script: str, seconds: float = 20.0, said: bytes = b"", grace: float = 2.0) -> ProgramExit:
    return run(["sh", "-c", script], seconds, grace, 0.2, said=said)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descriptors_now() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def children_now() -> set[str]:
    """Return the ids of our children, dead ones too."""
    children: set[str] = set()
    for each in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # that thread has just ended
            children.update(each.read_text().split())
    return children


@pytest.fixture(params=["selector", "threads"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves words both as on Unix and as on Windows."""
    if request.param == "threads":
        monkeypatch.setattr(child_process, "_Pipes", child_process._ThreadPipes)


@pytest.mark.usefixtures("_either_way")
def test_it_hears_and_says() -> None:
    """What is said reaches stdin, what the program writes comes back, and so does its exit code."""
    ended = shell("cat; echo sorry >&2; exit 3", said=b"x" * 300_000)

    assert ended.exit == 3
    assert ended.stdout == "x" * KEPT
    assert ended.problem == "ended with exit code 3: sorry"


@pytest.mark.usefixtures("_either_way")
def test_a_program_that_does_not_listen_is_not_waited_for() -> None:
    """Nobody must read stdin."""
    assert shell("exec <&-; echo done", said=b"x" * 1_000_000).stdout == "done\n"


@pytest.mark.usefixtures("_either_way")
def test_what_is_kept_is_bounded() -> None:
    """Of stdout the beginning counts, of stderr the end."""
    ended = shell("echo first; head -c 3000000 /dev/zero; (head -c 3000000 /dev/zero; echo last) >&2; exit 1")

    assert len(ended.stdout) == len(ended.stderr) == KEPT
    assert ended.stdout.startswith("first")
    assert ended.problem.endswith(": last")


def test_words_that_are_no_text_do_no_harm() -> None:
    """What is not UTF-8, or would disturb a terminal, is replaced or dropped."""
    assert shell(r"printf '\377\033[31mred\007\n' >&2; exit 1").problem == "ended with exit code 1: \ufffd[31mred"


def test_a_program_that_takes_too_long_is_asked_to_end_first() -> None:
    """SIGTERM leaves it the grace to tidy up."""
    ended = shell("trap 'echo tidy; exit 0' TERM; while :; do sleep 0.05; done", seconds=2, grace=PATIENCE)

    assert ended.stdout == "tidy\n"
    assert ended.cut_off == "took too long and was stopped"


def test_all_that_it_started_ends_with_it(tmp_path: Path) -> None:
    """Who ignores SIGTERM is killed, and its children too."""
    pids = tmp_path / "pids"
    began = time.monotonic()
    ended = shell(f"trap '' TERM; sleep 60 & echo $$ $! > {pids}; wait; sleep 60", seconds=3, grace=0.2)

    assert ended.exit == -9
    assert time.monotonic() - began < PATIENCE
    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))


def test_what_it_left_behind_does_not_hold_us(tmp_path: Path) -> None:
    """A process that keeps the output open, and writes on, is not waited for."""
    pid = tmp_path / "pid"
    began = time.monotonic()
    left_behind = f"setsid sh -c 'echo $$ > {pid}; while echo more; do sleep 0.1; done'"
    ended = shell(f"{left_behind} & until [ -s {pid} ]; do sleep 0.01; done; echo ready")

    assert ended.exit == 0
    assert "ready" in ended.stdout
    assert time.monotonic() - began < PATIENCE
    wait_until(lambda: not is_alive(int(pid.read_text())))  # its next word finds nobody


def test_it_ends_soon_when_the_caller_stops() -> None:
    """Whatever time was left."""
    stopping = threading.Event()
    threading.Timer(0.2, stopping.set).start()
    began = time.monotonic()
    ended = run(["sleep", "60"], 60, 2, 0.2, is_stopping=stopping.is_set)

    assert ended.problem == "was stopped before it had ended"
    assert time.monotonic() - began < PATIENCE


def test_what_cannot_be_killed_is_left_and_becomes_no_zombie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a program that has become another user's; it is told, and reaped when it ends."""
    monkeypatch.setattr(child_process, "_signal", lambda *_: None)
    began = time.monotonic()
    ended = shell(f"echo $$ > {tmp_path}/pid; while ! [ -e {tmp_path}/end ]; do sleep 0.01; done", seconds=3)
    (tmp_path / "end").touch()

    assert ended.problem == "took too long and was stopped, but cannot be killed"
    assert time.monotonic() - began < PATIENCE
    wait_until(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists())


def test_nothing_stays_open_and_nobody_stays_a_zombie() -> None:
    """A hundred runs leave no descriptor, no thread and no dead child."""
    shell("true")
    descriptors, threads, children = descriptors_now(), threading.active_count(), children_now()
    for _ in range(20):
        shell("echo x; echo y >&2; exit 1")
        shell("sleep 9", seconds=0.3)

    # On a busy machine the killed may end a moment after they were given up, and are reaped by a thread then.
    wait_until(lambda: children_now() <= children)
    wait_until(lambda: threading.active_count() <= threads)
    wait_until(lambda: descriptors_now() <= descriptors)


@pytest.mark.parametrize("argv", [["/no/such"], ["/etc/passwd"], ["a\0b"]])
def test_what_cannot_be_started_is_raised(argv: list[str]) -> None:
    """Each caller says it in its own words."""
    with pytest.raises((OSError, ValueError)):
        run(argv, 1, 1, 1)


def test_a_program_that_talks_without_end_fills_no_memory() -> None:
    """What is not kept is dropped while it comes, not at the end."""
    tracemalloc.start()
    try:
        shell("yes | head -c 20000000; yes | head -c 20000000 >&2")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2_000_000


def test_what_it_left_behind_is_not_killed() -> None:
    """A program may leave a machine running that holds its output open; it has ended all the same."""
    child = int(shell("sleep 60 & echo $!").stdout)
    try:
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_closed_output_is_not_the_end() -> None:
    """A program that closes its output and works on is waited for."""
    assert shell("exec >&- 2>&-; sleep 0.2; exit 3").exit == 3


def test_the_program_has_a_session_of_its_own() -> None:
    """A key pressed in our terminal does not reach the program."""
    script = "import os; print(os.getsid(0) == os.getpid())"

    assert run([sys.executable, "-I", "-S", "-c", script], 20, 5, 1).stdout == "True\n"


def test_a_signal_is_told_below_zero() -> None:
    """A program killed by a signal did not exit, and the signal is told."""
    ended = shell("kill -9 $$")

    assert (ended.exit, ended.problem) == (-signal.SIGKILL, "was killed by signal 9")


def test_the_last_line_says_something() -> None:
    """Empty lines at the end are passed over, and a long line is cut."""
    assert last_line("first\nlast\n \n\n") == "last"
    assert len(last_line("x" * 9999)) == 500
    assert last_line("\n") == ""
