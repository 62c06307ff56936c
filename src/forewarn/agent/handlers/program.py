"""Runs a program for a handler, within the time of its task."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from forewarn import child_process
from forewarn.agent.handler import Task
from forewarn.child_process import KEPT, ProgramExit
from forewarn.core.errors import ForewarnError

_MARGIN = 0.2
"""Seconds before the deadline at which everything is over, so that the answer is in time."""


class ProgramNotStarted(ForewarnError):
    """A program could not be started."""


def run_program(
    argv: Sequence[str],
    task: Task,
    *,
    said: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    grace: float = 2.0,
    most: int = KEPT,
) -> ProgramExit:
    """Run a program with ``said`` on its stdin; raise ProgramNotStarted if it cannot be started."""
    left = (task.deadline - datetime.now(UTC)).total_seconds() - _MARGIN
    # A call with little time gives most of it to the program.
    grace = min(grace, max(left, 0.0) / 4)
    try:
        return child_process.run(
            argv,
            max(left - grace, 0.0),
            grace,
            _MARGIN,
            said=said,
            environment=environment,
            directory=directory,
            most=most,
            is_stopping=task.stopping.is_set,
        )
    except (OSError, ValueError) as error:
        raise ProgramNotStarted(_why_not(argv[0], directory, error)) from None


def _why_not(name: str, directory: str | None, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and directory and not os.path.isdir(directory):  # noqa: PTH112
        return f"{name} could not be run: there is no directory {directory}"
    if isinstance(error, FileNotFoundError):
        return f"there is no program {name}; give its full path"
    if isinstance(error, PermissionError):
        return f"{name} may not be executed; chmod +x it"
    return f"{name} could not be run: {getattr(error, 'strerror', None) or error}"
