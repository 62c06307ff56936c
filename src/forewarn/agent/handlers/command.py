"""Handler ``command``: runs configured programs for do, undo and outcome.

    exit code     0       1         3           any other
    do, undo      done    failed    failed      failed
    outcome       done    failed    not begun   unknown

The last line of stderr is the reason. If do writes a JSON object to stdout, undo gets it in its environment.
"""

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Self

import msgspec

from forewarn.agent.handler import (
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Task,
)
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from forewarn.child_process import LONGEST, ProgramExit, last_line
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.redaction import scrubbed, secrets_among
from forewarn.wire.event_json import make_event_json

_OWNER = "handler 'command'"
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_VALUE = 30_000
"""Characters of one variable; Linux starts no program with a variable of more than 128 KiB."""
_MOST_KEPT = 16 * 1024
"""Largest JSON object that is stored for undo, in bytes."""

Words = Annotated[list[str], msgspec.Meta(min_length=1)]


class CommandHandlerSettings(msgspec.Struct, frozen=True):
    """The programs, and how they are run."""

    do: Words
    undo: list[str] = []
    outcome: list[str] = []
    """Reports the outcome of an interrupted call; with it, do and undo are not repeated without asking."""
    repeats: bool | None = None
    """Whether do and undo may be called again after a crash; by default only without ``outcome``."""
    shared: bool = False
    directory: str = ""
    environment: dict[str, str] = {}
    grace: timedelta = timedelta(seconds=2)


class CommandHandler:
    """Runs programs to prepare and to restore."""

    def __init__(self, settings: CommandHandlerSettings) -> None:
        self.repeats = not settings.outcome if settings.repeats is None else settings.repeats
        self.shared = settings.shared
        self._settings = settings

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table(_OWNER, settings, CommandHandlerSettings)
        for name in ("do", "undo", "outcome"):
            words: list[str] = getattr(read, name)
            if words and (not words[0] or "\0" in "".join(words)):
                raise BadInput(f"setting {name!r} of {_OWNER}: give the path of a program first, then its arguments")
        for name, value in read.environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise BadInput(
                    f"setting 'environment' of {_OWNER}: {name!r} cannot be set;"
                    " a name must not be empty or contain '=', and neither name nor value may contain NUL"
                )
        if read.outcome and read.repeats:
            raise BadInput(
                f"setting 'repeats' of {_OWNER}: with repeats = true, 'outcome' is never called; remove one of them"
            )
        return cls(read)

    def do(self, task: Task) -> HandlerResult:
        return self._result(self._settings.do, task)

    def undo(self, task: Task) -> HandlerResult:
        return self._result(self._settings.undo, task) if self._settings.undo else HandlerDone()

    def outcome_of(self, task: Task) -> HandlerOutcome:
        if not self._settings.outcome:
            return HandlerUnknown("no 'outcome' is set for the handler 'command'")
        try:
            ended = self._run(self._settings.outcome, task)
        except ProgramNotStarted as error:
            return HandlerUnknown(str(error))
        if ended.cut_off:
            return HandlerUnknown(f"{self._settings.outcome[0]} {ended.problem}")
        match ended.exit:
            case 0:
                return _done(ended)
            case 1:
                return HandlerFailed(last_line(ended.stderr) or f"{self._settings.outcome[0]} reports a failure")
            case 3:
                return HandlerNotBegun()
            case _:
                return HandlerUnknown(f"{self._settings.outcome[0]} {ended.problem}")

    def close(self) -> None:
        pass

    def _result(self, argv: list[str], task: Task) -> HandlerResult:
        try:
            ended = self._run(argv, task)
        except ProgramNotStarted as error:
            return HandlerFailed(str(error))
        return HandlerFailed(f"{argv[0]} {ended.problem}") if ended.problem else _done(ended)

    def _run(self, argv: list[str], task: Task) -> ProgramExit:
        ended = run_program(
            argv,
            task,
            said=msgspec.json.encode(make_event_json(task.event)),
            environment=dict(os.environ) | self._settings.environment | environment_of(task),
            directory=self._settings.directory,
            grace=self._settings.grace.total_seconds(),
        )
        # stderr is written to log and memory, and may contain a secret from the environment.
        return ended._replace(stderr=scrubbed(ended.stderr, secrets_among(self._settings.environment)))


def environment_of(task: Task) -> dict[str, str]:
    """Return the environment variables of a program; the whole event is on its stdin."""
    event = make_event_json(task.event)
    left = (task.deadline - datetime.now(UTC)).total_seconds()
    words = {
        "FOREWARN_EVENT_ID": event.event_id,
        "FOREWARN_EVENT_TYPE": event.event_type,
        "FOREWARN_EVENT_STATUS": event.event_status,
        "FOREWARN_EVENT_SOURCE": event.event_source,
        "FOREWARN_NOT_BEFORE": event.not_before,
        "FOREWARN_DURATION": str(event.duration_in_seconds),
        "FOREWARN_DESCRIPTION": event.description,
        "FOREWARN_RESOURCES": " ".join(event.resources),
        "FOREWARN_VM": task.vm,
        "FOREWARN_DIRECTION": task.direction.value,
        "FOREWARN_DEADLINE": task.deadline.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "FOREWARN_SECONDS_LEFT": str(max(int(left), 0)),
    }
    words |= {f"FOREWARN_KEPT_{name.upper()}": value for name, value in task.kept.items()}
    # A service's text must not prevent the program's start: remove NUL and limit the length.
    return {name: value.replace("\0", "")[:LONGEST_VALUE] for name, value in words.items()}


def _done(ended: ProgramExit) -> HandlerDone:
    said = ended.stdout.strip()
    if not said.startswith("{"):
        return HandlerDone(detail=last_line(said))
    try:
        found: dict[str, str | int | float | bool | None] = msgspec.json.decode(
            said, type=dict[str, str | int | float | bool | None]
        )
    except msgspec.DecodeError as error:
        # The call succeeded; only its output is lost.
        return HandlerDone(detail=f"its output cannot be read, and nothing is stored for undo: {error}")
    kept = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in found.items()
        if _KEY.fullmatch(name)
    }
    if len(said.encode()) > _MOST_KEPT:
        return HandlerDone(
            detail=f"its output is longer than {_MOST_KEPT // 1024} KiB, and nothing is stored for undo"
        )
    strange = sorted(found.keys() - kept.keys())
    detail = f"not stored: {strange[0]!r}; a name may contain letters, digits and _ only" if strange else ""
    return HandlerDone(kept, detail[:LONGEST])
