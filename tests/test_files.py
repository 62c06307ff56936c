"""Files that must be right: written whole or not at all, and locked by one holder at a time."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.files import FileLock, InUse, private_directory, restrict_files, sync_directory, write_atomically


def test_the_holder_is_named(tmp_path: Path) -> None:
    """Who comes second learns the holder's process id and what to do."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
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
        FileLock(tmp_path / "missing" / "lock").acquire()


@pytest.mark.end_to_end
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    """A kill -9 leaves no lock behind."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from forewarn.files import FileLock\n"
        "lock = FileLock(Path(sys.argv[1])); lock.acquire(); print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InUse, match=f"id {holder.pid}:"):
            FileLock(tmp_path / "lock").acquire()
        holder.send_signal(signal.SIGKILL)

    lock = FileLock(tmp_path / "lock")
    lock.acquire()
    lock.release()


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """What fails half-way leaves nothing behind."""
    with write_atomically(tmp_path / "whole") as file:
        file.write(b"all of it")
    with pytest.raises(ValueError, match="closed file"), write_atomically(tmp_path / "half") as file:
        file.close()
    sync_directory(tmp_path)

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("whole", b"all of it")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also where a loose file stood in its place; only what is meant for others is open to them."""
    path = tmp_path / "kept"
    path.write_text("loose")
    path.chmod(0o644)

    with write_atomically(path):
        pass
    FileLock(tmp_path / "lock").acquire()
    with write_atomically(tmp_path / "fleet.toml", 0o644):
        pass

    assert (mode(path), mode(tmp_path / "lock"), mode(tmp_path / "fleet.toml")) == (0o600, 0o600, 0o644)


def test_rights_are_taken_away_and_never_given(tmp_path: Path) -> None:
    """Existing files and directories lose what others may; links, and what is shared by design, are left alone."""
    directory = tmp_path / "data"
    private_directory(directory)
    assert mode(directory) == 0o700
    directory.chmod(0o755)
    private_directory(directory)
    assert mode(directory) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    private_directory(shared)
    assert mode(shared) == 0o1777
    loose, strict, elsewhere, link = (directory / name for name in ("loose", "strict", "elsewhere", "link"))
    for path, given in ((loose, 0o664), (strict, 0o400), (elsewhere, 0o644)):
        path.touch()
        path.chmod(given)
    link.symlink_to(elsewhere)

    restrict_files([loose, strict, link, directory / "missing"])

    assert [mode(path) for path in (loose, strict, elsewhere)] == [0o600, 0o400, 0o644]


def test_a_directory_is_made_with_those_above_it_only_where_asked_for(tmp_path: Path) -> None:
    """A path that is mistyped is not made."""
    private_directory(tmp_path / "a" / "b", parents=True)

    assert (tmp_path / "a" / "b").is_dir()
    with pytest.raises(FileNotFoundError):
        private_directory(tmp_path / "c" / "d")
