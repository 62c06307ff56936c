"""Processes as /proc shows them: the right ones are found, and never a later one with the same id."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from forewarn.agent.handlers import processes
from forewarn.agent.handlers.processes import Process, ProcessProblem, in_file, named, with_command_line

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def name() -> str:
    """A strange one, and another for each test: several may run at the same time."""
    return f"a (b) {token_hex(4)}"


@pytest.fixture
def sleeper(tmp_path: Path, name: str) -> Iterator["subprocess.Popen[bytes]"]:
    program = tmp_path / name
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "3600"]) as process:
        try:
            # The kernel lets the parent go on a moment before it shows the new command line.
            while name not in Path(f"/proc/{process.pid}/cmdline").read_text():
                time.sleep(0.001)
            yield process
        finally:
            process.kill()


def test_found_by_file_by_name_and_by_words(sleeper: "subprocess.Popen[bytes]", name: str, tmp_path: Path) -> None:
    """Each way leads to the same process; a name may hold anything."""
    file = tmp_path / "pid"
    file.write_text(f"{sleeper.pid}\n")
    (found,) = in_file(file)

    assert found.id == sleeper.pid
    assert named(name) == [found]
    assert with_command_line(f"*/{name} 36*") == [found]
    assert found.is_alive


def test_nobody_there(tmp_path: Path) -> None:
    """No file, a process that is gone, a name that nobody has."""
    file = tmp_path / "pid"
    assert in_file(file) == []
    file.write_text("4194305")
    assert in_file(file) == []
    assert named("no such program") == []
    assert with_command_line("no such words") == []


def test_a_stale_file_leads_to_nobody(sleeper: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    """A process that is younger than the file with its id is another one."""
    file = tmp_path / "pid"
    file.write_text(str(sleeper.pid))
    os.utime(file, (1, 1))

    assert in_file(file) == []


@pytest.mark.parametrize("text", ["", "none", "-1", "\udcff"])
def test_a_file_without_an_id_is_told(tmp_path: Path, text: str) -> None:
    """With its name."""
    file = tmp_path / "pid"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(ProcessProblem, match="contains no process id"):
        in_file(file)


def test_a_later_process_with_the_same_id_is_not_signalled(sleeper: "subprocess.Popen[bytes]") -> None:
    """It began at another time."""
    later = Process(sleeper.pid, "1")

    assert not later.is_alive
    assert not later.send(signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_process_that_ended_is_not_there(sleeper: "subprocess.Popen[bytes]", name: str) -> None:
    """Not even while nobody has asked how it ended."""
    (found,) = named(name)
    assert found.send(signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert not found.is_alive
    assert not found.send(signal.SIGKILL)
    assert named(name) == []


def test_without_proc_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other systems than Linux have none."""
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    for find in (lambda: named("x"), processes.boot_id):
        with pytest.raises(ProcessProblem, match="this machine has no /proc"):
            find()


@pytest.mark.usefixtures("sleeper")
def test_looking_leaves_nothing_open(name: str) -> None:
    """Nor does signalling."""
    (found,) = named(name)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(10):
        found.send(signal.SIGCONT)
        named("x")

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
