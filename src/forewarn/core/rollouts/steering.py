"""What operators do to rollouts: start, edit, pause, resume, cancel, retry and skip hosts."""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core.errors import Refused, Unknown, unknown
from forewarn.core.facts import AnyFact, HostCordonSet
from forewarn.core.fleet import Fleet
from forewarn.core.moves import may_be_uncordoned
from forewarn.core.notice import Rules
from forewarn.core.rollouts import host_steps
from forewarn.core.rollouts.checks import check_terms, expected_length
from forewarn.core.rollouts.commands import (
    CancelRollout,
    EditRollout,
    PauseRollout,
    ResumeRollout,
    RetryHosts,
    SkipHost,
    StartRollout,
)
from forewarn.core.rollouts.conflicts import conflicts, queue_reason, why_refused
from forewarn.core.rollouts.facts import (
    RolloutEdited,
    RolloutEnded,
    RolloutHostChanged,
    RolloutPaused,
    RolloutResumed,
    RolloutStarted,
)
from forewarn.core.rollouts.host_steps import run_of
from forewarn.core.rollouts.model import (
    HOST_ENDS,
    HostStep,
    Rollout,
    RolloutResult,
    RolloutState,
)
from forewarn.core.rollouts.selection import count_canaries, select_hosts
from forewarn.core.terms import check_name


def find_rollout(fleet: Fleet, name: str) -> Rollout:
    """Return the rollout of that name that has not ended."""
    if rollout := fleet.rollouts.get(name):
        return rollout
    error = unknown("unfinished rollout", name, fleet.rollouts)
    raise Unknown(f"{error}; 'forewarn rollout list --all' shows those that have ended")


def start(fleet: Fleet, command: StartRollout, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Begin a rollout; refuse what could not be carried out, before anything is announced."""
    check_name("rollout", command.name)
    terms = command.terms
    hosts = select_hosts(fleet, terms)
    if reason := why_refused(fleet, command.name, terms, hosts):
        raise Refused(reason)
    recorded = command.recorded.host
    check_terms(fleet, terms, hosts, now, rules, runs_commands=command.runs_commands, recorded=recorded)
    others = conflicts(fleet, command.name, hosts)
    yield RolloutStarted(
        Rollout(
            name=command.name,
            id=command.id,
            by=str(command.by),
            terms=terms,
            hosts=hosts,
            canaries=count_canaries(fleet, terms, hosts),
            started_at=now,
            state=RolloutState.QUEUED if others else RolloutState.RUNNING,
            reason=queue_reason(others),
            fleet_windows=rules.maintenance_windows,
            lasts=expected_length(terms, rules, recorded),
            command_lasts=command.recorded.command,
            prediction=command.prediction,
        )
    )


def edit(fleet: Fleet, command: EditRollout, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Change everything but the operation and the hosts, which are what the rollout is."""
    rollout = find_rollout(fleet, command.name)
    before, after = rollout.terms, command.terms
    for key in ("operation", "hosts", "selector", "all_hosts", "command"):
        if getattr(before, key) != getattr(after, key):
            raise Refused(f"{key} of a rollout cannot be changed; cancel it, and start another")
    for key in ("order", "order_label", "canary", "canary_hosts") if rollout.hosts and not after.every else ():
        if getattr(before, key) != getattr(after, key):
            raise Refused(
                f"the order of hosts is fixed when a rollout starts, so {key} would change nothing; leave it out"
            )
    recorded = rollout.lasts if before.expected == after.expected else 0.0
    hosts = rollout.hosts or select_hosts(fleet, after)
    check_terms(fleet, after, hosts, now, rules, runs_commands=command.runs_commands, recorded=recorded)
    if before != after:
        changed = [key for key in after.__struct_fields__ if getattr(before, key) != getattr(after, key)]
        lasts = expected_length(after, rules, recorded)
        reason = f"{', '.join(changed)} changed by {command.by}"
        yield RolloutEdited(rollout.name, now, after, rules.maintenance_windows, lasts, reason)


def pause(fleet: Fleet, command: PauseRollout, now: datetime) -> Iterator[AnyFact]:
    """Announce nothing more; what is Scheduled stays, or is withdrawn and announced anew after the pause."""
    rollout = find_rollout(fleet, command.name)
    if rollout.state not in (RolloutState.RUNNING, RolloutState.PAUSED):
        raise Refused(f"rollout {rollout.name} is {rollout.state}; only a running one can be paused")
    reason = f"paused by {command.by}"
    if rollout.state is RolloutState.RUNNING:
        yield RolloutPaused(rollout.name, now, reason)
    for run in host_steps.active_runs(fleet, rollout):
        if run.step in host_steps.UNANNOUNCED or (command.withdraw and run.step is HostStep.ANNOUNCED):
            because = f"rollout {rollout.name} was {reason}"
            yield from host_steps.withdraw(fleet, rollout, run, now, because, HostStep.WAITING)


def resume(fleet: Fleet, command: ResumeRollout, now: datetime) -> Iterator[AnyFact]:
    rollout = find_rollout(fleet, command.name)
    if rollout.state is RolloutState.RUNNING:
        return
    if rollout.state is not RolloutState.PAUSED:
        raise Refused(f"rollout {rollout.name} is {rollout.state}, and not paused; there is nothing to resume")
    yield RolloutResumed(rollout.name, now, f"resumed by {command.by}")


def cancel(fleet: Fleet, command: CancelRollout, now: datetime) -> Iterator[AnyFact]:
    """Withdraw what is Scheduled; a rollout with Started events ends when these have."""
    rollout = find_rollout(fleet, command.name)
    reason = f"canceled by {command.by}"
    if rollout.state is RolloutState.STOPPING:
        return
    if rollout.state in (RolloutState.QUEUED, RolloutState.RESTING):
        yield RolloutEnded(
            rollout.name,
            now,
            RolloutResult.CANCELED,
            reason,
            waiting=len(rollout.hosts),
            prediction=rollout.prediction,
        )
        return
    yield from host_steps.stop(fleet, rollout, now, RolloutResult.CANCELED, reason)


def retry(fleet: Fleet, command: RetryHosts, now: datetime) -> Iterator[AnyFact]:
    """Let failed and skipped hosts wait again; without names, all that failed."""
    rollout = find_rollout(fleet, command.name)
    runs = {host: run for host in rollout.hosts if (run := run_of(fleet, rollout, host))}
    hosts = command.hosts or tuple(host for host, run in runs.items() if run.step is HostStep.FAILED)
    if not hosts:
        hint = "; a skipped one is retried if you name it" if rollout.skipped else ""
        raise Refused(f"no host of rollout {rollout.name} has failed; there is nothing to retry{hint}")
    for host in hosts:
        _check_member(rollout, host)
        step = runs[host].step if host in runs else HostStep.WAITING
        if step not in (HostStep.FAILED, HostStep.SKIPPED):
            raise Refused(f"host {host} is {step}, and has not failed; leave it out")
    for host in hosts:
        if runs[host].is_cordoned and may_be_uncordoned(fleet, host):
            yield HostCordonSet(host, False, now)
        yield RolloutHostChanged(rollout.name, host, now, HostStep.WAITING, f"retried by {command.by}")


def skip(fleet: Fleet, command: SkipHost, now: datetime) -> Iterator[AnyFact]:
    """Leave a host out that has not ended, or that failed."""
    rollout = find_rollout(fleet, command.name)
    _check_member(rollout, command.host)
    run = run_of(fleet, rollout, command.host)
    reason = f"skipped by {command.by}"
    if run is None or run.step is HostStep.FAILED:
        yield RolloutHostChanged(rollout.name, command.host, now, HostStep.SKIPPED, reason)
    elif run.step in HOST_ENDS:
        raise Refused(f"host {command.host} is {run.step} already")
    elif run.step is HostStep.COMMAND:
        raise Refused(f"a command runs on host {command.host}; wait until it has ended")
    elif run.step is HostStep.SETTLING:
        yield RolloutHostChanged(rollout.name, command.host, now, HostStep.DONE, reason)
    else:
        yield from host_steps.withdraw(fleet, rollout, run, now, reason, HostStep.SKIPPED)


def _check_member(rollout: Rollout, host: str) -> None:
    if host not in rollout.hosts:
        raise unknown(f"host in rollout {rollout.name} named", host, rollout.hosts)
