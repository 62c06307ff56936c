"""Runs an operator's program in a process of its own, which outlives the Forewarn that started it.

It holds the lock of the event's record, and writes there how the program ended. Imports the standard library only,
so that it starts at once.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from forewarn import child_process

BEGUN = b"begun\n"

ARGUMENTS = (
    "-I",
    "-S",
    "-c",
    "import sys; sys.path.append(sys.argv[1]); from forewarn.drivers.program_runner import main; main()",
    str(Path(__file__).parents[2]),
)
"""Of Python, to start the process, which reads on its stdin what it is to run."""


class CompletedRun(NamedTuple):
    """How a run ended."""

    exit: int = 0
    """The exit code; below zero the signal that killed it."""
    timed_out: bool = False
    problem: str = ""
    """Why it could not be run at all, or not be stopped."""
    stdout: str = ""
    stderr: str = ""


def run(
    argv: Sequence[str], said: bytes, timeout: float, grace: float, environment: Mapping[str, str] | None = None
) -> CompletedRun:
    """Run a program with ``said`` on its stdin; stop its whole process group when it takes too long."""
    try:
        ended = child_process.run(argv, timeout, grace, max(grace, 1.0), said=said, environment=environment)
    except (OSError, ValueError) as error:
        return CompletedRun(problem=f"the program could not be started: {error}")
    if ended.is_alive:
        return CompletedRun(0, True, "took too long and cannot be killed", ended.stdout, ended.stderr)
    return CompletedRun(ended.exit, bool(ended.cut_off), "", ended.stdout, ended.stderr)


def main() -> None:
    """Run what stdin asks for, once it is asked for in whole, and record it."""
    asked = json.load(sys.stdin)
    with os.fdopen(asked["record"], "ab", buffering=0) as record:
        record.write(BEGUN)
        os.fsync(record.fileno())
        ended = run(asked["argv"], asked["said"].encode(), asked["timeout"], asked["grace"])
        record.write(json.dumps(ended).encode() + b"\n")
        os.fsync(record.fileno())
