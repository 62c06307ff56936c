"""What a rollout does next, from the fleet as it is: one round at a time, until nothing is left to do now.

    every host of the wave takes its next step
    when all have ended: window, gate and alerts, then the next wave; or the end

``AdvanceRollout`` asks for a round. It is submitted after every commit that concerns the rollout, and at
``wake_at``. What only the outside can do is in ``actions.py``, and its result comes back as a command. So after a
crash all of it is derived from the fleet again.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from forewarn.core.errors import Refused
from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.notice import Rules
from forewarn.core.rollouts import host_steps, windows
from forewarn.core.rollouts.actions import RECHECK
from forewarn.core.rollouts.active_hosts import follow_hosts, limit_of
from forewarn.core.rollouts.checks import expected_length
from forewarn.core.rollouts.commands import AdvanceRollout
from forewarn.core.rollouts.conflicts import conflicts, queue_reason
from forewarn.core.rollouts.facts import (
    RolloutBlocked,
    RolloutEdited,
    RolloutEnded,
    RolloutHostChanged,
    RolloutLate,
    RolloutPaused,
    RolloutResumed,
    RolloutStarted,
    RolloutWaveStarted,
)
from forewarn.core.rollouts.limits import Occupancy, next_wave
from forewarn.core.rollouts.model import HostStep, RecordedLength, Rollout, RolloutResult, RolloutState
from forewarn.core.rollouts.selection import count_canaries, select_hosts


def wake_at(fleet: Fleet, rollout: Rollout, now: datetime, rules: Rules) -> datetime | None:
    """Return when the next round is worth trying, if nothing happens before."""
    times: list[datetime | None] = [rollout.begins_at, rollout.blocked_until, rollout.check_after]
    if rollout.prediction and not rollout.is_late:
        times.append(rollout.prediction.latest)
    for run in host_steps.active_runs(fleet, rollout):
        times += [run.until, limit_of(fleet, rollout, run, rules)]
    if rollout.active and rollout.has_windows:
        closes = windows.open_until(rollout.terms.windows, rollout.fleet_windows, now)
        if closes:
            times += [closes, closes - timedelta(seconds=rollout.lasts)]
        else:
            times.append(windows.next_start(rollout.terms.windows, rollout.fleet_windows, now, timedelta()))
    if rollout.blocked and not rollout.blocked_until:
        times.append(now + RECHECK / rules.hurry)
    return min((when for when in times if when and when > now), default=None)


def advance(fleet: Fleet, command: AdvanceRollout, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Yield what the rollout does now."""
    rollout = fleet.rollouts.get(command.rollout)
    if rollout is None:
        return
    match rollout.state:
        case RolloutState.RESTING:
            yield from _begin_again(fleet, rollout, command, now, rules)
            return
        case RolloutState.QUEUED:
            if not conflicts(fleet, rollout.name, rollout.hosts):
                yield RolloutResumed(rollout.name, now, "no other rollout has its hosts any more")
            return
    if rollout.fleet_windows != rules.maintenance_windows:
        windows_of_fleet, reason = rules.maintenance_windows, "the maintenance windows of the fleet changed"
        yield RolloutEdited(rollout.name, now, rollout.terms, windows_of_fleet, rollout.lasts, reason)
        return
    if rollout.prediction and not rollout.is_late and rollout.prediction.latest <= now:
        yield RolloutLate(rollout.name, now, rollout.prediction.latest)
    if rollout.active:
        hold = yield from follow_hosts(fleet, rollout, command, now, rules)
        yield from _block(rollout, now, *hold)
    elif rollout.state is RolloutState.STOPPING:
        yield _ended(rollout, now, rollout.ends_as, rollout.reason, rules)
    elif rollout.state is RolloutState.RUNNING:
        yield from _begin_wave(fleet, rollout, command, now, rules)


def is_due_again(rollout: Rollout, now: datetime) -> bool:
    """Return whether the next run of a rollout that recurs begins now."""
    return rollout.state is RolloutState.RESTING and not (rollout.begins_at and rollout.begins_at > now)


def _begin_again(
    fleet: Fleet, rollout: Rollout, command: AdvanceRollout, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    """Begin the next run, with the durations of the present driver; where nothing tells these, with those before."""
    if not is_due_again(rollout, now):
        return
    try:
        hosts = select_hosts(fleet, rollout.terms)
    except Refused as refused:
        yield _ended(rollout, now, RolloutResult.COMPLETED, f"nothing to do: {refused}", rules)
        return
    others = conflicts(fleet, rollout.name, hosts)
    recorded = command.recorded or RecordedLength(rollout.lasts, rollout.command_lasts)
    yield RolloutStarted(
        replace(
            rollout,
            hosts=hosts,
            canaries=count_canaries(fleet, rollout.terms, hosts),
            started_at=now,
            begins_at=None,
            state=RolloutState.QUEUED if others else RolloutState.RUNNING,
            reason=queue_reason(others),
            fleet_windows=rules.maintenance_windows,
            lasts=expected_length(rollout.terms, rules, recorded.host),
            command_lasts=recorded.command,
            prediction=command.prediction,
        )
    )


def _begin_wave(
    fleet: Fleet, rollout: Rollout, command: AdvanceRollout, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    if rollout.position >= len(rollout.hosts):
        yield _ended(rollout, now, RolloutResult.COMPLETED, "", rules)
        return
    if (held := _window_hold(rollout, command, now, rules)) is not None:
        yield from _block(rollout, now, *held)
        return
    wave = next_wave(fleet, rollout)
    for host, reason in wave.skipped.items():
        yield RolloutHostChanged(rollout.name, host, now, HostStep.SKIPPED, reason)
    if wave.hosts and rollout.needs_check:
        if rollout.blocked and not rollout.blocked_until:
            yield RolloutBlocked(rollout.name, now, "", None)  # so that the gate is asked
    elif wave.hosts:
        yield from _start_wave(fleet, rollout, wave.hosts, command, now, rules)
    elif not wave.skipped:
        yield from _no_wave(fleet, rollout, wave.blocked, now)


def _start_wave(
    fleet: Fleet, rollout: Rollout, hosts: list[str], command: AdvanceRollout, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    terms = rollout.terms
    step = HostStep.ASKING if terms.asks else HostStep.PLANNING if terms.operation.drains else HostStep.ANNOUNCED
    yield RolloutWaveStarted(rollout.name, now, rollout.wave + 1, tuple(hosts), step)
    if step is HostStep.ANNOUNCED:
        failures: list[tuple[str, str]] = []
        for number, host in enumerate(hosts):
            yield from host_steps.announce(
                fleet, rollout, host, number, command, now, rules, failures, live=command.live
            )
        yield from host_steps.fail(fleet, rollout, failures, now)


def _no_wave(fleet: Fleet, rollout: Rollout, reason: str, now: datetime) -> Iterator[AnyFact]:
    """Say why no host can begin; pause where that can never change by itself."""
    occupancy = Occupancy(fleet, rollout.terms)
    never = occupancy.alone_against(rollout.hosts[rollout.position])
    if never:
        yield RolloutPaused(rollout.name, now, never)
    else:
        yield from _block(rollout, now, reason, None)


def _block(rollout: Rollout, now: datetime, reason: str, until: datetime | None) -> Iterator[AnyFact]:
    is_checked = rollout.checked > rollout.wave
    if (rollout.blocked, rollout.blocked_until) != (reason, until) or is_checked:
        yield RolloutBlocked(rollout.name, now, reason, until)


def _window_hold(
    rollout: Rollout, command: AdvanceRollout, now: datetime, rules: Rules
) -> tuple[str, datetime | None] | None:
    """Return why and until when a wave is not announced because of windows; None where it may be."""
    notice = host_steps.notice_of(rollout, rules, live=command.live)
    start = windows.next_start_of(rollout, now + notice)
    if start is None:
        return "no maintenance window opens that is long enough; edit the windows", None
    announce_at = start - max(notice, timedelta(seconds=rollout.terms.lead / rules.hurry))
    if announce_at <= now:
        return None
    return f"the next maintenance window opens at {start:%Y-%m-%dT%H:%M:%SZ}; VMs are told before", announce_at


def _ended(rollout: Rollout, now: datetime, result: RolloutResult, reason: str, rules: Rules) -> RolloutEnded:
    next_at = None
    if rollout.terms.every and result is not RolloutResult.CANCELED:
        every = timedelta(seconds=rollout.terms.every / rules.hurry)
        # One that found no hosts has not begun: it is tried again after the whole time.
        next_at = now + every if rollout.state is RolloutState.RESTING else max(rollout.started_at + every, now)
    return RolloutEnded(
        rollout.name,
        now,
        result,
        reason,
        rollout.done,
        rollout.failed,
        rollout.skipped,
        len(rollout.hosts) - rollout.finished,
        rollout.prediction,
        next_at,
    )
