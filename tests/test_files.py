"""Files that must be right: written whole or not at all, and locked by one holder at a time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.files import InUse, Lock, sync_directory, written


def test_the_holder_is_named(tmp_path: Path) -> None:
    """Who comes second learns the holder's process id and what to do."""
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    first.acquire()

    with pytest.raises(InUse) as refused:
        second.acquire()

    assert str(refused.value).startswith(f"{tmp_path} is in use by the process with id {os.getpid()}: stop")
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_a_place_that_cannot_hold_a_lock_is_refused(tmp_path: Path) -> None:
    """A missing directory is named."""
    with pytest.raises(FileNotFoundError):
        Lock(tmp_path / "missing" / "lock").acquire()


@pytest.mark.end_to_end
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    """A kill -9 leaves no lock behind."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from forewarn.files import Lock\n"
        "lock = Lock(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InUse, match=f"id {holder.pid}:"):
            Lock(tmp_path / "lock").acquire()
        holder.send_signal(signal.SIGKILL)

    lock = Lock(tmp_path / "lock")
    lock.acquire()
    lock.release()


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """What fails half-way leaves nothing behind."""
    with written(tmp_path / "whole") as file:
        file.write(b"all of it")
    with pytest.raises(ValueError, match="closed file"), written(tmp_path / "half") as file:
        file.close()
    sync_directory(tmp_path)

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("whole", b"all of it")]
