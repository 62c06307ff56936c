"""What a driver that works itself remembers of each event: one file, a line for each step, which outlives Forewarn.

    no file, or nothing in it     nothing was begun
    begun, and held               somebody works on it
    begun, and held by nobody     a crash cut it off; the steps say how far it came
    begun, and ended              how it ended

A line is durable before ``note`` returns, so that what is about to be done is written down before it is done.
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
    """How an impact ended, as it is written down."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWABLE = "unknowable"


class WorkBegun(msgspec.Struct, frozen=True, tag="begun", tag_field="line"):
    """What was asked for, before anything is done."""

    impact: Impact


class WorkStep(msgspec.Struct, frozen=True, tag="step", tag_field="line", omit_defaults=True):
    """Something that is about to be done, or is done, and what was seen at that moment."""

    name: str
    vm: str = ""
    seen: dict[str, str] = {}


class WorkEnded(msgspec.Struct, frozen=True, tag="ended", tag_field="line", omit_defaults=True):
    """How it ended."""

    result: WorkResult
    detail: str = ""
    hosts: dict[str, str] = {}


class ProgressFile:
    """What is written of one event."""

    def __init__(self, content: bytes = b"", descriptor: int = -1) -> None:
        self.begun: Impact | None = None
        self.steps: list[WorkStep] = []
        self.ending: ImpactEnding | None = None
        self._descriptor = descriptor
        for line in content.splitlines():
            # The last line may have been cut off; what it was to say before was then not done either.
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
    """The pages of all events, in a directory; for the life of the driver where it is given none."""

    def __init__(self, directory: Path | None, clock: Clock) -> None:
        self._lent: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._lent = tempfile.TemporaryDirectory(prefix="forewarn-")
            directory = Path(self._lent.name)
        self.directory = directory.absolute()
        self._clock = clock
        self._retention = run_record.Retention(clock, lambda content: ProgressFile(content).ending is not None)

    @contextmanager
    def held(self, event: str) -> Iterator[ProgressFile]:
        """Hold an event's page against all others; raise Locked while somebody else does."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self._retention.sweep(self.directory)
        descriptor = os.open(self.directory / event, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with run_record.hold_lock(descriptor):
            run_record.make_durable(self.directory)
            yield ProgressFile(run_record.content_of(descriptor), descriptor)

    def read(self, event: str) -> ProgressFile:
        """Return what is written of an event; raise Locked while somebody works on it."""
        try:
            descriptor = os.open(self.directory / event, os.O_RDONLY)
        except FileNotFoundError:
            return ProgressFile()
        with run_record.hold_lock(descriptor):
            return ProgressFile(run_record.content_of(descriptor))

    def may_have_forgotten(self, attempted_at: datetime) -> bool:
        """Tell whether an event is so old that no page means nothing."""
        return self._clock.now() - attempted_at >= KEPT_FOR

    def close(self) -> None:
        if self._lent is not None:
            self._lent.cleanup()


_decode = msgspec.json.Decoder(WorkBegun | WorkStep | WorkEnded).decode
