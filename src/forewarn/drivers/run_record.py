"""What this machine remembers of an event's run: one small file, which outlives Forewarn.

    no file, or nothing in it    nothing was begun
    begun, and locked            it is running
    begun, not locked            it was begun; its end was never recorded
    begun, and an end            how it ended

The lock is taken before anything is written and handed on to the runner, so that it lasts as long as the run.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from forewarn.clocks import Clock
from forewarn.drivers.program_runner import CompletedRun

KEPT_FOR = timedelta(days=30)
"""How long the record of an event is kept at least."""
KEPT = 10_000
"""How many records are kept, however old they are."""
_SWEEP_EVERY = 86_400.0


class RecordLocked(Exception):
    """Another process, or another thread, is busy with this event."""


class RunLost(msgspec.Struct, frozen=True):
    """It was begun; its end was never recorded."""


def read(path: Path) -> CompletedRun | RunLost | None:
    """Return how the run ended, None when none was begun; raise Locked while it runs."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with hold_lock(descriptor):
        return parse(content_of(descriptor))


@contextmanager
def hold_record(path: Path) -> Iterator[tuple[int, CompletedRun | RunLost | None]]:
    """Hold the record of an event, a new one where there is none; yield its descriptor and what it says.

    A process that inherits the descriptor goes on holding the record.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with hold_lock(descriptor):
        make_durable(path.parent)
        yield descriptor, parse(content_of(descriptor))


def parse(content: bytes) -> CompletedRun | RunLost | None:
    """Return what a record says; its last line counts. An end that a crash cut off is no end."""
    if not content:
        return None
    try:
        return msgspec.json.decode(content.rstrip(b"\n").rpartition(b"\n")[2], type=CompletedRun)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return RunLost()


class Retention:
    """Deletes the records of events that ended long ago, once a day.

    A wall clock that is far ahead must not delete what is still asked for: whatever the clock shows, the newest
    records stay, and so does every record of an event that has not ended.
    """

    def __init__(self, clock: Clock, has_ended: Callable[[bytes], bool], kept: int = KEPT) -> None:
        self._clock = clock
        self._has_ended = has_ended
        self._kept = kept
        self._swept: float | None = None

    def sweep(self, directory: Path) -> None:
        """Delete what may go, unless that was done today."""
        seconds = self._clock.seconds()
        if self._swept is None or seconds - self._swept > _SWEEP_EVERY:
            self._swept = seconds
            with suppress(OSError):
                self._delete(directory, (self._clock.now() - KEPT_FOR).timestamp())

    def _delete(self, directory: Path, before: float) -> None:
        with os.scandir(directory) as found:
            records = [(each.stat().st_mtime, Path(each.path)) for each in found if each.is_file()]
        for written_at, path in sorted(records, reverse=True)[self._kept :]:
            # Where nothing is written, nothing was begun: no record says the same.
            if written_at < before and (not (content := path.read_bytes()) or self._has_ended(content)):
                path.unlink(missing_ok=True)


@contextmanager
def hold_lock(descriptor: int) -> Iterator[None]:
    """Hold an open file against all others, and close it afterwards; raise Locked when somebody holds it."""
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordLocked from None
        yield
    finally:
        os.close(descriptor)


def content_of(descriptor: int) -> bytes:
    """Return all that stands in an open file."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read()


def make_durable(directory: Path) -> None:
    """Let the names of a directory's files survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
