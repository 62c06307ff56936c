"""Interpret the exit code and output of an operator's program. Pure functions.

    command        exit 0     1             3               4               any other
    perform        Done       Failed        Failed          Failed          Failed
    outcome        Done       Failed        NotBegun        Underway        Unknown

From a program that fences terms, 5 means that it refused: this call did nothing. The driver then asks it for the
outcome.

The last line of stderr is the reason. Stdout may be one JSON object, such as ``{"hosts": {"web-0": "h2"}, "detail":
"moved"}``; if it is anything else, its last line is the detail. While the impact is under way, that line is its
progress.
"""

import signal
from collections.abc import Collection
from datetime import datetime

import msgspec

from forewarn.core.terms import LONGEST_LINE
from forewarn.drivers.program_runner import CompletedRun
from forewarn.node.driver import (
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
)

REFUSED = 5
"""Exit code of a program that fences terms: this call did nothing."""


class ProgramResult(msgspec.Struct, frozen=True):
    """JSON object that a program may print on stdout."""

    hosts: dict[str, str] = {}
    detail: str = ""


def is_refused(ended: object) -> bool:
    """Return whether a program that fences terms refused a run."""
    return isinstance(ended, CompletedRun) and ended.exit == REFUSED and not (ended.timed_out or ended.problem)


def read_perform_result(ended: CompletedRun, vms: Collection[str]) -> ImpactDone | ImpactFailed:
    """Return the result of ``program perform`` for an impact on ``vms``."""
    if ended.exit or ended.timed_out or ended.problem:
        return ImpactFailed(_reason(ended))
    return _done(ended.stdout, vms)


def read_outcome_result(ended: CompletedRun, vms: Collection[str], check_at: datetime) -> ImpactOutcome:
    """Return the outcome that ``program outcome`` reports; ``check_at`` is when to ask again."""
    if ended.timed_out or ended.problem:
        return ImpactUnknown(_reason(ended))
    match ended.exit:
        case 0:
            return _done(ended.stdout, vms)
        case 1:
            return ImpactFailed(_last_line(ended.stderr) or "the program reported a failure")
        case 3:
            return ImpactNotBegun()
        case 4:
            return ImpactUnderway(check_at, _last_line(ended.stdout))
        case _:
            return ImpactUnknown(_reason(ended))


def _reason(ended: CompletedRun) -> str:
    if ended.problem:
        return ended.problem
    if ended.timed_out:
        how = "took too long and was stopped"
    elif ended.exit < 0:
        how = f"killed by signal {-ended.exit} ({_signal_name(-ended.exit)})"
    else:
        how = f"exit code {ended.exit}"
    said = _last_line(ended.stderr)
    return f"{how}: {said}" if said else how


def _done(stdout: str, vms: Collection[str]) -> ImpactDone:
    if not stdout.lstrip().startswith("{"):
        return ImpactDone(detail=_last_line(stdout))
    try:
        answer = msgspec.json.decode(stdout, type=ProgramResult)
    except msgspec.DecodeError as error:
        # The machines were changed in any case, so it is done; only the details are lost.
        return ImpactDone(detail=f"its output could not be parsed: {error}")
    unknown_vms = sorted(set(answer.hosts) - set(vms))
    hosts = {vm: host for vm, host in answer.hosts.items() if vm in vms}
    detail = _last_line(answer.detail)
    if unknown_vms:
        detail = f"{detail} (hosts named for VMs that are not in the event: {', '.join(unknown_vms)})".lstrip()
    return ImpactDone(hosts=hosts, detail=detail[:LONGEST_LINE])


def _last_line(text: str) -> str:
    """Return the last non-empty line, with control characters replaced."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return "".join(letter if letter.isprintable() else " " for letter in lines[-1]).strip()[:LONGEST_LINE]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
