"""Progress files of drivers: one append-only file per event with its steps; survives a crash of Forewarn.

    no file, or an empty one      nothing was begun
    begun, and locked             work is in progress
    begun, not locked             a crash interrupted it; the steps say how far it got
    begun, and ended              the result

A line is durable before ``note`` returns, so a step is on disk before it is carried out.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from forewarn.clocks import Clock
from forewarn.drivers import run_record
from forewarn.drivers.run_record import KEPT_FOR
from forewarn.node.driver import Impact, ImpactDone, ImpactFailed, ImpactUnknown

ImpactEnding = ImpactDone | ImpactFailed | ImpactUnknown


class WorkResult(StrEnum):
    """Result of an impact, as stored."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWABLE = "unknowable"


class WorkBegun(msgspec.Struct, frozen=True, tag="begun", tag_field="line"):
    """The impact, written before anything is done."""

    impact: Impact


class WorkStep(msgspec.Struct, frozen=True, tag="step", tag_field="line", omit_defaults=True):
    """A step that is about to be done, or is done, and the state observed at that moment."""

    name: str
    vm: str = ""
    seen: dict[str, str] = {}


class WorkEnded(msgspec.Struct, frozen=True, tag="ended", tag_field="line", omit_defaults=True):
    """The result."""

    result: WorkResult
    detail: str = ""
    hosts: dict[str, str] = {}


class ProgressFile:
    """Content of one event's progress file."""

    def __init__(self, content: bytes = b"", descriptor: int = -1) -> None:
        self.begun: Impact | None = None
        self.steps: list[WorkStep] = []
        self.ending: ImpactEnding | None = None
        self._descriptor = descriptor
        for line in content.splitlines():
            # The last line may be truncated by a crash; the step it was to record was then not done either.
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                self._take(_decode(line))

    def begin(self, impact: Impact) -> None:
        self._write(WorkBegun(impact))

    def note(self, name: str, vm: str = "", **seen: str) -> None:
        self._write(WorkStep(name, vm, seen))

    def end(self, ending: ImpactEnding) -> ImpactEnding:
        match ending:
            case ImpactDone(hosts=hosts, detail=detail):
                self._write(WorkEnded(WorkResult.DONE, detail, hosts))
            case ImpactFailed(reason=reason, hosts=hosts):
                self._write(WorkEnded(WorkResult.FAILED, reason, hosts))
            case ImpactUnknown(reason=reason):
                self._write(WorkEnded(WorkResult.UNKNOWABLE, reason))
        return ending

    def step(self, name: str, vm: str = "") -> WorkStep | None:
        """Return the latest step of that name for that VM."""
        return next((each for each in reversed(self.steps) if (each.name, each.vm) == (name, vm)), None)

    def _write(self, line: WorkBegun | WorkStep | WorkEnded) -> None:
        os.write(self._descriptor, b"\n" + msgspec.json.encode(line))
        os.fsync(self._descriptor)
        self._take(line)

    def _take(self, line: WorkBegun | WorkStep | WorkEnded) -> None:
        match line:
            case WorkBegun(impact=impact):
                self.begun = impact
            case WorkStep():
                self.steps.append(line)
            case WorkEnded(result=WorkResult.DONE):
                self.ending = ImpactDone(line.hosts, line.detail)
            case WorkEnded(result=WorkResult.FAILED):
                self.ending = ImpactFailed(line.detail, line.hosts)
            case WorkEnded():
                self.ending = ImpactUnknown(line.detail)


class ProgressStore:
    """The progress files of all events, in a directory; a temporary one if none is given."""

    def __init__(self, directory: Path | None, clock: Clock, kept: int = run_record.KEPT) -> None:
        """``kept``: how many of the newest files are never deleted."""
        self._lent: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._lent = tempfile.TemporaryDirectory(prefix="forewarn-")
            directory = Path(self._lent.name)
        self.directory = directory.absolute()
        self._clock = clock
        self._retention = run_record.Retention(clock, lambda content: ProgressFile(content).ending is not None, kept)

    @contextmanager
    def held(self, event: str) -> Iterator[ProgressFile]:
        """Lock an event's progress file exclusively; raise RecordLocked if it is locked already."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self._retention.sweep(self.directory)
        descriptor = os.open(self.directory / event, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with run_record.hold_lock(descriptor):
            run_record.make_durable(self.directory)
            yield ProgressFile(run_record.content_of(descriptor), descriptor)

    def read(self, event: str) -> ProgressFile:
        """Read an event's progress file; raise RecordLocked while work is in progress."""
        try:
            descriptor = os.open(self.directory / event, os.O_RDONLY)
        except FileNotFoundError:
            return ProgressFile()
        with run_record.hold_lock(descriptor):
            return ProgressFile(run_record.content_of(descriptor))

    def may_have_forgotten(self, attempted_at: datetime) -> bool:
        """Return whether an event is so old that its progress file may have been deleted."""
        return self._clock.now() - attempted_at >= KEPT_FOR

    def close(self) -> None:
        if self._lent is not None:
            self._lent.cleanup()


_decode = msgspec.json.Decoder(WorkBegun | WorkStep | WorkEnded).decode
