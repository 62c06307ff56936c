"""Runs the process beside the server that takes snapshots, and answers there what that asks of it.

    python -m MODULE ARGUMENTS KEEP [NOW]

It releases entries that are older than KEEP seconds of history; ``all`` keeps all of them.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock as Mutex

import msgspec

from forewarn.core.errors import ForewarnError
from forewarn.journal.port import JournalFailed

DEFAULT_HISTORY = timedelta(days=400)
SNAPSHOT_ENTRIES = 50_000
SNAPSHOT_BYTES = 64 * 1024 * 1024
"""A snapshot is taken after so many new entries, or so many bytes of them."""
_KEEP_ALL = "all"


class SnapshotResult(msgspec.Struct, frozen=True):
    """What the process has done."""

    revision: int
    """The revision of the newest snapshot."""
    released: int
    """Entries up to this revision may be deleted; 0 when none may."""


class SnapshotRunner:
    """Runs the process, one at a time, and remembers what it allowed to be deleted."""

    def __init__(
        self, module: str, place: Path | str, history: timedelta, arguments: Sequence[str] = (), secret: str = ""
    ) -> None:
        """``secret`` is written to the process's standard input: others can read its arguments."""
        self.released = 0
        """Entries up to this revision may be deleted."""
        self.history = history
        """How long entries are kept."""
        self._place = place
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._secret = secret
        self._process: subprocess.Popen[bytes] | None = None
        self._mutex = Mutex()

    def run(self, *, release: bool = True, now: datetime | None = None) -> None:
        """Fold, and return when it is done; raise JournalFailed where a step of it failed."""
        command = [*self._command, str(self.history.total_seconds()) if release else _KEEP_ALL]
        command += [now.isoformat()] if now else []
        pipe = subprocess.PIPE
        with self._mutex:
            try:
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 - ourselves
            except OSError as error:
                raise JournalFailed(f"{self._place} gets no snapshot now: {error.strerror}") from error
            with self._process as process:
                answer, complaint = process.communicate(self._secret.encode())
            self._process = None
        if process.returncode:
            reason = complaint.decode(errors="replace").strip().rpartition("\n")[2] or "it was ended"
            raise JournalFailed(f"the process that takes snapshots of {self._place} failed: {reason}")
        self.released = msgspec.json.decode(answer, type=SnapshotResult).released

    def stop(self) -> None:
        """End the process if it is running; what it had not finished counts for nothing."""
        if process := self._process:
            process.kill()


def run_snapshot_process(
    take_snapshot: Callable[[timedelta | None, datetime | None], SnapshotResult], arguments: Sequence[str]
) -> int:
    """Be that process, at the lowest priority: take a snapshot, print the result, and return the exit code."""
    if hasattr(os, "nice"):
        os.nice(19)
    keep, *now = arguments
    try:
        history = None if keep == _KEEP_ALL else timedelta(seconds=float(keep))
        result = take_snapshot(history, datetime.fromisoformat(now[0]) if now else None)
    except ForewarnError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    return 0
