"""What a rollout would do: its waves, when they are expected, and everything it cannot do. Nothing is announced."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import zip_longest

import msgspec

from forewarn.core import quiet_hours
from forewarn.core.errors import PlanOutdated, Refused
from forewarn.core.fleet import Fleet
from forewarn.core.model import HostState
from forewarn.core.notice import Rules
from forewarn.core.placement import running_on
from forewarn.core.rollouts import windows
from forewarn.core.rollouts.checks import check_terms, expected_length
from forewarn.core.rollouts.conflicts import why_refused
from forewarn.core.rollouts.limits import Occupancy, allowed_hosts, choose, why_left_out
from forewarn.core.rollouts.model import RecordedLength, RolloutOperation, RolloutPrediction, RolloutTerms
from forewarn.core.rollouts.prediction import Experience, Forecaster, SlowGroup
from forewarn.core.rollouts.selection import count_canaries, select_hosts
from forewarn.core.rollouts.sentences import number_of
from forewarn.core.terms import check_name

MOST_PROBLEMS = 50
"""That a plan names."""


class PlannedWave(msgspec.Struct, frozen=True):
    """Hosts that would begin together."""

    hosts: tuple[str, ...]
    starts_at: datetime
    ends_at: datetime


class PlannedRollout(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollout would do, as operators see it."""

    name: str
    terms: RolloutTerms
    waves: tuple[PlannedWave, ...] = ()
    skipped: dict[str, str] = {}
    """Hosts that would be left out, and why."""
    problems: tuple[str, ...] = ()
    """What it cannot do; with any of these it is refused."""
    notes: tuple[str, ...] = ()
    """What is done otherwise than one might expect."""
    slowest: tuple[SlowGroup, ...] = ()
    prediction: RolloutPrediction | None = None


class RolloutPlan(PlannedRollout, frozen=True, kw_only=True):
    """What a rollout would do on the fleet as it is."""

    recorded: RecordedLength = RecordedLength()
    """How long one host took earlier."""


def make_plan(
    fleet: Fleet,
    name: str,
    terms: RolloutTerms,
    now: datetime,
    rules: Rules,
    experience: Experience,
    *,
    runs_commands: bool,
    live: bool = False,
) -> RolloutPlan:
    """Plan a rollout; refuse only what names no hosts."""
    hosts = select_hosts(fleet, terms)
    canaries = count_canaries(fleet, terms, hosts)
    refused = why_refused(fleet, name, terms, hosts)
    recorded = experience.length_of(terms.operation)
    found = _problems(fleet, terms, hosts, now, rules, recorded.host, runs_commands=runs_commands)
    problems = [*_name_problems(name), *([refused] if refused else ()), *found]
    if problems:
        return RolloutPlan(name=name, terms=terms, problems=tuple(problems[:MOST_PROBLEMS]))
    left = _LeftHosts()
    waves = list(_waves(fleet, terms, hosts, canaries, left))
    if left.waiting and not waves:
        return RolloutPlan(name=name, terms=terms, problems=(f"no host can begin at present: {left.reason}",))
    forecast = Forecaster(fleet, terms, rules, experience, live=live).predict(waves, canaries, now)
    return RolloutPlan(
        name=name,
        terms=terms,
        waves=tuple(
            PlannedWave(each, when.starts_at, when.ends_at) for each, when in zip(waves, forecast.waves, strict=True)
        ),
        skipped=left.skipped | dict.fromkeys(left.waiting, f"it would wait: {left.reason}"),
        notes=(*left.notes(), *_notes(fleet, _taking_part(fleet, terms, hosts))),
        slowest=forecast.slowest,
        prediction=forecast.total,
        recorded=recorded,
    )


def predict_run(
    fleet: Fleet, terms: RolloutTerms, now: datetime, rules: Rules, experience: Experience, *, live: bool = False
) -> RolloutPrediction:
    """Predict a run of a rollout that begins now; refuse terms that name no hosts."""
    hosts = select_hosts(fleet, terms)
    canaries = count_canaries(fleet, terms, hosts)
    waves = _waves(fleet, terms, hosts, canaries, _LeftHosts())
    return Forecaster(fleet, terms, rules, experience, live=live).predict(waves, canaries, now).total


def check_saved(saved: RolloutPlan, present: RolloutPlan) -> None:
    """Refuse a saved plan that the fleet has overtaken: other waves, or something that cannot be done any more."""
    if present.problems:
        raise Refused(present.problems[0])
    before, after = [sorted(wave.hosts) for wave in saved.waves], [sorted(wave.hosts) for wave in present.waves]
    for number, (was, now) in enumerate(zip_longest(before, after, fillvalue=list[str]()), 1):
        if was != now:
            raise PlanOutdated(
                f"the fleet has changed since the rollout was planned: wave {number} was {_first(was)}, "
                f"and would be {_first(now)} now; plan it again: forewarn rollout plan"
            )


def _first(hosts: list[str]) -> str:
    return ", ".join(hosts[:5]) or "nothing"


class _LeftHosts(msgspec.Struct):
    """The hosts that are in no planned wave."""

    skipped: dict[str, str] = {}
    waiting: list[str] = []
    reason: str = ""
    """Why those would wait."""
    first: str = ""
    """Why the first wave of all waits for what ends by itself."""

    def notes(self) -> Iterator[str]:
        if self.first:
            yield f"the prediction does not count what must end first: {self.first}"
        if self.waiting:
            yield f"the prediction is without {number_of(len(self.waiting), 'host')} that would wait: {self.reason}"


def _waves(
    fleet: Fleet, terms: RolloutTerms, hosts: tuple[str, ...], canaries: int, left: _LeftHosts
) -> Iterator[tuple[str, ...]]:
    """Yield the waves of a fleet in which nothing begins meanwhile, and what is under way ends."""
    begun: set[str] = set()
    for part in (hosts[:canaries], hosts[canaries:]):
        place = 0
        while place < len(part):
            wave = choose(fleet, terms, _from(part, place, begun))
            if not (wave.hosts or wave.skipped):
                left.first = left.first or wave.blocked
                wave = choose(fleet, terms, _from(part, place, begun), counts_passing=False)
            left.skipped.update(wave.skipped)
            begun.update(wave.hosts, wave.skipped)
            while place < len(part) and part[place] in begun:
                place += 1
            if wave.hosts:
                yield tuple(wave.hosts)
            elif not wave.skipped:
                left.waiting += [host for host in _taking_part(fleet, terms, hosts) if host not in begun]
                left.reason = wave.blocked
                left.first = ""
                return


def _from(hosts: tuple[str, ...], place: int, begun: set[str]) -> Iterator[str]:
    return (hosts[number] for number in range(place, len(hosts)) if hosts[number] not in begun)


def _taking_part(fleet: Fleet, terms: RolloutTerms, hosts: tuple[str, ...]) -> list[str]:
    return [host for host in hosts if not why_left_out(fleet, terms, host)]


def _name_problems(name: str) -> Iterator[str]:
    try:
        check_name("rollout", name)
    except Refused as refused:
        yield str(refused)


def _problems(
    fleet: Fleet,
    terms: RolloutTerms,
    hosts: tuple[str, ...],
    now: datetime,
    rules: Rules,
    recorded: float,
    *,
    runs_commands: bool,
) -> Iterator[str]:
    try:
        check_terms(fleet, terms, hosts, now, rules, runs_commands=runs_commands, recorded=recorded)
    except Refused as refused:
        yield str(refused)
        occupancy = Occupancy(fleet, terms)
        alone = (occupancy.alone_against(host) for host in _taking_part(fleet, terms, hosts))
        yield from (each for each in dict.fromkeys(alone) if each and each != str(refused))
        return
    lasts = timedelta(seconds=expected_length(terms, rules, recorded))
    yield from _quiet_problems(fleet, terms, _taking_part(fleet, terms, hosts), now, rules, lasts)
    if terms.operation is RolloutOperation.DRAIN:
        yield from _drain_problems(fleet, terms, hosts)


def _drain_problems(fleet: Fleet, terms: RolloutTerms, hosts: tuple[str, ...]) -> Iterator[str]:
    """Say what drained hosts lead to, which stay cordoned."""
    drained = _taking_part(fleet, terms, hosts)
    unavailable = {*fleet.cordoned, *drained}
    unavailable.update(host for host, state in fleet.host_states.items() if state is HostState.FAILED)
    moved = next((host for host in drained if running_on(fleet, host)), "")
    if moved and unavailable.issuperset(fleet.hosts):
        yield f"the VMs of {moved} have nowhere to go: every other host is drained, cordoned or failed; leave one out"
    allowed = allowed_hosts(terms, len(fleet.hosts))
    if len(unavailable) > allowed:
        yield (
            f"drained hosts stay cordoned: {len(unavailable)} of {number_of(len(fleet.hosts), 'host')} would be "
            f"unavailable, and {allowed} may be; choose fewer hosts, or allow a larger --fleet-share"
        )


def _quiet_problems(
    fleet: Fleet, terms: RolloutTerms, hosts: list[str], now: datetime, rules: Rules, lasts: timedelta
) -> Iterator[str]:
    """Name the groups that are quiet whenever a window is open."""
    own, general = terms.windows, rules.maintenance_windows
    if not (own or general):
        return
    for group in dict.fromkeys(fleet.vms[name].group for host in hosts for name in fleet.vms_on(host)):
        hours = fleet.groups[group].terms.policy.quiet_hours
        if hours and not _is_ever_awake(hours, own, general, now, lasts):
            yield (
                f"group {group} has quiet hours ({', '.join(hours)}) whenever a maintenance window is open; "
                "change its quiet hours, or the windows"
            )


def _is_ever_awake(
    hours: tuple[str, ...], own: tuple[str, ...], general: tuple[str, ...], now: datetime, lasts: timedelta
) -> bool:
    when = now
    last = now + timedelta(days=28)
    while when < last:
        opens = windows.next_start(own, general, when, lasts)
        if opens is None:
            return False
        quiet = quiet_hours.quiet_until(hours, opens)
        if quiet is None:
            return True
        when = quiet
    return False


def _notes(fleet: Fleet, hosts: list[str]) -> Iterator[str]:
    """Name the groups whose VMs on one host take turns, because they are of several domains."""
    count = 0
    for host in hosts:
        domains: dict[str, set[tuple[int, int]]] = {}
        for name in fleet.vms_on(host):
            vm = fleet.vms[name]
            domains.setdefault(vm.group, set()).add((vm.update_domain, vm.fault_domain))
        for group, found in sorted(domains.items()):
            if len(found) > 1:
                count += 1
                if count > MOST_PROBLEMS:
                    return
                yield f"the VMs of group {group} on {host} are of {len(found)} domains, and take turns"
