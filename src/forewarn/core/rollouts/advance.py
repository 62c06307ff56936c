"""What a rollout does next, from the fleet as it is: one round at a time, until nothing is left to do now.

    every host of the wave takes its next step
    when all have ended: window, gate and alerts, then the next wave; or the end

``AdvanceRollout`` asks for a round. It is submitted after every commit that concerns the rollout, and at
``wake_at``. What only the outside can do is in ``actions_due``, and its result comes back as a command. So after a
crash all of it is derived from the fleet again.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from forewarn.core.commands import (
    AdvanceRollout,
    DrainRolloutHost,
    HostCommandPurpose,
    ReportHostCommand,
    ReportRolloutCheck,
)
from forewarn.core.errors import Refused
from forewarn.core.event_types import moves_vms
from forewarn.core.facts import (
    AnyFact,
    Postponed,
    RolloutBlocked,
    RolloutChecked,
    RolloutEdited,
    RolloutEnded,
    RolloutHostChanged,
    RolloutHostFailing,
    RolloutLate,
    RolloutPaused,
    RolloutResumed,
    RolloutStarted,
    RolloutWaveStarted,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Event, EventStatus, HostState
from forewarn.core.notice import Rules, whole_second
from forewarn.core.rollouts import host_steps, windows
from forewarn.core.rollouts.checks import command_length, expected_length
from forewarn.core.rollouts.host_steps import run_of
from forewarn.core.rollouts.limits import Occupancy, next_wave
from forewarn.core.rollouts.model import (
    ConflictPolicy,
    HostRun,
    HostStep,
    Rollout,
    RolloutOperation,
    RolloutResult,
    RolloutState,
    RolloutTerms,
    WindowClose,
)
from forewarn.core.rollouts.selection import count_canaries, select_hosts

_RESERVED = "plan"
_REMOVED = "the host was removed from the fleet"
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
    host: str = ""
    wave: int = 0


_ACTIONS = {
    HostStep.ASKING: RolloutActionKind.ASK,
    HostStep.PLANNING: RolloutActionKind.PLAN,
    HostStep.COMMAND: RolloutActionKind.RUN,
}


def actions_due(fleet: Fleet, rollout: Rollout, now: datetime) -> Iterator[RolloutAction]:
    """Yield what is to be done outside; what is under way already is yielded again."""
    for host in rollout.active:
        run = run_of(fleet, rollout, host)
        if run and run.step in _ACTIONS:
            yield RolloutAction(rollout.name, _ACTIONS[run.step], host, run.wave)
    is_held = (
        bool(rollout.blocked) and rollout.blocked_until is None
    )  # by limits: the gate is asked when it can begin
    if _is_between_waves(rollout) and _needs_check(rollout) and not is_held and not _waits(rollout, now):
        yield RolloutAction(rollout.name, RolloutActionKind.CHECK, wave=rollout.wave + 1)


def wake_at(fleet: Fleet, rollout: Rollout, now: datetime, rules: Rules) -> datetime | None:
    """Return when the next round is worth trying, if nothing happens before."""
    times: list[datetime | None] = [rollout.begins_at, rollout.blocked_until, rollout.check_after]
    if rollout.prediction and not rollout.is_late:
        times.append(rollout.prediction.latest)
    for host in rollout.active:
        if run := run_of(fleet, rollout, host):
            times += [run.until, _limit_of(fleet, rollout, run, rules)]
    if rollout.active and rollout.has_windows:
        closes = windows.open_until(rollout.terms.windows, rollout.fleet_windows, now)
        if closes:
            times += [closes, closes - timedelta(seconds=rollout.lasts)]
        else:
            times.append(windows.next_start(rollout.terms.windows, rollout.fleet_windows, now, timedelta(0)))
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
            yield from _begin_again(fleet, rollout, now, rules)
            return
        case RolloutState.QUEUED:
            if not conflicts(fleet, rollout.name, rollout.hosts):
                yield RolloutResumed(rollout.name, now, "no other rollout has its hosts any more")
            return
    if rollout.fleet_windows != rules.maintenance_windows:
        yield RolloutEdited(rollout.name, now, rollout.terms, rules.maintenance_windows, rollout.lasts)
        return
    if rollout.prediction and not rollout.is_late and rollout.prediction.latest <= now:
        yield RolloutLate(rollout.name, now, rollout.prediction.latest)
    if rollout.active:
        yield from _follow_hosts(fleet, rollout, command, now, rules)
    elif rollout.state is RolloutState.STOPPING:
        yield _ended(rollout, now, rollout.ends_as, rollout.reason, rules)
    elif rollout.state is RolloutState.RUNNING:
        yield from _begin_wave(fleet, rollout, command, now, rules)


def conflicts(fleet: Fleet, name: str, hosts: tuple[str, ...]) -> dict[str, str]:
    """Return the rollouts that began before this one and share a host with it, each with such a host.

    One that has not begun comes after all others.
    """
    mine = set(hosts)
    found = {}
    for other in fleet.rollouts.values():
        if other.name == name and other.state is not RolloutState.RESTING:
            break  # those that were queued later wait for this one
        shared = next((host for host in other.hosts if host in mine and not _has_ended(fleet, other, host)), "")
        if shared:
            found[other.name] = shared
    return found


def why_refused(fleet: Fleet, name: str, terms: RolloutTerms, hosts: tuple[str, ...]) -> str:
    """Say why a rollout cannot be started beside those that have not ended; empty if it can."""
    if name == _RESERVED:
        return f"no rollout can be named {name}: that is an address of the control API; choose another name"
    if running := fleet.rollouts.get(name):
        return (
            f"rollout {name} is {running.state} already, started by {running.by} at "
            f"{running.started_at:%Y-%m-%dT%H:%M:%SZ}; see 'forewarn rollout show {name}'"
        )
    others = conflicts(fleet, name, hosts)
    if others and terms.on_conflict is ConflictPolicy.REFUSE:
        return (
            f"{queue_reason(others)}; wait until it has ended, leave these hosts out, "
            "or let this one wait: --on-conflict queue"
        )
    return ""


def _has_ended(fleet: Fleet, rollout: Rollout, host: str) -> bool:
    run = run_of(fleet, rollout, host)
    return run is not None and run.step in (HostStep.DONE, HostStep.SKIPPED)


def _begin_again(fleet: Fleet, rollout: Rollout, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    if rollout.begins_at and rollout.begins_at > now:
        return
    try:
        hosts = select_hosts(fleet, rollout.terms)
    except Refused as refused:
        yield _ended(rollout, now, RolloutResult.COMPLETED, f"nothing to do: {refused}", rules)
        return
    others = conflicts(fleet, rollout.name, hosts)
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
            lasts=expected_length(rollout.terms, rules, rollout.lasts),
        )
    )


def queue_reason(others: dict[str, str]) -> str:
    """Say which rollout a rollout waits for; nothing if it waits for none."""
    return "; ".join(f"rollout {name} has host {host}" for name, host in others.items())


def _follow_hosts(
    fleet: Fleet, rollout: Rollout, command: AdvanceRollout, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    failures: list[tuple[str, str]] = []
    changed: set[str] = set()
    for host in rollout.active:
        run = run_of(fleet, rollout, host)
        if run is None:
            continue
        if reason := _failure_of(fleet, rollout, run):
            failures.append((host, reason))
            continue
        for fact in _follow_host(fleet, rollout, run, command, now, rules):
            if isinstance(fact, RolloutHostChanged | RolloutHostFailing):
                changed.add(host)
            yield fact
    yield from host_steps.fail(fleet, rollout, failures, now, changed=changed)


def _failure_of(fleet: Fleet, rollout: Rollout, run: HostRun) -> str:
    """Say why a host fails now; empty if it does not."""
    match run.step:
        case HostStep.ASKING | HostStep.PLANNING | HostStep.COMMAND if run.host not in fleet.hosts:
            return _REMOVED
        case HostStep.ANNOUNCED if not run.events and run.failure:
            return run.failure if run.then is HostStep.FAILED else ""
        case HostStep.ANNOUNCED if not run.events:
            return _undone(fleet, rollout, run)
    return ""


def _follow_host(
    fleet: Fleet, rollout: Rollout, run: HostRun, command: AdvanceRollout, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    match run.step:
        case HostStep.SETTLING if run.until is None or run.until <= now:
            yield RolloutHostChanged(rollout.name, run.host, now, HostStep.DONE)
        case HostStep.ANNOUNCED if run.events and (undone := _undone(fleet, rollout, run)):
            yield from host_steps.withdraw(fleet, rollout, run, now, undone, HostStep.FAILED)
        case HostStep.ANNOUNCED if run.events:
            yield from _keep_limits(fleet, rollout, run, now, rules)
        case HostStep.ANNOUNCED if run.failure:
            yield from host_steps.leave(fleet, rollout, run, now, run.failure, run.then)
        case HostStep.ANNOUNCED if rollout.terms.operation is RolloutOperation.COMMAND:
            yield from _begin_command(fleet, rollout, run, command, now, rules)
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
    if rollout.terms.operation.drains and not run.events and rollout.state is not RolloutState.STOPPING:
        staying = [name for name in sorted(fleet.vms_on(run.host)) if _stays(fleet, name, run.host)]
        if staying:
            return f"VMs are on the host after its drain: {', '.join(staying[:5])}; move them, then retry"
    return ""


def _stays(fleet: Fleet, name: str, host: str) -> bool:
    vm = fleet.vms.get(name)
    return vm is not None and not vm.deallocated and vm.standing_on == host


def _begin_command(
    fleet: Fleet, rollout: Rollout, run: HostRun, command: AdvanceRollout, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    """Let the command begin on a drained host, as soon as a window is open for as long as it is expected to take."""
    if rollout.state is RolloutState.STOPPING:
        yield from host_steps.leave(fleet, rollout, run, now, rollout.reason, HostStep.SKIPPED)
        return
    if rollout.has_windows:
        longest = command_length(rollout.terms, rules, rollout.command_lasts)
        lasts = timedelta(seconds=min(longest, rollout.lasts))
        opens = windows.next_start(rollout.terms.windows, rollout.fleet_windows, now, lasts)
        if opens != now:
            yield from _block(rollout, now, "commands on hosts wait for a maintenance window", opens)
            return
    if arriving := _may_arrive(fleet, run, now):
        reason = f"commands on hosts wait for event {arriving.id} ({arriving.operation}), which may move VMs there"
        yield from _block(rollout, now, reason, None)
        return
    if rollout.blocked:
        yield RolloutBlocked(rollout.name, now, "", None)
    yield RolloutHostChanged(
        rollout.name, run.host, now, HostStep.COMMAND, node=command.node, term=command.term, driver=command.driver
    )


def _may_arrive(fleet: Fleet, run: HostRun, now: datetime) -> Event | None:
    """Return an event that may be moving VMs to a drained host: its driver chose among hosts before the cordon.

    One that seems to have started in the future started before the clock was set back.
    """
    is_cordoned = run.host in fleet.cordoned
    for event in fleet.events.values():
        if event.status is EventStatus.STARTED and moves_vms(event) and not event.targets:
            is_later = event.started_at is not None and run.at < event.started_at <= now
            if not (is_cordoned and is_later):
                return event
    return None


def _keep_limits(fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Let a host fail that takes too long; postpone or withdraw what a window no longer lets start."""
    if run.failure and host_steps.scheduled(fleet, run):
        yield from host_steps.withdraw(fleet, rollout, run, now, run.failure, run.then)
        return
    limit = _limit_of(fleet, rollout, run, rules)
    if limit and limit <= now and not run.failure:
        reason = f"it took longer than {rollout.terms.host_limit} s"
        yield from host_steps.withdraw(fleet, rollout, run, now, reason, HostStep.FAILED)
        return
    if not rollout.has_windows or run.failure:
        return
    moved = [(event, when) for event in host_steps.scheduled(fleet, run) if (when := _moved(rollout, event, now))]
    if moved and rollout.terms.at_close is WindowClose.WITHDRAW:
        reason = f"the maintenance window of rollout {rollout.name} has closed"
        yield from host_steps.withdraw(fleet, rollout, run, now, reason, HostStep.WAITING)
        return
    for event, when in moved:
        reason = f"the maintenance window of rollout {rollout.name} has closed"
        yield Postponed(event.id, now, NODE, 0, when, reason, group=event.group)


def _moved(rollout: Rollout, event: Event, now: datetime) -> datetime | None:
    """Return the time in a later window that an event is to be postponed to; None where it can stay."""
    least = max(event.not_before, now)
    start = host_steps.next_start(rollout, least)
    return whole_second(start) if start and start > least else None


def _limit_of(fleet: Fleet, rollout: Rollout, run: HostRun, rules: Rules) -> datetime | None:
    """Return when a host has taken too long, from the earliest NotBefore of its events on."""
    if not rollout.terms.host_limit or run.step is not HostStep.ANNOUNCED or run.failure or not run.events:
        return None
    begins_at = min(fleet.events[id_].not_before for id_ in run.events)
    return max(begins_at, run.began_at) + timedelta(seconds=rollout.terms.host_limit / rules.hurry)


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
    if wave.hosts and _needs_check(rollout):
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
    start = host_steps.next_start(rollout, now + notice)
    if start is None:
        return "no maintenance window opens that is long enough; edit the windows", None
    announce_at = start - max(notice, timedelta(seconds=rollout.terms.lead / rules.hurry))
    if announce_at <= now:
        return None
    return f"the next maintenance window opens at {start:%Y-%m-%dT%H:%M:%SZ}", announce_at


def _is_between_waves(rollout: Rollout) -> bool:
    is_over = rollout.position >= len(rollout.hosts)
    return rollout.state is RolloutState.RUNNING and not rollout.active and not is_over


def _needs_check(rollout: Rollout) -> bool:
    return bool(rollout.terms.gate or rollout.terms.alerts) and rollout.checked <= rollout.wave


def _waits(rollout: Rollout, now: datetime) -> bool:
    return any(when and when > now for when in (rollout.blocked_until, rollout.check_after))


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


def drain_host(fleet: Fleet, command: DrainRolloutHost, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Announce the moves that were planned; a plan that comes too late changes nothing."""
    rollout, run = _asked_for(fleet, command.rollout, command.host, HostStep.PLANNING)
    if rollout and run:
        yield from host_steps.drain(fleet, rollout, command, now, rules)


def report_command(fleet: Fleet, command: ReportHostCommand, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Let a host go on after a command on it has ended."""
    step = HostStep.ASKING if command.purpose is HostCommandPurpose.ASK else HostStep.COMMAND
    rollout, run = _asked_for(fleet, command.rollout, command.host, step)
    if rollout is None or run is None:
        return
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


def _asked_for(fleet: Fleet, name: str, host: str, step: HostStep) -> tuple[Rollout | None, HostRun | None]:
    """Return a rollout and its host, if that still waits for a result; else nothing."""
    rollout = fleet.rollouts.get(name)
    run = run_of(fleet, rollout, host) if rollout else None
    return (rollout, run) if run and run.step is step else (None, None)
