"""Run records of the command driver: one small file per event; survives a crash of Forewarn.

    no file, or an empty one     nothing was begun
    begun, and locked            it is running
    begun, not locked            it was begun; its result was never recorded
    begun, and an end            the result

The lock is taken before anything is written and inherited by the runner, so it lasts as long as the run.
"""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from forewarn.clocks import Clock
from forewarn.drivers import program_runner
from forewarn.drivers.program_runner import CompletedRun

KEPT_FOR = timedelta(days=30)
"""Minimum retention time of a record."""
KEPT = 10_000
"""Number of records that are kept, whatever their age."""
_SWEEP_EVERY = 86_400.0


class RecordLocked(Exception):
    """Another process or thread has locked the record of this event."""


class RunLost(msgspec.Struct, frozen=True):
    """The run was begun; its result was never recorded."""


def read(path: Path) -> CompletedRun | RunLost | None:
    """Return the result of the run, None if none was begun; raise RecordLocked while it runs."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with hold_lock(descriptor):
        return parse(content_of(descriptor))


@contextmanager
def hold_record(path: Path) -> Iterator[tuple[int, CompletedRun | RunLost | None]]:
    """Lock the record of an event, create it if missing; yield its descriptor and content.

    A process that inherits the descriptor keeps the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with hold_lock(descriptor):
        make_durable(path.parent)
        yield descriptor, parse(content_of(descriptor))


def parse(content: bytes) -> CompletedRun | RunLost | None:
    """Parse a record; the last line counts. A truncated result counts as none."""
    if not content:
        return None
    try:
        return msgspec.json.decode(content.rstrip(b"\n").rpartition(b"\n")[2], type=CompletedRun)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return RunLost()


class Retention:
    """Deletes records of events that ended long ago, once a day.

    A wall clock that is far ahead must not delete records still in use: the newest records are always kept, and so is
    every record of an event that has not ended.
    """

    def __init__(self, clock: Clock, has_ended: Callable[[bytes], bool], kept: int = KEPT) -> None:
        self._clock = clock
        self._has_ended = has_ended
        self._kept = kept
        self._swept: float | None = None

    def sweep(self, directory: Path) -> None:
        """Delete old records, unless that was done in the last 24 hours."""
        seconds = self._clock.seconds()
        if self._swept is None or seconds - self._swept > _SWEEP_EVERY:
            self._swept = seconds
            with suppress(OSError):
                self._delete(directory, (self._clock.now() - KEPT_FOR).timestamp())

    def _delete(self, directory: Path, before: float) -> None:
        with os.scandir(directory) as found:
            records = [(each.stat().st_mtime, Path(each.path)) for each in found if each.is_file()]
        for written_at, path in sorted(records, reverse=True)[self._kept :]:
            # An empty record means that nothing was begun, as no record does.
            if written_at < before and (not (content := path.read_bytes()) or self._has_ended(content)):
                path.unlink(missing_ok=True)


@contextmanager
def hold_lock(descriptor: int) -> Iterator[None]:
    """Lock an open file exclusively, and close it afterwards; raise RecordLocked if it is locked already."""
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordLocked from None
        yield
    finally:
        os.close(descriptor)


def content_of(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read()


def make_durable(directory: Path) -> None:
    """Make the file names in a directory durable (fsync)."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def start_runner(
    descriptor: int, argv: list[str], said: msgspec.Struct, timeout: float, grace: float, environment: dict[str, str]
) -> threading.Thread:
    """Start the process that runs a program, pass it the record, and return the thread that waits for it."""
    process = subprocess.Popen(  # noqa: S603 our own file
        [sys.executable, *program_runner.ARGUMENTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env=environment,
        start_new_session=True,
    )
    request = {
        "record": descriptor,
        "argv": argv,
        "said": msgspec.json.encode(said).decode(),
        "timeout": timeout,
        "grace": grace,
    }
    # A daemon thread: it ends with this process, the runner does not.
    waiter = threading.Thread(
        target=process.communicate, args=(msgspec.json.encode(request),), name="runner", daemon=True
    )
    waiter.start()
    return waiter
