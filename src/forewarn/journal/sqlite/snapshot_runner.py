"""Runs the process that folds snapshots, and remembers what it allowed to be deleted."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock as Mutex

import msgspec

from forewarn.journal.port import JournalFailed
from forewarn.journal.sqlite.snapshot_process import KEEP_ALL, SnapshotResult


class SnapshotRunner:
    """Lets one such process run at a time."""

    def __init__(self, directory: Path, history: timedelta) -> None:
        self.released = 0
        """Entries up to this revision may be deleted."""
        self._directory = directory
        self.history = history
        """How long entries are kept."""
        self._process: subprocess.Popen[bytes] | None = None
        self._mutex = Mutex()

    def run(self, *, release: bool = True, now: datetime | None = None) -> None:
        """Fold, and return when it is done; raise JournalFailed where a step of it failed."""
        command = [sys.executable, "-P", "-m", "forewarn.journal.sqlite.snapshot_process"]
        command += [str(self._directory), str(self.history.total_seconds()) if release else KEEP_ALL]
        command += [now.isoformat()] if now else []
        with self._mutex:
            try:
                self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603 - ourselves
            except OSError as error:
                raise JournalFailed(f"{self._directory} gets no snapshot now: {error.strerror}") from error
            with self._process as process:
                answer, complaint = process.communicate()
            self._process = None
        if process.returncode:
            reason = complaint.decode(errors="replace").strip().rpartition("\n")[2] or "it was ended"
            raise JournalFailed(f"the process that takes snapshots of {self._directory} failed: {reason}")
        self.released = msgspec.json.decode(answer, type=SnapshotResult).released

    def stop(self) -> None:
        """End the process if it is running; what it had not finished counts for nothing."""
        if process := self._process:
            process.kill()
