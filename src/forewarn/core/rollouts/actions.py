"""What a rollout needs from the outside, and what its results lead to.

    asking      the driver runs a command on a host      ReportHostCommand
    planning    the drain of a host is planned           DrainRolloutHost
    command     the driver runs a command on a host      ReportHostCommand
    next wave   gate and alerts are asked for            ReportRolloutCheck

What is due is derived from the fleet: a crash loses nothing. A result that comes too late changes nothing.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.notice import Rules
from forewarn.core.rollouts import host_steps
from forewarn.core.rollouts.commands import (
    DrainRolloutHost,
    HostCommandPurpose,
    ReportHostCommand,
    ReportRolloutCheck,
)
from forewarn.core.rollouts.facts import RolloutBlocked, RolloutChecked, RolloutHostChanged, RolloutPaused
from forewarn.core.rollouts.model import HostRun, HostStep, Rollout, RolloutState, run_key

RECHECK = timedelta(seconds=30)
"""After what time alerts that fire, and limits that others use up, are looked at again."""


class RolloutActionKind(StrEnum):
    """What the rules cannot do themselves."""

    ASK = "ask"
    PLAN = "plan"
    RUN = "run"
    CHECK = "check"


class RolloutAction(msgspec.Struct, frozen=True):
    """Something to be done outside, whose result comes back as a command."""

    rollout: str
    kind: RolloutActionKind
    host: str
    """Empty where the whole rollout is checked."""
    wave: int


_ACTIONS = {
    HostStep.ASKING: RolloutActionKind.ASK,
    HostStep.PLANNING: RolloutActionKind.PLAN,
    HostStep.COMMAND: RolloutActionKind.RUN,
}


def actions_due(fleet: Fleet, rollout: Rollout, now: datetime) -> Iterator[RolloutAction]:
    """Yield what is to be done outside; what is under way already is yielded again."""
    for run in host_steps.active_runs(fleet, rollout):
        if run.step in _ACTIONS:
            yield RolloutAction(rollout.name, _ACTIONS[run.step], run.host, run.wave)
    # By limits: the gate is asked when the wave can begin.
    is_held = bool(rollout.blocked) and rollout.blocked_until is None
    if _is_between_waves(rollout) and rollout.needs_check and not is_held and not _waits(rollout, now):
        yield RolloutAction(rollout.name, RolloutActionKind.CHECK, "", rollout.wave + 1)


def drain_host(fleet: Fleet, command: DrainRolloutHost, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the moves that were planned; a plan that comes too late changes nothing."""
    if asked := _asked_for(fleet, command.rollout, command.host, HostStep.PLANNING):
        yield from host_steps.drain(fleet, asked[0], command, now, rules)


def report_command(fleet: Fleet, command: ReportHostCommand, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Let a host go on after a command on it has ended."""
    step = HostStep.ASKING if command.purpose is HostCommandPurpose.ASK else HostStep.COMMAND
    asked = _asked_for(fleet, command.rollout, command.host, step)
    if asked is None:
        return
    rollout, run = asked
    status = command.exit_status
    if status is None or (status and step is HostStep.COMMAND):
        ended = "the command did not end" if status is None else f"the command ended with status {status}"
        reason = f"{ended}: {command.detail}" if command.detail else ended
        yield from host_steps.fail(fleet, rollout, [(run.host, reason)], now, status)
    elif step is HostStep.COMMAND:
        yield from host_steps.finish(fleet, rollout, run, now, rules, status)
    elif status:
        reason = f"the host does not ask for it: status {status}"
        yield RolloutHostChanged(rollout.name, run.host, now, HostStep.SKIPPED, reason)
    elif rollout.terms.operation.drains:
        yield RolloutHostChanged(rollout.name, run.host, now, HostStep.PLANNING)
    else:
        failures: list[tuple[str, str]] = []
        yield from host_steps.announce(fleet, rollout, run.host, 0, command, now, rules, failures, live=command.live)
        yield from host_steps.fail(fleet, rollout, failures, now)


def report_check(fleet: Fleet, command: ReportRolloutCheck, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Let the next wave begin, or pause or block the rollout; a report that comes too late changes nothing."""
    rollout = fleet.rollouts.get(command.rollout)
    if rollout is None or not _is_between_waves(rollout) or command.wave != rollout.wave + 1:
        return
    again_at = now + RECHECK / rules.hurry if command.firing else None
    yield RolloutChecked(rollout.name, now, command.wave, command.passed, command.detail, again_at)
    if command.firing:
        yield RolloutBlocked(rollout.name, now, f"alerts fire: {', '.join(command.firing)}", again_at)
    elif not command.passed:
        yield RolloutPaused(rollout.name, now, f"the gate failed: {command.detail}")


def _asked_for(fleet: Fleet, name: str, host: str, step: HostStep) -> tuple[Rollout, HostRun] | None:
    """Return a rollout and its host, if that still waits for a result."""
    run = fleet.rollout_hosts.get(run_key(name, host))
    return (fleet.rollouts[name], run) if run and run.step is step else None


def _is_between_waves(rollout: Rollout) -> bool:
    is_over = rollout.position >= len(rollout.hosts)
    return rollout.state is RolloutState.RUNNING and not rollout.active and not is_over


def _waits(rollout: Rollout, now: datetime) -> bool:
    return any(when and when > now for when in (rollout.blocked_until, rollout.check_after))
