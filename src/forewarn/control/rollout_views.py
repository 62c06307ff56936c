"""Views of rollouts: how far one is, what it waits for, and how it compares with what was predicted."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil, sqrt
from typing import Any

import msgspec

from forewarn.core import quiet_hours
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.core.rollouts import windows
from forewarn.core.rollouts.actions import RolloutActionKind, actions_due
from forewarn.core.rollouts.facts import RolloutEnded
from forewarn.core.rollouts.model import (
    HOST_ENDS,
    HostRun,
    HostStep,
    Rollout,
    RolloutPrediction,
    RolloutState,
    RolloutTerms,
    run_key,
)
from forewarn.core.rollouts.planning import PlannedRollout
from forewarn.core.rollouts.prediction import SlowGroup
from forewarn.core.rollouts.sentences import name_of
from forewarn.wire.azure_names import STATUSES, show_id

_MOST_HOSTS = 200
"""Hosts of each kind that a view names."""
_RECENT_HOSTS = 20
"""So many hosts that began last tell how long a wave takes."""
_NO_FORECAST: dict[str, datetime | None] = dict.fromkeys(
    ("predicted_finish", "predicted_earliest", "predicted_latest")
)


class WaitingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished event of a rollout, and what it waits for."""

    id: str
    group: str
    host: str
    status: str
    waits_for: str
    """``approval``, ``turn``, ``quiet hours``, ``window``, or ``driver``."""
    until: datetime | None = None
    behind: str = ""
    """The event whose end it waits for."""


class RolloutHostView(msgspec.Struct, frozen=True, kw_only=True):
    """How a host stands in a rollout."""

    host: str
    step: HostStep
    wave: int
    since: datetime
    until: datetime | None = None
    """When it has settled."""
    reason: str = ""
    exit_status: int | None = None


class RolloutView(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout."""

    name: str
    state: str
    """queued, running, paused, stopping or resting; once it has ended: completed, canceled or stopped."""
    reason: str = ""
    blocked: str = ""
    blocked_until: datetime | None = None
    operation: str
    by: str
    started_at: datetime
    ended_at: datetime | None = None
    run: int = 1
    begins_at: datetime | None = None
    wave: int
    hosts: int
    done: int
    failed: int
    skipped: int
    active: int
    waiting: int
    rate: float | None = None
    """Hosts per hour since it started."""
    prediction: RolloutPrediction | None = None
    """What was predicted when it started."""
    predicted_finish: datetime | None = None
    """What is predicted now, from the waves that have ended."""
    predicted_earliest: datetime | None = None
    predicted_latest: datetime | None = None
    """The range that most such rollouts end in."""
    is_late: bool = False


class RolloutDetail(RolloutView, frozen=True, kw_only=True):
    """A rollout, its hosts and what it waits for."""

    terms: RolloutTerms
    fleet_windows: tuple[str, ...] = ()
    check_detail: str = ""
    """What the gate or the query for alerts said last."""
    is_checking: bool = False
    """Whether the gate or the query for alerts is being asked."""
    current: tuple[RolloutHostView, ...] = ()
    ended: tuple[RolloutHostView, ...] = ()
    """Hosts that failed or were skipped; of many, the first."""
    events: tuple[WaitingEvent, ...] = ()
    slowest: tuple[SlowGroup, ...] = ()
    """The groups that the current wave waits for, the longest first."""
    late_by: float | None = None
    """Seconds by which it ended after the predicted time; below 0, before it."""
    last_run: RolloutView | None = None
    """The run that ended last, while one that recurs rests."""


class EndedRollout(msgspec.Struct, frozen=True):
    """A rollout that has ended, and how many hosts of each wave came to which step."""

    detail: RolloutDetail
    waves: dict[int, Counter[HostStep]]


class RolloutPlanView(PlannedRollout, frozen=True, kw_only=True):
    """What a rollout would do. ``start`` accepts it as a saved plan."""


def view_rollout(fleet: Fleet, rollout: Rollout, now: datetime) -> RolloutView:
    return RolloutView(**_fields(fleet, rollout, now))


def detail_rollout(fleet: Fleet, rollout: Rollout, now: datetime) -> RolloutDetail:
    """Return everything about a rollout that has not ended."""
    current = [run for host in rollout.active if (run := fleet.rollout_hosts.get(run_key(rollout.name, host)))]
    events = [(run, fleet.events[id_]) for run in current for id_ in run.events if id_ in fleet.events]
    return RolloutDetail(
        **_fields(fleet, rollout, now),
        terms=rollout.terms,
        fleet_windows=rollout.fleet_windows,
        check_detail=rollout.check_detail,
        is_checking=any(each.kind is RolloutActionKind.CHECK for each in actions_due(fleet, rollout, now)),
        current=tuple(map(view_run, current)),
        ended=_ended_runs(fleet, rollout),
        events=tuple(_view_event(fleet, event, now) for _, event in events),
        slowest=_slowest(fleet, [event for _, event in events], now),
    )


def summarize(detail: RolloutDetail) -> RolloutView:
    """Return what lists show of a rollout."""
    return RolloutView(**{key: getattr(detail, key) for key in RolloutView.__struct_fields__})


def count_waves(fleet: Fleet, rollout: Rollout) -> dict[int, Counter[HostStep]]:
    """Return for each wave that began how many of its hosts are at which step."""
    found: dict[int, Counter[HostStep]] = {}
    for host in rollout.hosts:
        run = fleet.rollout_hosts.get(run_key(rollout.name, host))
        if run and run.step is not HostStep.WAITING:
            found.setdefault(run.wave, Counter())[run.step] += 1
    return dict(sorted(found.items()))


def read_ended(entries: Iterable[Entry], name: str) -> EndedRollout | None:
    """Return a rollout that has ended, from the entries about it; None where these do not tell."""
    fleet = Fleet()
    found: EndedRollout | None = None
    for entry in entries:
        for fact in entry.facts:
            if not isinstance(fact, rollout_facts.RolloutFact) or name_of(fact) != name:
                continue
            if not isinstance(fact, rollout_facts.RolloutStarted) and name not in fleet.rollouts:
                continue  # its beginning is no longer in the journal
            if isinstance(fact, RolloutEnded):
                found = EndedRollout(_detail_end(fleet, fact), count_waves(fleet, fleet.rollouts[name]))
            fleet.evolve(fact)
    return found


def _detail_end(fleet: Fleet, fact: RolloutEnded) -> RolloutDetail:
    rollout = fleet.rollouts[fact.rollout]
    fields = _fields(fleet, rollout, fact.at)
    late_by = (fact.at - fact.prediction.finish).total_seconds() if fact.prediction else None
    fields |= {"state": str(fact.result), "reason": fact.reason, "ended_at": fact.at}
    fields |= {"begins_at": fact.next_at, **_NO_FORECAST}
    return RolloutDetail(
        **fields,
        terms=rollout.terms,
        fleet_windows=rollout.fleet_windows,
        check_detail=rollout.check_detail,
        ended=_ended_runs(fleet, rollout),
        late_by=late_by,
    )


def _fields(fleet: Fleet, rollout: Rollout, now: datetime) -> dict[str, Any]:
    total = len(rollout.hosts)
    passed = (now - rollout.started_at).total_seconds()
    rate = rollout.done / passed * 3600 if rollout.done and passed > 0 else None
    left = total - rollout.finished
    return {
        "name": rollout.name,
        "state": str(rollout.state),
        "reason": rollout.reason,
        "blocked": rollout.blocked,
        "blocked_until": rollout.blocked_until,
        "operation": str(rollout.terms.operation),
        "by": rollout.by,
        "started_at": rollout.started_at,
        "run": rollout.run,
        "begins_at": rollout.begins_at,
        "wave": rollout.wave,
        "hosts": total,
        "done": rollout.done,
        "failed": rollout.failed,
        "skipped": rollout.skipped,
        "active": len(rollout.active),
        "waiting": left - len(rollout.active),
        "rate": rate,
        "prediction": rollout.prediction,
        "is_late": rollout.is_late,
        **_forecast(fleet, rollout, now),
    }


def _forecast(fleet: Fleet, rollout: Rollout, now: datetime) -> dict[str, datetime | None]:
    """Return when it is expected to end, and the range; nothing is expected of one that does not run.

    The present wave and those after it take as long as the last ones did, or as was planned. So pauses do not count.
    Where windows interrupt it, it ends as it was planned, or later.
    """
    planned = rollout.prediction
    if rollout.state is not RolloutState.RUNNING or planned is None or not rollout.hosts:
        return _NO_FORECAST
    runs = (fleet.rollout_hosts.get(run_key(rollout.name, host)) for host in rollout.active)
    begins_at = max(now, rollout.blocked_until or now)
    wave_began_at = min((run.began_at for run in runs if run), default=begins_at)
    left = len(rollout.hosts) - rollout.finished
    waiting = (left - len(rollout.active)) / len(rollout.hosts) * planned.waves
    waves = ceil(waiting) + bool(rollout.active)
    finish = max(begins_at, wave_began_at + waves * _wave_length(fleet, rollout, planned))
    if rollout.has_windows:
        opens = windows.held_until(rollout, now) or now
        if opens == windows.NEVER:
            return _NO_FORECAST
        finish = max(finish, planned.finish, opens)
    share = sqrt(left / len(rollout.hosts))
    return {
        "predicted_finish": finish,
        "predicted_earliest": max(begins_at, finish - share * (planned.finish - planned.earliest)),
        "predicted_latest": finish + share * (planned.latest - planned.finish),
    }


def _wave_length(fleet: Fleet, rollout: Rollout, planned: RolloutPrediction) -> timedelta:
    """Return how long hosts took lately, from the beginning of their wave to its end; else as it was planned."""
    begun = rollout.hosts[max(0, rollout.position - _RECENT_HOSTS) : rollout.position]
    runs = (fleet.rollout_hosts.get(run_key(rollout.name, host)) for host in begun)
    taken = sorted(run.at - run.began_at for run in runs if run and run.step is HostStep.DONE)
    if taken and not rollout.has_windows:
        return taken[len(taken) // 2]
    return (planned.finish - planned.made_at) / max(planned.waves, 1)


def view_run(run: HostRun) -> RolloutHostView:
    return RolloutHostView(
        host=run.host,
        step=run.step,
        wave=run.wave,
        since=run.at,
        until=run.until,
        reason=run.reason or run.failure,
        exit_status=run.exit_status,
    )


def _ended_runs(fleet: Fleet, rollout: Rollout) -> tuple[RolloutHostView, ...]:
    if not (rollout.failed or rollout.skipped):
        return ()
    runs = (fleet.rollout_hosts.get(run_key(rollout.name, host)) for host in rollout.hosts)
    ended = (run for run in runs if run and run.step in HOST_ENDS and run.step is not HostStep.DONE)
    return tuple(view_run(run) for run, _ in zip(ended, range(_MOST_HOSTS), strict=False))


def _view_event(fleet: Fleet, event: Event, now: datetime) -> WaitingEvent:
    waits_for = "approval"
    until: datetime | None = event.not_before
    group = fleet.groups.get(event.group)
    quiet = quiet_hours.quiet_until(group.terms.policy.quiet_hours, now) if group else None
    rollout = fleet.rollouts.get(event.rollout)
    opens = windows.held_until(rollout, now) if rollout else None
    if event.status is EventStatus.STARTED:
        waits_for, until = "driver", None
    elif event.waits_for:
        waits_for, until = "turn", None
    elif quiet or opens:  # an approval does not start it now
        waits_for = "quiet hours" if quiet else "window"
        until = max(when for when in (quiet, opens) if when)
        until = None if until == windows.NEVER else until
    return WaitingEvent(
        id=show_id(event.id),
        group=event.group,
        host=event.host,
        status=STATUSES[event.status],
        waits_for=waits_for,
        until=until,
        behind=show_id(event.waits_for) if event.waits_for else "",
    )


def _slowest(fleet: Fleet, events: list[Event], now: datetime) -> tuple[SlowGroup, ...]:
    """Return the groups whose events stand for the longest, with what they wait for."""
    oldest: dict[str, Event] = {}
    for event in sorted(events, key=lambda event: event.announced_at):
        oldest.setdefault(event.group, event)
    return tuple(
        SlowGroup(
            group, (now - event.announced_at).total_seconds(), f"waits for {_view_event(fleet, event, now).waits_for}"
        )
        for group, event in list(oldest.items())[:5]
    )
