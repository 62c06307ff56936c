"""Forked processes: each has a time limit, no output and a temporary directory of its own, which is removed."""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

MOST_MEMORY = 4 * 2**30
_PR_SET_PDEATHSIG = 1
Send = Callable[[str], None]


def run_forked(work: Callable[[], str], limit: float) -> str | None:
    """Return what the work returned in a process of its own; None where it took longer than ``limit`` seconds.

    Work that ended its process returned the empty string.
    """
    try:
        return "\n".join(stream_forked(lambda send: send(work()), limit))
    except TimeoutError:
        return None


def stream_forked(work: Callable[[Send], None], limit: float) -> Iterator[str]:
    """Yield the lines that the work sends from a process of its own; raise TimeoutError after ``limit`` seconds."""
    directory = tempfile.mkdtemp(prefix="fm-")  # short: a fork of a fork has Unix sockets in it, too
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(reader)
        _be_child(work, directory, writer)
    os.close(writer)
    try:
        yield from _lines(reader, time.monotonic() + limit)
    finally:
        os.close(reader)
        _kill(child)
        os.waitpid(child, 0)
        shutil.rmtree(directory, ignore_errors=True)


def _be_child(work: Callable[[Send], None], directory: str, writer: int) -> None:
    try:
        os.setsid()
        _die_with_parent()
        nothing = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nothing, each)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        os.environ["TMPDIR"] = tempfile.tempdir = directory
        with open(writer, "w", encoding="utf-8", buffering=1) as file:
            work(lambda text: print(text, file=file, flush=True))
    finally:
        os._exit(0)


def _die_with_parent() -> None:
    """Have the kernel end this process when its parent ends, where the kernel is Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _lines(reader: int, until: float) -> Iterator[str]:
    text = b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(reader, 65_536)
        if not part:
            return
        *lines, text = (text + part).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def _kill(child: int) -> None:
    """End the process and all that it started; it may not have made its process group yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
