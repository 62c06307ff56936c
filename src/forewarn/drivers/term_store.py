"""The highest term seen on a host, in a file that the drivers of all nodes on that host share.

    held(5) ──▶ stored: 3 ──▶ 5 is stored, synced ──▶ the holder begins ──▶ released
    held(3) ──▶ stored: 5 ──▶ TermRefused

The file stays locked while an impact begins, so no call of a lower term begins anything after a higher one.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

from forewarn.core.errors import ForewarnError
from forewarn.drivers import run_record
from forewarn.drivers.run_record import RecordLocked

_LOCK_ATTEMPTS = 100
_POLL_EVERY = 0.02


class TermRefused(ForewarnError):
    """A later leader was here."""


class TermStore:
    """The highest term, and a lock for each VM that is being switched."""

    def __init__(self, directory: Path, lock_attempts: int = _LOCK_ATTEMPTS) -> None:
        self._directory = directory
        self._lock_attempts = lock_attempts

    @contextmanager
    def held(self, term: int) -> Iterator[None]:
        """Store a term and hold the lock; raise TermRefused if a higher one is stored, RecordLocked if it is busy."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        path = self._directory / "term"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _lock(descriptor, self._lock_attempts)
            # A line that a crash truncated is the beginning of a number, and so not above it.
            highest = max(map(int, run_record.content_of(descriptor).split()), default=0)
            if term < highest:
                raise TermRefused(
                    f"a leader of term {highest} was here, and this call is of term {term}; after a restore of the"
                    f" journal, delete {path}"
                )
            if term > highest:
                os.write(descriptor, b"\n%d" % term)
                os.fsync(descriptor)
                run_record.make_durable(self._directory)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def switching(self, vm: str, term: int) -> Iterator[None]:
        """Hold the lock of one VM for as long as it is switched, by a leader that was not replaced."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._directory / f"switch-{vm}", os.O_RDWR | os.O_CREAT, 0o600)
        with run_record.hold_lock(descriptor):
            with self.held(term):
                pass
            yield


def _lock(descriptor: int, attempts: int) -> None:
    """Lock a file that others hold for moments only; raise RecordLocked if one of them does not go on."""
    for _ in range(attempts):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(_POLL_EVERY)
    raise RecordLocked
