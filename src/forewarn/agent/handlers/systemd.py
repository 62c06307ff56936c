"""Handler ``systemd``: stops systemd units, and starts those again that were running.

The units are in the undo log before the handler stops them, so that undo starts these and no others, also after a
crash or a reboot.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import msgspec

from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome, HandlerResult, Task
from forewarn.agent.handlers.polling import is_over, polls
from forewarn.agent.handlers.program import ProgramNotStarted, run_program
from forewarn.agent.handlers.undo_log import UndoLog
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput, ForewarnError

_OWNER = "handler 'systemd'"
_AGENT = "forewarn-agent.service"
_AT_REST = frozenset({"inactive", "failed"})
_STOPPED_BY_US = "active"
"""Value in the undo log: the previous state of the unit."""


class SystemdProblem(ForewarnError):
    """A systemctl call failed."""


class SystemdUnit(msgspec.Struct, frozen=True):
    """Current state of one unit."""

    name: str
    state: str
    is_there: bool
    has_job: bool
    """Whether a start or stop job is queued."""

    @property
    def is_running(self) -> bool:
        return self.state not in _AT_REST


class SystemdSettings(msgspec.Struct, frozen=True):
    """The units, and the systemctl command."""

    units: Annotated[list[str], msgspec.Meta(min_length=1)]
    systemctl: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("systemctl",)
    """The program, and arguments that come first."""
    poll: timedelta = timedelta(milliseconds=500)


class SystemdHandler:
    """Stops units and starts them again."""

    repeats = True
    shared = True

    def __init__(self, settings: SystemdSettings, directory: Path) -> None:
        self._settings = settings
        self._undo_log = UndoLog(directory)

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> Self:
        read = read_table(_OWNER, settings, SystemdSettings)
        for unit in read.units:
            if not unit or unit.startswith("-") or not unit.isprintable() or set(unit) & set("*?[ "):
                raise BadInput(
                    f"setting 'units' of {_OWNER}: {unit!r} is not a unit name; write for example nginx.service"
                )
        if read.poll < timedelta(seconds=0.05):
            raise BadInput(f"setting 'poll' of {_OWNER} is too short; give 0.05s or more")
        # systemctl treats a name without a suffix as a service, and prints the full name.
        units = [unit if "." in unit else f"{unit}.service" for unit in read.units]
        if _AGENT in units:
            raise BadInput(
                f"setting 'units' of {_OWNER}: {_AGENT} is the agent itself, which cannot stop itself; remove it"
            )
        return cls(msgspec.structs.replace(read, units=units), directory)

    def do(self, task: Task) -> HandlerResult:
        try:
            units = self._read_units(self._settings.units, task)
            missing = [unit.name for unit in units if not unit.is_there]
            if missing:
                return HandlerFailed(
                    f"there is no systemd unit {missing[0]}; check 'units' of the handler", final=True
                )
            running = [unit for unit in units if unit.is_running]
            claimed = self._undo_log.read() | {unit.name: _STOPPED_BY_US for unit in running}
            self._undo_log.write(claimed)
            if running:
                self._systemctl(["stop", "--no-block", "--", *(unit.name for unit in running)], task)
            for units in self._poll_units(self._settings.units, task):
                running = [unit for unit in units if unit.is_running]
                if not running:
                    return HandlerDone(claimed, _show("stopped", claimed))
        except (SystemdProblem, OSError) as error:
            return HandlerFailed(str(error))
        why = "the agent stopped" if task.stopping.is_set() else "the deadline passed"
        return HandlerFailed(f"{why} while {running[0].name} was still {running[0].state}; see its TimeoutStopSec")

    def undo(self, task: Task) -> HandlerResult:
        try:
            claimed = task.kept | self._undo_log.read()
            # Units that were removed meanwhile are not started.
            found = [unit.name for unit in self._read_units(list(claimed), task) if unit.is_there] if claimed else []
            if found:
                self._systemctl(["start", "--no-block", "--", *found], task)
                if problem := self._wait_for(found, task):
                    return HandlerFailed(problem)
            self._undo_log.write({})
        except (SystemdProblem, OSError) as error:
            return HandlerFailed(str(error))
        return HandlerDone(detail=_show("started", found))

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()

    def close(self) -> None:
        pass

    def _wait_for(self, names: list[str], task: Task) -> str:
        """Wait until systemd has started the units; return a problem, or an empty string."""
        problem = ""
        for units in self._poll_units(names, task):
            for unit in units:
                if unit.state == "failed" and not unit.has_job:
                    return f"{unit.name} failed to start again; see: systemctl status {unit.name}"
            slow = [unit.name for unit in units if unit.has_job]
            if not slow:
                return ""
            problem = f"{slow[0]} is still starting; systemd continues with it"
        return problem

    def _poll_units(self, names: list[str], task: Task) -> Iterator[list[SystemdUnit]]:
        """Yield the states of units repeatedly; a query that the deadline interrupts ends it, except the first."""
        has_looked = False
        for _ in polls(task, self._settings.poll):
            try:
                units = self._read_units(names, task)
            except SystemdProblem:
                if has_looked and is_over(task):
                    return
                raise
            has_looked = True
            yield units

    def _read_units(self, names: list[str], task: Task) -> list[SystemdUnit]:
        shown = self._systemctl(["show", "--property=LoadState,ActiveState,Job", "--", *names], task)
        blocks = [
            dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            for block in shown.strip().split("\n\n")
        ]
        if len(blocks) != len(names) or not all("ActiveState" in block for block in blocks):
            raise SystemdProblem("the output of systemctl show cannot be read; check 'systemctl' of the handler")
        return [
            SystemdUnit(
                name,
                block["ActiveState"],
                block.get("LoadState") != "not-found",
                block.get("Job", "0") not in ("", "0"),
            )
            for name, block in zip(names, blocks, strict=True)
        ]

    def _systemctl(self, words: list[str], task: Task) -> str:
        program = self._settings.systemctl
        try:
            ended = run_program([*program, *words], task)
        except ProgramNotStarted:
            raise SystemdProblem(
                f"{program[0]} is not installed; this handler needs a machine with systemd"
            ) from None
        if ended.problem:
            raise SystemdProblem(f"{program[0]} {words[0]} {ended.problem}")
        return ended.stdout


def _show(what: str, units: dict[str, str] | list[str]) -> str:
    return f"{what}: {', '.join(sorted(units))}" if units else ""
