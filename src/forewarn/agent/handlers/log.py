"""Handler ``log``: records the start and the end of events in a file, stdout, syslog or journald.

Each call writes one record. A file is opened for each record, so that it can be rotated at any time.
"""

import os
import stat
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import msgspec

from forewarn.agent.handler import (
    Direction,
    HandlerDone,
    HandlerFailed,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Task,
)
from forewarn.agent.handlers.polling import question_timeout
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput, ForewarnError
from forewarn.wire.event_json import EventJson, make_event_json

_OWNER = "handler 'log'"
_LONGEST = 2.0
"""Timeout of a logging service in seconds."""
_SOCKETS = {"syslog": "/dev/log", "journald": "/run/systemd/journal/socket"}
_LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_FACILITIES = {"user": 1, "daemon": 3} | {f"local{number}": 16 + number for number in range(8)}

Level = Literal["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"]
Facility = Literal[
    "user", "daemon", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"
]  # fmt: skip


class LogSettings(msgspec.Struct, frozen=True):
    """Destination and format of the records."""

    to: Literal["file", "stdout", "syslog", "journald"]
    path: str = ""
    """The file, or the socket of syslog or journald if it is not the default."""
    identifier: str = "forewarn-agent"
    """The sender in syslog and journald."""
    level: Level = "notice"
    facility: Facility = "daemon"


class EventLogRecord(msgspec.Struct, frozen=True):
    """One line of a log."""

    time: str
    vm: str
    direction: Direction
    event: EventJson


class LogHandler:
    """Writes a record for each event."""

    prepares = False
    repeats = True
    shared = False

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table(_OWNER, settings, LogSettings)
        if read.to == "file" and not read.path:
            raise BadInput(f"setting 'path' of {_OWNER} is missing; set it to the file for the records")
        if "\0" in read.path or not read.identifier.isprintable() or " " in read.identifier:
            raise BadInput(
                f"setting 'path' or 'identifier' of {_OWNER} has a character that is not allowed; remove it"
            )
        return cls(read)

    def do(self, task: Task) -> HandlerResult:
        return self._write(task)

    def undo(self, task: Task) -> HandlerResult:
        return self._write(task)

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerUnknown("not needed: a record can be written again")

    def close(self) -> None:
        pass

    def _write(self, task: Task) -> HandlerResult:
        settings = self._settings
        record = EventLogRecord(
            datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            task.vm,
            task.direction,
            make_event_json(task.event),
        )
        place = settings.path or _SOCKETS.get(settings.to, settings.to)
        try:
            match settings.to:
                case "file":
                    append(Path(settings.path), msgspec.json.encode(record) + b"\n")
                case "stdout":
                    print(msgspec.json.encode(record).decode(), flush=True)  # noqa: T201 asked for
                case "syslog":
                    priority = _FACILITIES[settings.facility] * 8 + _LEVELS.index(settings.level)
                    send(
                        place, syslog_message(record, priority, settings.identifier), question_timeout(task, _LONGEST)
                    )
                case "journald":
                    fields = journal_fields(record, _LEVELS.index(settings.level), settings.identifier)
                    send(place, journal_message(fields), question_timeout(task, _LONGEST))
        except (OSError, ForewarnError) as error:
            return HandlerFailed(f"{place} cannot be written: {getattr(error, 'strerror', None) or error}")
        return HandlerDone(detail=f"written to {place}")


def append(path: Path, line: bytes) -> None:
    """Append a line durably; start a new line if the last one is incomplete."""
    # A pipe without a reader must not block.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o640)
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        if is_file and _is_cut_off(path):
            line = b"\n" + line
        if os.write(descriptor, line) < len(line):
            raise ForewarnError("there is not enough space for the record")
        if is_file:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_cut_off(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        # An empty file has no last byte.
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
    return False


def send(place: str, message: bytes, seconds: float) -> None:
    """Send a datagram to a logging service of this machine."""
    import socket  # noqa: PLC0415 not needed for files

    if sys.platform == "win32":
        raise ForewarnError('Windows has no Unix sockets; set to = "file"')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(seconds)
        sender.connect(place)
        sender.send(message)


def sentence(record: EventLogRecord) -> str:
    event = record.event
    if record.direction is Direction.UNDO:
        return f"{event.event_type} of {', '.join(event.resources)} is over ({event.event_id})"
    when = f"not before {event.not_before}" if event.not_before else "now"
    said = f": {event.description}" if event.description else ""
    return f"{event.event_type} of {', '.join(event.resources)} {when} ({event.event_id}){said}"


def syslog_message(record: EventLogRecord, priority: int, identifier: str) -> bytes:
    """Return a message in the format of the C library, with the record as JSON, which has no line breaks."""
    now = datetime.now().astimezone()
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[now.month - 1]
    when = f"{month} {now.day:2} {now:%H:%M:%S}"
    return f"<{priority}>{when} {identifier}[{os.getpid()}]: ".encode() + msgspec.json.encode(record)


def journal_fields(record: EventLogRecord, priority: int, identifier: str) -> dict[str, str]:
    event = record.event
    return {
        "MESSAGE": sentence(record),
        "PRIORITY": str(priority),
        "SYSLOG_IDENTIFIER": identifier,
        "SYSLOG_PID": str(os.getpid()),
        "FOREWARN_DIRECTION": record.direction.value,
        "FOREWARN_VM": record.vm,
        "FOREWARN_EVENT_ID": event.event_id,
        "FOREWARN_EVENT_TYPE": event.event_type,
        "FOREWARN_EVENT_STATUS": event.event_status,
        "FOREWARN_EVENT_SOURCE": event.event_source,
        "FOREWARN_NOT_BEFORE": event.not_before,
        "FOREWARN_RESOURCES": " ".join(event.resources),
        "FOREWARN_DESCRIPTION": event.description,
    }


def journal_message(fields: dict[str, str]) -> bytes:
    """Return fields in journald's native protocol; a value with a line break is preceded by its length."""
    message = bytearray()
    for name, value in fields.items():
        raw = value.encode()
        if b"\n" in raw:
            message += name.encode() + b"\n" + len(raw).to_bytes(8, "little") + raw + b"\n"
        else:
            message += name.encode() + b"=" + raw + b"\n"
    return bytes(message)
