"""Prints plans and rollouts: progress, what waits for whom, and prediction and result."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.output import print_table
from forewarn.cli.times import clock, relative, span

if TYPE_CHECKING:
    from forewarn.control.rollout_views import RolloutDetail, RolloutPlanView

_BAR = 30
_SHOWN_WAVES = 20
_SHOWN_HOSTS = 6
_ENDED = ("completed", "canceled", "stopped")
_STEPS = {
    "asking": "is asked whether it wants the operation",
    "planning": "is planned to be drained",
    "announced": "is announced",
    "command": "runs the command",
    "settling": "is settling",
}


def is_over(found: "RolloutDetail") -> bool:
    return found.state in _ENDED


def print_plan(plan: "RolloutPlanView", now: datetime, saved: str = "") -> None:
    """Print the waves, the prediction, and what cannot be done."""
    for problem in plan.problems:
        click.echo(f"problem: {problem}")
    if plan.problems:
        return
    rows = [
        (str(number), clock(wave.starts_at, now), clock(wave.ends_at, now), _names(wave.hosts))
        for number, wave in enumerate(plan.waves[:_SHOWN_WAVES], 1)
    ]
    print_table(("WAVE", "STARTS", "ENDS", "HOSTS"), rows, "no host is left to maintain")
    if len(plan.waves) > _SHOWN_WAVES:
        click.echo(f"and {len(plan.waves) - _SHOWN_WAVES} more waves; --json shows all")
    for host, why in list(plan.skipped.items())[:_SHOWN_WAVES]:
        click.echo(f"left out: {host}: {why}")
    for note in plan.notes[:_SHOWN_WAVES]:
        click.echo(f"note: {note}")
    for slow in plan.slowest:
        click.echo(f"slow: group {slow.group}: waves wait {span(slow.seconds)} for it: {slow.reason}")
    if plan.prediction:
        prediction = plan.prediction
        first, last = clock(prediction.earliest, now), clock(prediction.latest, now)
        waves = "1 wave" if prediction.waves == 1 else f"{prediction.waves} waves"
        click.echo(f"{waves}; ends at about {clock(prediction.finish, now)}, between {first} and {last}")
    if saved:
        click.echo(f"saved; start it with: forewarn rollout start {plan.name} --plan {saved}")


def print_rollout(found: "RolloutDetail", now: datetime) -> None:
    """Print how far a rollout is, and what it waits for."""
    for line in rollout_lines(found, now):
        click.echo(line)


def rollout_lines(found: "RolloutDetail", now: datetime) -> Iterator[str]:
    """Yield what is shown of a rollout."""
    state = f"{found.state}: {found.reason}" if found.reason else found.state
    yield f"rollout {found.name} ({found.operation}) is {state}"
    if found.hosts:
        share = (found.done + found.failed + found.skipped) / found.hosts
        bar = "#" * round(share * _BAR)
        counts = f"{found.done} done, {found.failed} failed, {found.skipped} skipped of {found.hosts} hosts"
        yield f"[{bar:<{_BAR}}] {share:.0%}  {counts}, wave {found.wave}"
    yield from _times(found, now)
    if found.blocked:
        until = f" until {clock(found.blocked_until, now)}" if found.blocked_until else ""
        yield f"waits{until}: {found.blocked}"
    for host in found.current:
        until = f" until {clock(host.until, now)}" if host.until else ""
        reason = f": {host.reason}" if host.reason else ""
        limit = f" (limit {span(found.terms.command_timeout)})" if host.step == "command" else ""
        yield f"{host.host} {_STEPS[host.step]} since {clock(host.since, now)}{until}{limit}{reason}"
    for event in found.events:
        until = f" until {clock(event.until, now)}" if event.until else ""
        behind = f" behind event {event.behind[:8]}" if event.behind else ""
        yield f"  event {event.id[:8]} of {event.group} on {event.host} waits for {event.waits_for}{until}{behind}"
    for slow in found.slowest:
        yield f"slow: group {slow.group}, announced {span(slow.seconds)} ago, {slow.reason}"
    if found.is_checking:
        yield f"the gate of wave {found.wave + 1} is asked"
    if found.check_detail:
        yield f"last check: {found.check_detail}"
    for host in found.ended:
        yield f"{host.host} {'failed' if host.step == 'failed' else 'is skipped'}: {host.reason}"
    if found.state == "paused":
        again = f"try failed hosts again: forewarn rollout retry {found.name}; " if found.failed else ""
        yield f"{again}go on: forewarn rollout resume {found.name}; end it: forewarn rollout cancel {found.name}"


def _times(found: "RolloutDetail", now: datetime) -> Iterator[str]:
    if found.begins_at:
        if before := found.last_run:
            counts = f"{before.done} done, {before.failed} failed, {before.skipped} skipped"
            ended = f", {relative(before.ended_at, now)}" if before.ended_at else ""
            yield f"run {before.run} is {before.state}{ended}: {counts}"
        yield f"begins again at {clock(found.begins_at, now)}; end it: forewarn rollout cancel {found.name}"
        return
    if found.ended_at:
        took = span((found.ended_at - found.started_at).total_seconds())
        yield f"took {took}, from {clock(found.started_at, now)} to {clock(found.ended_at, now)}"
        if found.prediction and found.late_by is not None and found.state == "completed":
            predicted = span((found.prediction.finish - found.started_at).total_seconds())
            how = f"{span(abs(found.late_by))} {'later' if found.late_by > 0 else 'earlier'}"
            yield f"predicted {predicted}; it ended {how if abs(found.late_by) >= 1 else 'as predicted'}"
        return
    rate = f", {found.rate:.1f} hosts per hour" if found.rate else ""
    late = ", behind schedule" if found.is_late else ""
    yield f"started {relative(found.started_at, now)} by {found.by}{rate}{late}"
    if found.state == "paused":
        yield "no end is predicted while it is paused"
    elif found.predicted_finish and found.predicted_earliest and found.predicted_latest:
        first, last = clock(found.predicted_earliest, now), clock(found.predicted_latest, now)
        yield f"ends {relative(found.predicted_finish, now)}, between {first} and {last}"


def _names(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - _SHOWN_HOSTS} more" if len(hosts) > _SHOWN_HOSTS else ""
    return ", ".join(hosts[:_SHOWN_HOSTS]) + more
