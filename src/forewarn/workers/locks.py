"""Who answers VMs for a journal: each worker holds a lock, by which the next leader finds and ends it.

The kernel releases the lock when its process ends, however that happens, and tells the id of the process that holds
it. So no worker of an old leader answers beside those of a new one.
"""

import asyncio
import fcntl
import logging
import os
import signal
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from forewarn.files import PRIVATE

log = logging.getLogger(__name__)

NAME = "workers.lock"
_FLOCK = "hhqqi4x"
"""The kernel's ``struct flock``: type, whence, start, length, process."""
_END = 1 << 40
"""Above the largest id of a process."""
_POLL_INTERVAL = 0.02


def hold(directory: Path) -> int:
    """Take the lock of this process; it is held until the process ends or the returned descriptor is closed."""
    descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, os.getpid())
    return descriptor


def holders(directory: Path) -> list[int]:
    """Return the processes that hold a lock, but for this one."""
    try:
        descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        return list(_holders(descriptor))
    finally:
        os.close(descriptor)


def _holders(descriptor: int) -> Iterator[int]:
    ranges = [(0, _END)]
    while ranges:
        begin, end = ranges.pop()
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, begin, end - begin, 0)
        kind, _, start, length, process = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        if kind != fcntl.F_UNLCK:
            yield process
            # The kernel tells of any lock in the range, not of the first: others may be on either side of it.
            ranges += [each for each in ((begin, start), (start + length, end)) if each[0] < each[1]]


async def end_others(directory: Path, keep: Callable[[int], bool], grace: float = 1.0) -> None:
    """End the processes that hold a lock, but for those to ``keep``; return when they have ended."""
    others = [process for process in holders(directory) if not keep(process)]
    if others:
        log.info("ending workers of an earlier leader", extra={"fields": {"processes": others}})
    loop = asyncio.get_running_loop()
    number, since = signal.SIGTERM, loop.time()
    while others := [process for process in holders(directory) if not keep(process)]:
        for process in others:
            _send(process, number, directory)
        while loop.time() - since < grace and set(others) & set(holders(directory)):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_INTERVAL)  # the kernel tells of no lock that is released
        number, since = signal.SIGKILL, loop.time()


def _send(process: int, number: signal.Signals, directory: Path) -> None:
    """Send a signal, unless the process has ended meanwhile and another one has its id."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        try:
            if process in holders(directory):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
