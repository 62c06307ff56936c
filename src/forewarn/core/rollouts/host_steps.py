"""How one host takes the steps of a rollout: announced, withdrawn, failed, settled."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from forewarn.core import hosts as host_rules
from forewarn.core import lifecycle, moves
from forewarn.core.commands import DrainHost, HostOperation, OperateHost
from forewarn.core.errors import PlanOutdated, Refused
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.facts import Announced, AnyFact, HostCordonSet
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus
from forewarn.core.notice import Rules
from forewarn.core.operations import derive_id
from forewarn.core.rollouts import windows
from forewarn.core.rollouts.commands import AdvanceRollout, DrainRolloutHost, ReportHostCommand
from forewarn.core.rollouts.facts import RolloutHostChanged, RolloutHostFailing, RolloutPaused, RolloutStopping
from forewarn.core.rollouts.limits import event_operation
from forewarn.core.rollouts.model import (
    FailurePolicy,
    HostRun,
    HostStep,
    Rollout,
    RolloutOperation,
    RolloutResult,
    RolloutState,
    run_key,
)

UNANNOUNCED = (HostStep.ASKING, HostStep.PLANNING)
"""The steps of a host before its VMs are told."""


def notice_of(rollout: Rollout, rules: Rules, *, live: bool) -> timedelta:
    """Return the least notice of the events that a rollout announces."""
    announcement = ANNOUNCEMENTS[event_operation(rollout.terms.operation)]
    least = rules.minimum(announcement.type)
    # Where guests move live, a few cannot, and are announced as redeployed.
    return max(least, rules.minimum(LIVE_MIGRATION.type)) if live and _moves(rollout) else least


def announce(
    fleet: Fleet,
    rollout: Rollout,
    host: str,
    number: int,
    command: AdvanceRollout | ReportHostCommand,
    now: datetime,
    rules: Rules,
    failures: list[tuple[str, str]],
    *,
    live: bool,
) -> Iterator[AnyFact]:
    """Announce a host's operation to its VMs, but not to those it was done to already.

    ``number`` tells the host from others of the same command. If it is refused, that is added to ``failures``.
    """
    run = run_of(fleet, rollout, host)
    if run and not windows.next_start_of(rollout, now):
        yield from leave(fleet, rollout, run, now, no_window(rollout), HostStep.WAITING)
        return
    operation = OperateHost(
        id=derive_id(command.id, number).replace("-", ""),
        by=command.by,
        operation=HostOperation(rollout.terms.operation),
        host=host,
        not_before=_not_before(rollout, now, rules, live=live),
        description=rollout.terms.description or None,
        live=live,
        spared=run.completed if run else rollout.completed.get(host, ()),
    )
    try:
        facts = list(host_rules.operate_host(fleet, operation, now, rules))
    except Refused as refused:
        failures.append((host, str(refused)))
        return
    yield from _announced(rollout, host, facts, now)


def drain(
    fleet: Fleet, rollout: Rollout, command: DrainRolloutHost, now: datetime, rules: Rules
) -> Iterator[AnyFact]:
    """Announce the moves that were planned for a host; refuse a plan that the fleet has overtaken."""
    run = run_of(fleet, rollout, command.host)
    if run and not windows.next_start_of(rollout, now):
        yield from leave(fleet, rollout, run, now, no_window(rollout), HostStep.WAITING)
        return
    if command.failure or command.left:
        left = "; ".join(f"{vm}: {why}" for vm, why in list(command.left.items())[:5])
        reason = command.failure or f"these VMs cannot leave the host, move them first: {left}"
        yield from fail(fleet, rollout, [(command.host, reason)], now)
        return
    operation = DrainHost(
        id=command.id,
        by=command.by,
        host=command.host,
        placements=command.placements,
        cold=command.cold,
        not_before=_not_before(rollout, now, rules, live=command.live),
        description=rollout.terms.description or None,
        live=command.live,
    )
    is_cordoned = command.host not in fleet.cordoned
    try:
        facts = list(moves.drain_host(fleet, operation, now, rules))
    except PlanOutdated:
        raise
    except Refused as refused:
        yield from fail(fleet, rollout, [(command.host, str(refused))], now)
        return
    yield from _announced(rollout, command.host, facts, now, is_cordoned=is_cordoned)


def _announced(
    rollout: Rollout, host: str, facts: list[AnyFact], now: datetime, *, is_cordoned: bool | None = None
) -> Iterator[AnyFact]:
    events = []
    for fact in facts:
        if isinstance(fact, Announced):
            events.append(fact.event.id)
            yield Announced(replace(fact.event, rollout=rollout.name))
        else:
            yield fact
    yield RolloutHostChanged(
        rollout.name, host, now, HostStep.ANNOUNCED, events=tuple(events), is_cordoned=is_cordoned
    )


def _not_before(rollout: Rollout, now: datetime, rules: Rules, *, live: bool) -> datetime | None:
    if not rollout.has_windows:
        return None
    return windows.next_start_of(rollout, now + notice_of(rollout, rules, live=live))


def no_window(rollout: Rollout) -> str:
    """Say that nothing of a rollout may start any more, as long as the windows are these."""
    return f"no maintenance window opens any more that is long enough for rollout {rollout.name}"


def run_of(fleet: Fleet, rollout: Rollout, host: str) -> HostRun | None:
    return fleet.rollout_hosts.get(run_key(rollout.name, host))


def active_runs(fleet: Fleet, rollout: Rollout) -> list[HostRun]:
    """Return how the hosts of the wave stand; each of them has a record."""
    return [fleet.rollout_hosts[run_key(rollout.name, host)] for host in rollout.active]


def scheduled(fleet: Fleet, run: HostRun) -> list[Event]:
    """Return a host's events that have not started."""
    events = (fleet.events[id_] for id_ in run.events)
    return [event for event in events if event.status is EventStatus.SCHEDULED]


def withdraw(
    fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, reason: str, then: HostStep
) -> Iterator[AnyFact]:
    """Cancel what is Scheduled on a host; its next step comes at once, or when its Started events have ended.

    The reason may name VMs of other groups, so that it is not told to the events' groups.
    """
    canceled = scheduled(fleet, run)
    for event in canceled:
        yield lifecycle.cancel(event, now, f"withdrawn by rollout {rollout.name}")
    if len(canceled) < len(run.events) or then is HostStep.FAILED:  # the next round sees what a failure leads to
        yield RolloutHostFailing(rollout.name, run.host, now, reason, then)
        return
    yield from leave(fleet, rollout, run, now, reason, then)


def leave(
    fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, reason: str, then: HostStep
) -> Iterator[AnyFact]:
    """End a host's part without its operation, so that it is skipped or waits again."""
    if run.is_cordoned and moves.may_be_uncordoned(fleet, run.host):
        yield HostCordonSet(run.host, False, now)
    yield RolloutHostChanged(rollout.name, run.host, now, then, reason)


def finish(
    fleet: Fleet, rollout: Rollout, run: HostRun, now: datetime, rules: Rules, exit_status: int | None = None
) -> Iterator[AnyFact]:
    """Uncordon a host whose operation is over, and let it settle."""
    is_cordoned = run.is_cordoned
    if (
        is_cordoned
        and rollout.terms.operation is RolloutOperation.COMMAND
        and moves.may_be_uncordoned(fleet, run.host)
    ):
        is_cordoned = False
        yield HostCordonSet(run.host, False, now)
    terms = rollout.terms
    is_canary = run.host in rollout.hosts[: rollout.canaries]
    seconds = (terms.canary_settle or terms.settle) if is_canary else terms.settle
    until = now + timedelta(seconds=seconds / rules.hurry) if seconds else None
    step = HostStep.SETTLING if until else HostStep.DONE
    yield RolloutHostChanged(
        rollout.name, run.host, now, step, until=until, exit_status=exit_status, is_cordoned=is_cordoned
    )


def fail(
    fleet: Fleet,
    rollout: Rollout,
    failures: list[tuple[str, str]],
    now: datetime,
    exit_status: int | None = None,
    changed: Collection[str] = (),
) -> Iterator[AnyFact]:
    """Let hosts fail; pause or stop the rollout where more have failed than it tolerates.

    ``changed`` are the hosts that take another step in the same round, and stay as they are then.
    """
    for host, reason in failures:
        yield RolloutHostChanged(rollout.name, host, now, HostStep.FAILED, reason, exit_status=exit_status)
    terms = rollout.terms
    failed = rollout.failed + len(failures) - rollout.forgiven
    is_tolerated = terms.on_failure is FailurePolicy.SKIP or failed <= terms.max_failures
    if not failures or is_tolerated or rollout.state is RolloutState.STOPPING:
        return
    host, reason = failures[-1]
    tolerated = f", and {terms.max_failures} are tolerated" if terms.max_failures else ""
    because = f"host {host} failed: {reason}{tolerated}"
    settled = {*changed, *(host for host, _ in failures)}
    if terms.on_failure is FailurePolicy.PAUSE:
        if rollout.state is RolloutState.RUNNING:
            yield RolloutPaused(rollout.name, now, because)
        yield from put_back(fleet, rollout, now, f"rollout {rollout.name}: {because}", settled)
    else:
        yield from stop(fleet, rollout, now, RolloutResult.STOPPED, because, settled)


def put_back(fleet: Fleet, rollout: Rollout, now: datetime, reason: str, ended: set[str]) -> Iterator[AnyFact]:
    """Let the hosts of a rollout that pauses wait again, if nothing was announced there yet."""
    for run in active_runs(fleet, rollout):
        if run.host not in ended and run.step in UNANNOUNCED:
            yield from leave(fleet, rollout, run, now, reason, HostStep.WAITING)


def stop(
    fleet: Fleet, rollout: Rollout, now: datetime, result: RolloutResult, reason: str, ended: set[str] | None = None
) -> Iterator[AnyFact]:
    """Withdraw what is Scheduled and announce nothing more; Started events end first."""
    yield RolloutStopping(rollout.name, now, result, reason)
    for run in active_runs(fleet, rollout):
        if run.host not in (ended or ()) and run.step not in (HostStep.COMMAND, HostStep.SETTLING):
            yield from withdraw(fleet, rollout, run, now, f"rollout {rollout.name}: {reason}", HostStep.SKIPPED)


def _moves(rollout: Rollout) -> bool:
    return rollout.terms.operation.drains or rollout.terms.operation is RolloutOperation.REDEPLOY
