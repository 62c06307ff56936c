"""What a demo that is over could leave behind: processes, a network, files."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every process that is left alone below us, so that none can end unseen."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury() -> None:
    """Take note of the end of every child that has ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def left(namespace: str, directory: Path) -> Iterator[str]:
    """Yield what is left, in words."""
    for process in _children():
        yield f"process {process}"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    if namespace in (line.split()[0] for line in listed.splitlines() if line.strip()):
        yield f"the network namespace {namespace}"
    if directory.exists():
        yield f"the directory {directory}"


def _children() -> list[int]:
    me = os.getpid()
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of a process, in parentheses, may hold anything.
            parent = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == me:
                found.append(int(path.parent.name))
    return sorted(found)
