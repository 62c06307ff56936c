"""The hosts of the wave under way: the next step of each, its limits, and when its part has failed."""

from collections.abc import Generator, Iterator
from datetime import datetime, timedelta

from forewarn.core import moves
from forewarn.core.facts import AnyFact, Postponed
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Event, HostState
from forewarn.core.notice import Rules, whole_second
from forewarn.core.rollouts import host_steps, windows
from forewarn.core.rollouts.checks import command_length
from forewarn.core.rollouts.commands import AdvanceRollout
from forewarn.core.rollouts.facts import RolloutHostChanged, RolloutHostFailing
from forewarn.core.rollouts.model import HostRun, HostStep, Rollout, RolloutOperation, WindowClose

_REMOVED = "the host was removed from the fleet"

Hold = tuple[str, datetime | None]
"""What a host waits for, and until when if that is known."""
_NOTHING: Hold = "", None


def follow_hosts(
    fleet: Fleet, rollout: Rollout, command: AdvanceRollout, now: datetime, rules: Rules
) -> Generator[AnyFact, None, Hold]:
    """Let each host of the wave take its next step; return what the first of those waits for that may not."""
    failures: list[tuple[str, str]] = []
    changed: set[str] = set()
    holds: list[Hold] = []
    for run in host_steps.active_runs(fleet, rollout):
        if reason := _failure_of(fleet, rollout, run, now, rules):
            failures.append((run.host, reason))
            continue
        for fact in _follow_host(fleet, rollout, run, command, now, rules, holds):
            if isinstance(fact, RolloutHostChanged | RolloutHostFailing):
                changed.add(run.host)
            yield fact
    yield from host_steps.fail(fleet, rollout, failures, now, changed=changed)
    return holds[0] if holds else _NOTHING


def _failure_of(fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules) -> str:
    """Say why a host fails now; empty if it does not."""
    match run.step:
        case HostStep.ASKING | HostStep.PLANNING | HostStep.COMMAND:
            return _overdue(fleet, rollout, run, now, rules) if run.host in fleet.hosts else _REMOVED
        case HostStep.ANNOUNCED if not run.events and run.failure:
            return run.failure if run.then is HostStep.FAILED else ""
        case HostStep.ANNOUNCED if not run.events:
            return _undone(fleet, rollout, run) or (
                _overdue(fleet, rollout, run, now, rules) if _is_left(fleet, rollout, run, now, rules) else ""
            )
    return ""


def _is_left(fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules) -> bool:
    """Return whether anything is left to do or to wait for on a host whose events have ended."""
    operation = rollout.terms.operation
    is_command = operation is RolloutOperation.COMMAND
    return is_command or (operation.drains and bool(_hold_of(fleet, rollout, run, now, rules)))


def _overdue(fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules) -> str:
    """Say that a host has taken longer than its limit; empty if it has not."""
    limit = limit_of(fleet, rollout, run, rules)
    return f"it took longer than {rollout.terms.host_limit / rules.hurry:g} s" if limit and limit <= now else ""


def _follow_host(
    fleet: Fleet,
    rollout: Rollout,
    run: HostRun,
    command: AdvanceRollout,
    now: datetime,
    rules: Rules,
    holds: list[Hold],
) -> Iterator[AnyFact]:
    """Yield a host's next step; what it waits for is added to ``holds``."""
    operation = rollout.terms.operation
    match run.step:
        case HostStep.SETTLING if run.until is None or run.until <= now:
            yield RolloutHostChanged(rollout.name, run.host, now, HostStep.DONE)
        case HostStep.ANNOUNCED if undone := _undone(fleet, rollout, run):
            yield from host_steps.withdraw(fleet, rollout, run, now, undone, HostStep.FAILED)
        case HostStep.ANNOUNCED if run.events:
            yield from _keep_limits(fleet, rollout, run, now, rules)
        case HostStep.ANNOUNCED if run.failure:
            yield from host_steps.leave(fleet, rollout, run, now, run.failure, run.then)
        case HostStep.ANNOUNCED if operation.drains and (hold := _hold_of(fleet, rollout, run, now, rules)):
            holds.append(hold)
        case HostStep.ANNOUNCED if operation is RolloutOperation.COMMAND:
            yield RolloutHostChanged(
                rollout.name,
                run.host,
                now,
                HostStep.COMMAND,
                node=command.node,
                term=command.term,
                driver=command.driver,
            )
        case HostStep.ANNOUNCED:
            yield from host_steps.finish(fleet, rollout, run, now, rules)


def _undone(fleet: Fleet, rollout: Rollout, run: HostRun) -> str:
    """Say why the operation does not come about on a host that was announced; empty while it may, or did.

    An event of a VM that has left or is deallocated may be canceled: there is nothing left to be done to it.
    """
    if run.failure:
        return ""
    if run.host not in fleet.hosts:
        return _REMOVED
    for name, because in run.canceled.items():
        if fleet.state_of(run.host) is HostState.FAILED or _stays(fleet, name, run.host):
            return f"an event was canceled: {because}"
    if rollout.terms.operation.drains and not run.events:
        staying = [name for name in sorted(fleet.vms_on(run.host)) if _stays(fleet, name, run.host)]
        if staying:
            return f"VMs are on the host after its drain: {', '.join(staying[:5])}; move them, then retry"
    return ""


def _stays(fleet: Fleet, name: str, host: str) -> bool:
    vm = fleet.vms.get(name)
    return vm is not None and not vm.deallocated and vm.standing_on == host


def _hold_of(fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules) -> Hold | None:
    """Return what a drained host waits for, and until when; None where it is empty and stays so.

    A command begins as soon as a window is open for as long as it is expected to take.
    """
    if rollout.terms.operation is RolloutOperation.COMMAND:
        opens = _opens_for_command(rollout, now, rules)
        if opens != now:
            return "commands on hosts wait for a maintenance window", opens
    if arriving := next(moves.arriving_at(fleet, run.host, now, run.at), None):
        reason = f"host {run.host} waits for event {arriving.id} ({arriving.operation}), which may move VMs there"
        return reason, None
    return None


def _opens_for_command(rollout: Rollout, earliest: datetime, rules: Rules) -> datetime | None:
    """Return when a window is open for as long as the command on a host is expected to take."""
    longest = command_length(rollout.terms, rules, rollout.command_lasts)
    lasts = timedelta(seconds=min(longest, rollout.lasts))
    return windows.next_start(rollout.terms.windows, rollout.fleet_windows, earliest, lasts)


def _keep_limits(fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Let a host fail that takes too long; postpone or withdraw what a window no longer lets start."""
    if run.failure and host_steps.scheduled(fleet, run):
        yield from host_steps.withdraw(fleet, rollout, run, now, run.failure, run.then)
        return
    if overdue := _overdue(fleet, rollout, run, now, rules):
        yield from host_steps.withdraw(fleet, rollout, run, now, overdue, HostStep.FAILED)
        return
    moved = [(event, when) for event in host_steps.scheduled(fleet, run) if (when := _moved(rollout, event, now))]
    reason = f"the maintenance window of rollout {rollout.name} has closed"
    if any(when == windows.NEVER for _, when in moved):
        reason = host_steps.no_window(rollout)
        yield from host_steps.withdraw(fleet, rollout, run, now, reason, HostStep.WAITING)
    elif moved and rollout.terms.at_close is WindowClose.WITHDRAW:
        yield from host_steps.withdraw(fleet, rollout, run, now, reason, HostStep.WAITING)
    else:
        for event, when in moved:
            yield Postponed(event.id, now, NODE, 0, when, reason, group=event.group)


def _moved(rollout: Rollout, event: Event, now: datetime) -> datetime | None:
    """Return the time in a later window that an event is to be postponed to, or ``NEVER``; None where it can stay."""
    start = windows.held_until(rollout, max(event.not_before, now))
    return whole_second(start) if start else None


def limit_of(fleet: Fleet, rollout: Rollout, run: HostRun, rules: Rules) -> datetime | None:
    """Return when a host has taken too long; None where it has no limit, fails already, or is done but for settling.

    It counts from the earliest NotBefore of its events on. Without events, from the time at which a window lets the
    command begin; before anything is announced, from the beginning of the wave.
    """
    if not rollout.terms.host_limit or run.failure or run.step is HostStep.SETTLING:
        return None
    times = [fleet.events[id_].not_before for id_ in run.events]
    begins_at = min([*times, run.not_before] if run.not_before else times, default=None)
    if begins_at is None and run.step not in host_steps.UNANNOUNCED:
        begins_at = _opens_for_command(rollout, run.began_at, rules) or run.began_at
    return max(begins_at or run.began_at, run.began_at) + timedelta(seconds=rollout.terms.host_limit / rules.hurry)
