"""What facts make of rollouts. ``Fleet.evolve`` calls this; nothing else changes a rollout."""

from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from forewarn.core import facts
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.core.rollouts.facts import RolloutFact
from forewarn.core.rollouts.model import HOST_ENDS, HostRun, HostStep, Rollout, RolloutState, run_key

if TYPE_CHECKING:
    from forewarn.core.fleet import Fleet

_COUNTS = {HostStep.DONE: "done", HostStep.FAILED: "failed", HostStep.SKIPPED: "skipped"}


def evolve_rollout(fleet: "Fleet", fact: RolloutFact) -> None:
    """Make of the rollout what the fact made of it."""
    if isinstance(fact, rollout_facts.RolloutStarted):
        fleet.rollouts.pop(fact.rollout.name, None)  # one that begins again comes after those that began meanwhile
        fleet.rollouts[fact.rollout.name] = fact.rollout
        return
    rollout = fleet.rollouts[fact.rollout]
    match fact:
        case rollout_facts.RolloutEdited(terms=terms, fleet_windows=windows, lasts=lasts):
            _set(fleet, rollout, terms=terms, fleet_windows=windows, lasts=lasts, blocked="", blocked_until=None)
        case rollout_facts.RolloutPaused(reason=reason):
            _set(fleet, rollout, state=RolloutState.PAUSED, reason=reason, blocked="", blocked_until=None)
        case rollout_facts.RolloutResumed():
            changed = {"reason": "", "forgiven": rollout.failed, "check_after": None}
            _set(fleet, rollout, state=RolloutState.RUNNING, **changed)
        case rollout_facts.RolloutStopping(result=result, reason=reason):
            _set(fleet, rollout, state=RolloutState.STOPPING, ends_as=result, reason=reason, blocked="")
        case rollout_facts.RolloutBlocked(reason=reason, until=until):
            checked = min(rollout.checked, rollout.wave)  # what the gate said is old when the wave begins
            _set(fleet, rollout, blocked=reason, blocked_until=until, checked=checked)
        case rollout_facts.RolloutChecked(wave=wave, passed=passed, detail=detail, again_at=again_at):
            checked = wave if passed else rollout.checked
            _set(fleet, rollout, checked=checked, check_detail=detail, check_after=again_at)
        case rollout_facts.RolloutWaveStarted(at=at, wave=wave, hosts=hosts, step=step):
            for host in hosts:
                run = HostRun(rollout.name, host, step, wave, at, at, completed=rollout.completed.get(host, ()))
                fleet.rollout_hosts[run.key] = run
            changed = {"blocked": "", "blocked_until": None}
            _set(fleet, _with_position(fleet, rollout), wave=wave, active=hosts, **changed)
        case rollout_facts.RolloutHostChanged():
            _change_host(fleet, rollout, fact)
        case rollout_facts.RolloutHostFailing(host=host, reason=reason, then=then):
            key = run_key(rollout.name, host)
            fleet.rollout_hosts[key] = replace(fleet.rollout_hosts[key], failure=reason, then=then)
        case rollout_facts.RolloutLate():
            _set(fleet, rollout, is_late=True)
        case rollout_facts.RolloutEnded():
            _end(fleet, rollout, fact)
        case _:
            assert_never(fact)


def end_event(fleet: "Fleet", fact: facts.EventChanged) -> None:
    """Note how an event of a rollout has ended; one that failed, or that a caller canceled, fails its host.

    Whether another cancellation does depends on what becomes of its VMs: the next round sees that.
    """
    key = fleet.rollout_events.pop(fact.event, None)
    run = fleet.rollout_hosts.get(key) if key else None
    if run is None:
        return
    failure, completed, canceled = run.failure, run.completed, run.canceled
    event = fleet.events[fact.event]
    vms = event.vms
    match fact:
        case facts.Completed():
            completed = (*completed, *vms)
        case facts.Failed(reason=reason):
            failure = failure or reason
        case facts.Canceled(because=because, is_by_caller=True):
            failure = failure or f"an event was {because}"
        case facts.Canceled(because=because):
            canceled = canceled | dict.fromkeys(vms, because)
    events = tuple(id_ for id_ in run.events if id_ != fact.event)
    fleet.rollout_hosts[run.key] = replace(
        run,
        events=events,
        failure=failure,
        completed=completed,
        canceled=canceled,
        not_before=min(run.not_before or event.not_before, event.not_before),
    )


def _change_host(fleet: "Fleet", rollout: Rollout, fact: rollout_facts.RolloutHostChanged) -> None:
    key = run_key(rollout.name, fact.host)
    before = fleet.rollout_hosts.get(key)
    for id_ in before.events if before else ():
        fleet.rollout_events.pop(id_, None)
    is_active = fact.step not in HOST_ENDS and fact.step is not HostStep.WAITING
    if fact.step is HostStep.WAITING:
        fleet.rollout_hosts.pop(key, None)
        place = min(rollout.position, rollout.hosts.index(fact.host))
        done = {fact.host: before.completed} if before and before.completed else {}
        rollout = replace(rollout, position=place, completed=rollout.completed | done)
    else:
        run = before or HostRun(rollout.name, fact.host, fact.step, rollout.wave, fact.at, fact.at)
        is_cordoned = run.is_cordoned if fact.is_cordoned is None else fact.is_cordoned
        status = run.exit_status if fact.exit_status is None else fact.exit_status
        fleet.rollout_hosts[key] = replace(
            run,
            step=fact.step,
            at=fact.at,
            events=fact.events,
            failure="",
            then=HostStep.FAILED,
            until=fact.until,
            reason=fact.reason,
            exit_status=status,
            is_cordoned=is_cordoned,
            node=fact.node,
            term=fact.term,
            completed=() if fact.step is HostStep.DONE else run.completed,
            canceled={},
        )
        fleet.rollout_events.update(dict.fromkeys(fact.events, key))
        rollout = _with_position(fleet, rollout)
    if not is_active:
        rollout = replace(rollout, active=tuple(each for each in rollout.active if each != fact.host))
    rollout = _counted(_counted(rollout, before.step if before else fact.step, -1 if before else 0), fact.step, 1)
    fleet.rollouts[rollout.name] = replace(rollout, forgiven=min(rollout.forgiven, rollout.failed))


def _counted(rollout: Rollout, step: HostStep, by: int) -> Rollout:
    name = _COUNTS.get(step)
    return replace(rollout, **{name: getattr(rollout, name) + by}) if name else rollout


def _with_position(fleet: "Fleet", rollout: Rollout) -> Rollout:
    """Return the rollout with the place before which all hosts have begun."""
    place = rollout.position
    while place < len(rollout.hosts) and run_key(rollout.name, rollout.hosts[place]) in fleet.rollout_hosts:
        place += 1
    return replace(rollout, position=place)


def _end(fleet: "Fleet", rollout: Rollout, fact: rollout_facts.RolloutEnded) -> None:
    for host in rollout.hosts:
        run = fleet.rollout_hosts.pop(run_key(rollout.name, host), None)
        for id_ in run.events if run else ():
            fleet.rollout_events.pop(id_, None)
    del fleet.rollouts[rollout.name]
    if fact.next_at:
        fleet.rollouts[rollout.name] = Rollout(
            name=rollout.name,
            id=rollout.id,
            by=rollout.by,
            terms=rollout.terms,
            hosts=(),
            started_at=rollout.started_at,
            state=RolloutState.RESTING,
            lasts=rollout.lasts,
            command_lasts=rollout.command_lasts,
            run=rollout.run + 1,
            begins_at=fact.next_at,
        )


def _set(fleet: "Fleet", rollout: Rollout, **changed: object) -> None:
    fleet.rollouts[rollout.name] = replace(rollout, **changed)
