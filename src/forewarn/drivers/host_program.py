"""Runs commands on hosts by an operator's program: ``program HOST COMMAND``, the whole request on its stdin as JSON.

Like the program of the command driver it runs under a process of ours that survives a crash of Forewarn and records
the exit status, so that a command is never run twice.
"""

import os
import shutil
from datetime import timedelta
from pathlib import Path

from forewarn.child_process import last_line
from forewarn.clocks import Clock
from forewarn.core.errors import BadInput
from forewarn.drivers import run_record
from forewarn.node.driver import (
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    ImpactFailed,
    ImpactNotBegun,
    ImpactUnderway,
    ImpactUnknown,
)

_CHECK_AGAIN = timedelta(seconds=1)
_GRACE = 5.0


class HostProgram:
    """Runs an operator's program for each command on a host."""

    def __init__(self, program: str | list[str], clock: Clock, directory: Path) -> None:
        words = [program] if isinstance(program, str) else program
        found = shutil.which(words[0]) if words else None
        if found is None:
            named = words[0] if words else ""
            raise BadInput(f"setting 'host_program': there is no program {named!r}; give its full path")
        self._argv = [str(Path(found).absolute()), *words[1:]]
        self._clock = clock
        self._directory = directory / "host-commands"

    def run(self, command: HostCommand) -> HostCommandOutcome:
        """Start the program, once; its result is asked for later."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with run_record.hold_record(self._directory / command.id) as (descriptor, recorded):
                if recorded is None:
                    self._start(command, descriptor)
        except run_record.RecordLocked:
            return self._later()
        except (OSError, ValueError) as error:
            return ImpactFailed(f"the program could not be started: {error}")
        return self._later() if recorded is None else self.outcome_of(command)

    def outcome_of(self, command: HostCommand) -> HostCommandOutcome:
        try:
            recorded = run_record.read(self._directory / command.id)
        except run_record.RecordLocked:
            return self._later()
        except OSError as error:
            return ImpactUnknown(f"cannot read the record of the run: {error}")
        match recorded:
            case None:
                return ImpactNotBegun()
            case run_record.RunLost():
                return ImpactUnknown("the program was begun, and nothing on this machine tells how it ended")
            case ended if ended.timed_out:
                return ImpactFailed(f"the command took longer than {command.timeout} s")
            case ended if ended.problem:
                return ImpactFailed(ended.problem)
            case ended:
                return HostCommandEnded(ended.exit, last_line(ended.stderr if ended.exit else ended.stdout))

    def _later(self) -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + _CHECK_AGAIN)

    def _start(self, command: HostCommand, descriptor: int) -> None:
        variables = {"FOREWARN_HOST": command.host.name, "FOREWARN_COMMAND": command.command}
        argv = [*self._argv, command.host.name, command.command]
        run_record.start_runner(descriptor, argv, command, command.timeout, _GRACE, dict(os.environ) | variables)


class HostCommands:
    """The part of a driver that runs commands on hosts, where its settings name a program for that."""

    runs_commands = False
    _host_program: HostProgram | None = None

    def use_host_program(self, program: str | list[str], clock: Clock, directory: Path | None) -> None:
        """Run commands by a program; none does where it is empty."""
        if not program:
            return
        if directory is None:
            raise BadInput("setting 'host_program' needs a data directory; give the service one with --data")
        self._host_program = HostProgram(program, clock, directory)
        self.runs_commands = True

    def run_on_host(self, command: HostCommand) -> HostCommandOutcome:
        return self._host_program.run(command) if self._host_program else _NO_PROGRAM

    def outcome_on_host(self, command: HostCommand) -> HostCommandOutcome:
        return self._host_program.outcome_of(command) if self._host_program else _NO_PROGRAM


_NO_PROGRAM = ImpactFailed("no host_program is set in the driver's settings, so that no command can be run")
