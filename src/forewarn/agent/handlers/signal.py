"""Handler ``signal``: signals a process to checkpoint or to end, and waits for its checkpoint file or its end.

The processes are in the undo log before the signal is sent, each with its id, start time and boot id: a later process
with the same id is never signalled.
"""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

import msgspec

from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome, HandlerResult, Task
from forewarn.agent.handlers import processes
from forewarn.agent.handlers.polling import polls
from forewarn.agent.handlers.processes import Process, ProcessProblem
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from forewarn.agent.handlers.undo_log import UndoLog
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput

_OWNER = "handler 'signal'"
_BEGAN = "began_at"
"""Key in the undo log for the time of the first signal."""


class SignalSettings(msgspec.Struct, frozen=True):
    """The process, the signal, and the condition to wait for."""

    pid_file: str = ""
    name: str = ""
    """The name of its program; with ``pid_file``, the required name of that process."""
    command_line: str = ""
    """A pattern for the whole command line."""
    signal: str = ""
    """By default SIGUSR1 with ``file``, else SIGTERM."""
    file: str = ""
    """The file that the process writes when it is ready; if empty, the handler waits for the process to end."""
    wait: bool = True
    undo_signal: str = ""
    start: list[str] = []
    """The program that starts it again."""
    missing: Literal["done", "fail"] = "done"
    """Result if there is no such process."""
    poll: timedelta = timedelta(milliseconds=200)


class SignalHandler:
    """Signals a process, and waits until it is ready."""

    repeats = True

    def __init__(self, settings: SignalSettings, directory: Path) -> None:
        # A checkpoint is for one event; the end of a process holds for all events.
        self.shared = not settings.file
        self._settings = settings
        self._undo_log = UndoLog(directory)

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table(_OWNER, settings, SignalSettings)
        if bool(read.command_line) + bool(read.pid_file or read.name) != 1:
            raise BadInput(f"{_OWNER} has no process; set 'pid_file', 'name' or 'command_line'")
        for key in ("signal", "undo_signal"):
            if sys.platform != "win32":  # Windows has none of these signals
                _number(key, getattr(read, key) or "SIGTERM")
        if read.start and not read.start[0]:
            raise BadInput(f"setting 'start' of {_OWNER}: give the path of a program first, then its arguments")
        if read.poll < timedelta(milliseconds=10):
            raise BadInput(f"setting 'poll' of {_OWNER} is too short; give 0.01s or more")
        return cls(read, directory)

    def do(self, task: Task) -> HandlerResult:
        try:
            found = self._find()
            boot = processes.boot_id()
            claims = self._undo_log.read()
            mine = self._mine(claims, task)
            if not any(value == boot for value in mine.values()):
                if not found:
                    return self._missing()
                mine = {self._key(task, _BEGAN): str(time.time())}
            # Otherwise an earlier attempt was interrupted or failed: the wait began with that attempt.
            mine |= {self._key(task, _spell(process)): boot for process in found}
            self._undo_log.write(claims | mine)
            number = self._signal()
            signalled = [process for process in found if process.send(number)]
            return self._wait(signalled, float(mine[self._key(task, _BEGAN)]), mine, task)
        except (BadInput, ProcessProblem, OSError) as error:
            return HandlerFailed(str(error))

    def undo(self, task: Task) -> HandlerResult:
        try:
            claims = self._undo_log.read()
            mine = self._mine(task.kept | claims, task)
            details: list[str] = []
            if mine and self._settings.undo_signal:
                details += self._signal_back(mine)
            if mine and self._settings.start and not self._find():
                ended = run_program(self._settings.start, task)
                if ended.problem:
                    return HandlerFailed(f"{self._settings.start[0]} {ended.problem}")
                details.append(f"ran {self._settings.start[0]}")
            self._undo_log.write({key: value for key, value in claims.items() if key not in mine})
        except (BadInput, ProcessProblem, ProgramNotStarted, OSError) as error:
            return HandlerFailed(str(error))
        return HandlerDone(detail=", ".join(details))

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        pass

    def _key(self, task: Task, word: str) -> str:
        return f"{'all' if self.shared else task.event.id}/{word}"

    def _mine(self, claims: dict[str, str], task: Task) -> dict[str, str]:
        """Return the entries of the same event, or all entries if the handler is shared."""
        return {key: value for key, value in claims.items() if key.startswith(self._key(task, ""))}

    def _signal_back(self, mine: dict[str, str]) -> list[str]:
        number = _number("undo_signal", self._settings.undo_signal)
        boot = processes.boot_id()
        # After a reboot another process may have the same id and start time.
        same = [_read(key.partition("/")[2]) for key, value in mine.items() if value == boot]
        return [f"signalled {process.id}" for process in same if process.send(number)]

    def _find(self) -> list[Process]:
        settings = self._settings
        if settings.command_line:
            found = processes.with_command_line(settings.command_line)
        elif settings.pid_file:
            found = processes.in_file(Path(settings.pid_file))
            if settings.name:
                found = [each for each in found if each in processes.named(settings.name)]
        else:
            found = processes.named(settings.name)
        # Neither the agent nor init.
        return [each for each in found if each.id not in (os.getpid(), 1)]

    def _wait(self, signalled: list[Process], began_at: float, claimed: dict[str, str], task: Task) -> HandlerResult:
        ids = ", ".join(str(process.id) for process in signalled)
        file = Path(self._settings.file)
        if not self._settings.wait:
            return HandlerDone(claimed, f"signalled {ids}")
        for _ in polls(task, self._settings.poll):
            alive = [process for process in signalled if process.is_alive]
            if self._settings.file and _is_newer(file, began_at):
                return HandlerDone(claimed, f"{file} is written")
            if self._settings.file and not alive:
                return HandlerFailed(f"the process ended and did not write {file}")
            if not self._settings.file and not alive:
                return HandlerDone(claimed, f"ended: {ids}" if ids else "")
        why = "the agent stopped" if task.stopping.is_set() else "the deadline passed"
        waited = f"{file} was not written" if self._settings.file else f"process {alive[0].id} had not ended"
        return HandlerFailed(f"{why} while {waited} yet")

    def _missing(self) -> HandlerResult:
        settings = self._settings
        whom = settings.command_line or settings.name or settings.pid_file
        if settings.missing == "fail":
            return HandlerFailed(f'there is no process {whom}; start it, or set missing = "done" for the handler')
        return HandlerDone(detail=f"there is no process {whom}")

    def _signal(self) -> int:
        settings = self._settings
        return _number("signal", settings.signal or ("SIGUSR1" if settings.file else "SIGTERM"))


def _number(key: str, name: str) -> int:
    """Return a signal's number on this machine."""
    words = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    found = getattr(signal, words, None)
    if not isinstance(found, signal.Signals):
        raise BadInput(f"setting {key!r} of {_OWNER}: unknown signal {name!r}; write for example SIGUSR1")
    return int(found)


def _spell(process: Process) -> str:
    return f"{process.id} {process.began}"


def _read(spelled: str) -> Process:
    id_, _, began = spelled.partition(" ")
    return Process(int(id_), began)


def _is_newer(file: Path, began_at: float) -> bool:
    try:
        # Modification times are coarser than the clock: usually by some milliseconds, at worst by two seconds.
        return file.stat().st_mtime >= began_at - 0.02
    except OSError:
        return False
