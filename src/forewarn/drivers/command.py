"""Driver ``command``: runs an operator's program for each event (``program perform``, ``program outcome``).

The program runs under a small process of ours (``program_runner``) that survives a crash of Forewarn and records the
result, so the outcome is known after a restart without the program's help. Only if the runner itself was lost, as in
a power failure, the program must be asked (``remembers``); else the outcome is unknown.

The record is on the node that called the program. Another node asks the program (``fences_terms``), or the outcome is
unknown.
"""

import os
import shutil
import tempfile
import threading
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Annotated, Self

import msgspec

from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.model import Vm
from forewarn.core.redaction import scrubbed, secrets_among
from forewarn.drivers import command_checks, program_results, program_runner, run_record
from forewarn.drivers.host_program import HostCommands
from forewarn.drivers.switch_executor import SwitchExecutor, SwitchFailed
from forewarn.node.driver import (
    Impact,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    refuse_type,
)

CHECK_AGAIN = timedelta(seconds=1)
_WORTH_WAITING = 5.0
"""Seconds that a call waits for the end of a run, so that a short run is reported immediately."""
OUTCOME_TIMEOUT = 30.0
"""Timeout in seconds of ``program outcome``."""


class CommandDriverSettings(msgspec.Struct, frozen=True):
    """The operator's program and its limits."""

    program: str | list[str]
    """A path, or a path and arguments; ``perform`` or ``outcome`` is added as the last argument."""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 600.0
    """Seconds for one event."""
    grace: Annotated[float, msgspec.Meta(ge=0, le=600)] = 5.0
    """Seconds between SIGTERM and SIGKILL after the timeout."""
    environment: dict[str, str] = {}
    """Environment variables for the program, beside those that describe the event."""
    remembers: bool = False
    """Whether the program can report the outcome of an event."""
    moves_live: bool = False
    """Whether the program moves guests to another host while they run."""
    switches: bool = False
    """Whether the program starts and stops VMs: ``program start`` and ``program stop``."""
    fences_terms: bool = False
    """Whether the program stores the highest term where it begins, and refuses a lower one with exit code 5."""
    host_program: str | list[str] = ""
    """A program that runs commands on hosts for rollouts: ``host_program HOST COMMAND``."""


class CommandDriver(HostCommands):
    """Runs an operator's program to carry out the impact."""

    has_local_records = True

    def __init__(
        self,
        settings: CommandDriverSettings,
        clock: Clock,
        directory: Path | None,
        *,
        worth_waiting: float = _WORTH_WAITING,
    ) -> None:
        self.moves_live = settings.moves_live
        self.switches = settings.switches
        self.fences_terms = settings.fences_terms
        self._switch_executor = SwitchExecutor("command-switch", clock, self._switch)
        self._settings = settings
        self._argv = _argv(settings.program)
        self._environment = _environment(settings.environment)
        self._secrets = secrets_among(settings.environment)
        self._clock = clock
        self._worth_waiting = worth_waiting
        self._closed = threading.Event()
        self._retention = run_record.Retention(
            clock, lambda content: isinstance(run_record.parse(content), program_runner.CompletedRun)
        )
        self._runs: dict[str, threading.Thread] = {}
        """Runs that this driver started and has not reported; each thread lives as long as its run."""
        self._lent: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._lent = tempfile.TemporaryDirectory(prefix="forewarn-")
            directory = Path(self._lent.name)
        self._directory = directory.absolute()
        self.use_host_program(settings.host_program, clock, self._directory)

    @classmethod
    def from_settings(
        cls, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Self:
        return cls(_read(settings), clock, directory)

    @classmethod
    def check_settings(cls, settings: dict[str, object], *, is_running: bool) -> tuple[str, ...]:
        given = _read(settings)
        program, *_ = _argv(given.program)
        return tuple(command_checks.find_problems(Path(program), _environment(given.environment)))

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type not in EVENT_TYPES:
            return refuse_type(impact.event)
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._retention.sweep(self._directory)
            with run_record.hold_record(self._record_of(impact)) as (descriptor, recorded):
                if recorded is not None:
                    outcome = self._judge(recorded, impact)
                    if not isinstance(outcome, ImpactNotBegun):
                        return outcome
                waiter = self._start(impact, descriptor)
        except run_record.RecordLocked:
            return self._later()
        except (OSError, ValueError) as error:
            return ImpactFailed(f"the program could not be started: {error}")
        self._runs[impact.event.id] = waiter
        return self._await(impact, waiter)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        waiter = self._runs.get(impact.event.id)
        return self._await(impact, waiter) if waiter else self._recorded(impact)

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        return self._switch_executor.switch(vm, on=on, term=term)

    def close(self) -> None:
        self._closed.set()
        if self._lent is not None:
            self._lent.cleanup()

    def _await(self, impact: Impact, waiter: threading.Thread) -> ImpactOutcome:
        """Return the result of a run started by this driver; Underway if it takes longer than the wait."""
        until = monotonic() + self._worth_waiting
        while waiter.is_alive():
            if self._closed.is_set() or monotonic() > until:
                return self._later()
            waiter.join(0.1)
        outcome = self._recorded(impact)
        self._runs.pop(impact.event.id, None)
        if isinstance(outcome, ImpactNotBegun):
            return ImpactFailed(f"cannot record the run; make {self._directory} writable, and free space there")
        return outcome

    def _recorded(self, impact: Impact) -> ImpactOutcome:
        try:
            return self._judge(run_record.read(self._record_of(impact)), impact)
        except run_record.RecordLocked:
            return self._later()
        except OSError as error:
            return ImpactUnknown(f"cannot read the record of the run: {error}")

    def _judge(
        self, recorded: program_runner.CompletedRun | run_record.RunLost | None, impact: Impact
    ) -> ImpactOutcome:
        is_refused = self.fences_terms and program_results.is_refused(recorded)
        if isinstance(recorded, program_runner.CompletedRun) and not (is_refused or impact.attempted_elsewhere):
            return program_results.read_perform_result(self._scrubbed(recorded), _names(impact))
        if self._settings.remembers:
            return self._ask(impact)
        is_here = recorded is None and not impact.attempted_elsewhere
        if is_here and self._clock.now() - impact.attempted_at < run_record.KEPT_FOR:
            return ImpactNotBegun()
        return ImpactUnknown("the program may have been called, and nothing on this machine tells how it ended")

    def _ask(self, impact: Impact) -> ImpactOutcome:
        ended = program_runner.run(
            [*self._argv, "outcome"],
            msgspec.json.encode(impact),
            min(self._settings.timeout, OUTCOME_TIMEOUT),
            self._settings.grace,
            self._environment | _impact_environment(impact),
        )
        return program_results.read_outcome_result(
            self._scrubbed(ended), _names(impact), self._clock.now() + CHECK_AGAIN
        )

    def _scrubbed(self, ended: program_runner.CompletedRun) -> program_runner.CompletedRun:
        """Remove values of the environment from the output, which is written to log and journal."""
        return ended._replace(
            stdout=scrubbed(ended.stdout, self._secrets), stderr=scrubbed(ended.stderr, self._secrets)
        )

    def _switch(self, vm: Vm, *, on: bool, term: int) -> str:
        verb = "start" if on else "stop"
        variables = {
            "FOREWARN_OPERATION": f"vm {'start' if on else 'deallocate'}",
            "FOREWARN_GROUP": vm.group,
            "FOREWARN_HOST": vm.standing_on,
            "FOREWARN_VMS": vm.name,
            "FOREWARN_TERM": str(term),
        }
        ended = program_runner.run(
            [*self._argv, verb],
            msgspec.json.encode({"operation": verb, "vm": vm} | ({"term": term} if term else {})),
            self._settings.timeout,
            self._settings.grace,
            self._environment | variables,
        )
        match program_results.read_perform_result(self._scrubbed(ended), [vm.name]):
            case ImpactFailed(reason=reason):
                raise SwitchFailed(f"'{Path(self._argv[0]).name} {verb}' failed: {reason}")
            case outcome:
                return outcome.detail

    def _start(self, impact: Impact, descriptor: int) -> threading.Thread:
        """Start the runner, pass it the record, and return the thread that waits for it."""
        return run_record.start_runner(
            descriptor,
            [*self._argv, "perform"],
            impact,
            self._settings.timeout,
            self._settings.grace,
            self._environment | _impact_environment(impact),
        )

    def _record_of(self, impact: Impact) -> Path:
        return self._directory / impact.event.id

    def _later(self) -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + CHECK_AGAIN)


def _read(settings: dict[str, object]) -> CommandDriverSettings:
    given = read_table("driver 'command'", settings, CommandDriverSettings)
    if given.fences_terms and not given.remembers:
        raise BadInput(
            "setting 'fences_terms' of driver 'command' needs 'remembers': another node knows from the program alone"
            " what was begun; let it answer 'outcome', and set remembers = true"
        )
    return given


def _argv(program: str | list[str]) -> list[str]:
    words = [program] if isinstance(program, str) else program
    if not words or not words[0]:
        raise BadInput("setting 'program' of driver 'command' is empty; set it to the path of your program")
    path = Path(words[0])
    found = str(path.absolute()) if path.parent.parts else shutil.which(words[0])
    if found is None or not Path(found).is_file():
        raise BadInput(f"setting 'program' of driver 'command': there is no file {words[0]}; give its full path")
    if not os.access(found, os.X_OK):
        raise BadInput(f"setting 'program' of driver 'command': {found} is not executable; run 'chmod +x' on it")
    return [found, *words[1:]]


def _environment(extra: dict[str, str]) -> dict[str, str]:
    for name, value in extra.items():
        if not name or "=" in name or "\0" in name + value:
            raise BadInput(
                f"setting 'environment' of driver 'command': {name!r} cannot be set;"
                " a name must not be empty or contain '=', and neither name nor value may contain NUL"
            )
    return dict(os.environ) | extra


def _names(impact: Impact) -> list[str]:
    return [vm.name for vm in impact.vms]


def _impact_environment(impact: Impact) -> dict[str, str]:
    """Return the environment variables for the program; the whole impact is on its stdin."""
    event = impact.event
    host = event.host or next((vm.standing_on for vm in impact.vms), "")
    return {
        "FOREWARN_EVENT_ID": event.id,
        "FOREWARN_EVENT_TYPE": event.type,
        "FOREWARN_EVENT_SOURCE": event.source,
        "FOREWARN_OPERATION": event.operation,
        "FOREWARN_GROUP": event.group,
        "FOREWARN_HOST": host,
        "FOREWARN_VMS": " ".join(_names(impact)),
        "FOREWARN_DURATION": str(event.duration),
        "FOREWARN_TERM": str(impact.term),
        "FOREWARN_ATTEMPT": str(impact.attempt),
    }
