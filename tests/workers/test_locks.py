"""The locks by which a new leader finds the workers of an old one."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.workers import locks

HOLD = """
import signal, sys
from pathlib import Path
from forewarn.workers import locks
if sys.argv[2] == "late":
    print("started", flush=True)
    sys.stdin.readline()
locks.hold(Path(sys.argv[1]))
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("held", flush=True)
signal.pause()
"""


@contextmanager
def holder(directory: Path, how: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", HOLD, str(directory), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == (b"started\n" if how == "late" else b"held\n")
            yield process
        finally:
            process.kill()


def test_nobody_holds_a_lock_that_was_never_taken(tmp_path: Path) -> None:
    """A directory without the file is one without workers; looking makes none."""
    assert locks.holders(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.end_to_end
def test_every_holder_is_found_until_it_ends(tmp_path: Path) -> None:
    """The kernel tells who holds a lock, and forgets it however the process ends."""
    with holder(tmp_path, "late") as late, holder(tmp_path) as first, holder(tmp_path) as second:
        assert sorted(locks.holders(tmp_path)) == sorted((first.pid, second.pid))
        # Whichever of them locked last: the kernel tells of locks in the order in which they were taken.
        assert late.stdin is not None
        assert late.stdout is not None
        late.stdin.write(b"\n")
        late.stdin.flush()
        assert late.stdout.readline() == b"held\n"
        assert sorted(locks.holders(tmp_path)) == sorted((late.pid, first.pid, second.pid))
        for process in (first, second, late):
            process.kill()
            process.wait()
        assert locks.holders(tmp_path) == []


@pytest.mark.end_to_end
def test_others_are_asked_to_end_and_then_killed(tmp_path: Path) -> None:
    """Those to keep are left alone, also where they were asked to end before; who does not heed is killed."""
    with holder(tmp_path) as kept, holder(tmp_path) as polite, holder(tmp_path, "deaf") as deaf:
        os.kill(deaf.pid, 0)
        files = len(list(Path("/proc/self/fd").iterdir()))
        asyncio.run(locks.end_others(tmp_path, lambda pid: pid == kept.pid, grace=0.2))
        assert len(list(Path("/proc/self/fd").iterdir())) == files
        assert locks.holders(tmp_path) == [kept.pid]
        assert (polite.wait(), deaf.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
        assert kept.poll() is None
