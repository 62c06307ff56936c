"""What this machine remembers of an event's run: one small file, which outlives Forewarn.

    no file, or nothing in it    nothing was begun
    begun, and locked            it is running
    begun, not locked            it was begun; its end was never recorded
    begun, and an end            how it ended

The lock is taken before anything is written and handed on to the runner, so that it lasts as long as the run.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from forewarn.drivers.runner import Ended


class Locked(Exception):
    """Another process, or another thread, is busy with this event."""


class Lost(msgspec.Struct, frozen=True):
    """It was begun; its end was never recorded."""


def read(path: Path) -> Ended | Lost | None:
    """Return how the run ended, None when none was begun; raise Locked while it runs."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with locked(descriptor):
        return parse(content_of(descriptor))


@contextmanager
def held(path: Path) -> Iterator[tuple[int, Ended | Lost | None]]:
    """Hold the record of an event, a new one where there is none; yield its descriptor and what it says.

    A process that inherits the descriptor goes on holding the record.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with locked(descriptor):
        make_durable(path.parent)
        yield descriptor, parse(content_of(descriptor))


def parse(content: bytes) -> Ended | Lost | None:
    """Return what a record says; its last line counts. An end that a crash cut off is no end."""
    if not content:
        return None
    try:
        return msgspec.json.decode(content.rstrip(b"\n").rpartition(b"\n")[2], type=Ended)
    except msgspec.DecodeError:
        return Lost()


def forget(directory: Path, before: datetime) -> None:
    """Delete the records that were last written before a time; no run lasts nearly as long."""
    with os.scandir(directory) as records:
        for record in records:
            if record.is_file() and record.stat().st_mtime < before.timestamp():
                Path(record.path).unlink(missing_ok=True)


@contextmanager
def locked(descriptor: int) -> Iterator[None]:
    """Hold an open file against all others, and close it afterwards; raise Locked when somebody holds it."""
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked from None
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
