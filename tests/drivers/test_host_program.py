"""Commands on hosts by an operator's program: run once, timed out, and known after a restart."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forewarn.clocks import SystemClock
from forewarn.core.errors import BadInput
from forewarn.core.model import Host
from forewarn.drivers.host_program import HostCommands, HostProgram
from forewarn.node.driver import (
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    ImpactFailed,
    ImpactNotBegun,
    ImpactUnderway,
)

pytestmark = pytest.mark.end_to_end


def program(directory: Path, body: str) -> str:
    path = directory / "on-host"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def command(timeout: int = 30) -> HostCommand:
    return HostCommand("c1", Host("h1"), "update kernel", timeout, datetime.now(UTC))


def outcome(ask: Callable[[HostCommand], HostCommandOutcome], given: HostCommand) -> HostCommandOutcome:
    """Ask until it has ended."""
    until = time.monotonic() + 30
    found = ask(given)
    while isinstance(found, ImpactUnderway) and time.monotonic() < until:
        time.sleep(0.05)
        found = ask(given)
    return found


def test_the_program_is_given_host_and_command_and_its_status_is_recorded(tmp_path: Path) -> None:
    """Its last line is told."""
    ours = HostProgram(program(tmp_path, 'echo "$2 on $1"'), SystemClock(), tmp_path)
    assert ours.outcome_of(command()) == ImpactNotBegun()
    assert isinstance(ours.run(command()), ImpactUnderway)
    assert outcome(ours.outcome_of, command()) == HostCommandEnded(0, "update kernel on h1")


def test_a_command_is_run_once_and_its_result_known_to_the_next_process(tmp_path: Path) -> None:
    """Whoever asks again is told what came of the first run."""
    path = program(tmp_path, f"echo run >> {tmp_path}/runs; echo no power >&2; exit 3")
    first = HostProgram(path, SystemClock(), tmp_path)
    first.run(command())
    assert outcome(first.outcome_of, command()) == HostCommandEnded(3, "no power")
    again = HostProgram(path, SystemClock(), tmp_path)
    assert outcome(again.run, command()) == HostCommandEnded(3, "no power")
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_command_that_takes_too_long_is_stopped_and_fails(tmp_path: Path) -> None:
    """With the time that it had."""
    ours = HostProgram(program(tmp_path, "sleep 60"), SystemClock(), tmp_path)
    ours.run(command(timeout=1))
    assert outcome(ours.outcome_of, command(timeout=1)) == ImpactFailed("the command took longer than 1 s")


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """At the start of the service."""
    with pytest.raises(BadInput, match="there is no program '/nowhere/x'; give its full path"):
        HostProgram("/nowhere/x", SystemClock(), tmp_path)


def test_arguments_of_the_program_come_before_host_and_command(tmp_path: Path) -> None:
    """As they stand in the settings."""
    ours = HostProgram([program(tmp_path, 'echo "$@"'), "--site", "east"], SystemClock(), tmp_path)
    ours.run(command())

    assert outcome(ours.outcome_of, command()) == HostCommandEnded(0, "--site east h1 update kernel")


def test_a_driver_runs_commands_by_the_program_of_its_settings(tmp_path: Path) -> None:
    """And fails them where the settings name none."""
    driver = HostCommands()
    for asked in (driver.run_on_host(command()), driver.outcome_on_host(command())):
        assert isinstance(asked, ImpactFailed)
        assert asked.reason.startswith("no host_program is set")

    driver.use_host_program(program(tmp_path, "echo done"), SystemClock(), tmp_path)
    assert driver.runs_commands
    assert isinstance(driver.run_on_host(command()), ImpactUnderway)
    assert outcome(driver.outcome_on_host, command()) == HostCommandEnded(0, "done")
