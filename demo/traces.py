"""What a demo that is over could leave behind: processes, a network, files."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from demo.site import Site

PREFIX = "forewarn-demo-"
"""How the names of our directories begin; the number of our process follows."""
_PR_SET_CHILD_SUBREAPER = 36
_MOMENT = 5.0
"""Seconds in which what an interrupted program had started ends by itself, and again after it was killed."""


def adopt_orphans() -> None:
    """Become the parent of every process that is left alone below us, so that none can end unseen."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def bury(moment: float = _MOMENT) -> None:
    """Take note of the end of every child, adopted ones included; one that does not end in a moment is killed."""
    with suppress(ChildProcessError):
        _wait_for_children(moment)
        for process in _children():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        _wait_for_children(moment)


def _wait_for_children(seconds: float) -> None:
    """Raise ChildProcessError as soon as there is none."""
    until = monotonic() + seconds
    while os.waitpid(-1, os.WNOHANG)[0] or monotonic() < until:
        sleep(0.01)


def sweep() -> None:
    """Take away what demos left that were killed before they could: no process of theirs does it any more."""
    for name in _namespaces():
        if (found := re.fullmatch(r"forewarn-(\d+)-\w+", name)) and _is_dead(found[1]):
            Site(Path(), name).close()
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (found := re.fullmatch(rf"{PREFIX}(\d+)-\w+", directory.name)) and _is_dead(found[1]):
            shutil.rmtree(directory, ignore_errors=True)


def make_directory() -> Path:
    """Return a directory that tells whose it is."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def _is_dead(process: str) -> bool:
    """Return whether there is no such process; where none can be seen, nobody is dead."""
    return Path("/proc/self").is_dir() and not Path("/proc", process).is_dir()


def left(namespace: str, directory: Path) -> Iterator[str]:
    """Yield what is left, in words."""
    for process in _children():
        yield f"process {process}"
    if namespace in _namespaces():
        yield f"the network namespace {namespace}"
    if directory.exists():
        yield f"the directory {directory}"


def _namespaces() -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    return [line.split()[0] for line in listed.splitlines() if line.strip()]


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
