"""Rollouts: a list, one rollout with its progress, and the form for a new one with a live preview of its plan."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from litestar import Request, Response, Router
from litestar.params import FromPath

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.recent_history import ROLLOUTS, recent_lines, rollout_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.control.rollout_views import count_waves, detail_rollout, view_rollout
from forewarn.core.access import Action
from forewarn.core.fleet import Fleet
from forewarn.core.rollouts.model import (
    ConflictPolicy,
    FailurePolicy,
    HostStep,
    Rollout,
    RolloutOperation,
    RolloutOrder,
    run_key,
)

LISTED_ENDED = 20
"""Rollouts that have ended and are listed."""


_COLOURS = {HostStep.DONE: "idle", HostStep.FAILED: "failed", HostStep.SKIPPED: "deallocated"}


def colour_waves(waves: Mapping[int, Counter[HostStep]]) -> dict[int, Counter[str]]:
    """Return for each wave how many of its hosts are done, failed, skipped and under way, by colour."""
    found: dict[int, Counter[str]] = {}
    for number, steps in waves.items():
        colours = found.setdefault(number, Counter())
        for step, count in steps.items():
            colours[_COLOURS.get(step, "in-progress")] += count
    return found


def waiting_hosts(fleet: Fleet, rollout: Rollout) -> list[str]:
    """Return the hosts that have not begun, in their order."""
    runs = ((host, fleet.rollout_hosts.get(run_key(rollout.name, host))) for host in rollout.hosts)
    return [host for host, run in runs if run is None or run.step is HostStep.WAITING]


@page("/rollouts", Action.READ_HOSTS)
async def list_rollouts(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency
) -> Response[bytes]:
    """List rollouts: those that run, then those that ended last."""
    now = context.now()
    return html(
        request,
        "rollouts.html",
        section="rollouts",
        running=[view_rollout(context.fleet, each, now) for each in context.fleet.rollouts.values()],
        ended=list(reversed(await context.rollouts.latest_ended(LISTED_ENDED))),
        operations=[str(each) for each in RolloutOperation],
        orders=[str(each) for each in RolloutOrder],
        policies=[str(each) for each in FailurePolicy],
        conflicts=[str(each) for each in ConflictPolicy],
        last=await recent_lines(context, principal, limit=8, topic=ROLLOUTS),
    )


@page("/rollouts/{name:str}", Action.READ_HOSTS)
async def show_rollout(
    request: Request[Any, Any, Any], context: ContextDependency, name: FromPath[str]
) -> Response[bytes]:
    """Show one rollout, also one that has ended."""
    present = context.fleet.rollouts.get(name)
    if present:
        rollout = detail_rollout(context.fleet, present, context.now())
        waves = colour_waves(count_waves(context.fleet, present))
    else:
        ended = await context.rollouts.ended(name)
        rollout, waves = ended.detail, colour_waves(ended.waves)
    return html(
        request,
        "rollout.html",
        section="rollouts",
        rollout=rollout,
        is_running=present is not None,
        waves=waves,
        largest_wave=max((counts.total() for counts in waves.values()), default=1),
        waiting=waiting_hosts(context.fleet, present) if present else [],
        last=await rollout_lines(context, name),
    )


rollouts = Router("/", route_handlers=[list_rollouts, show_rollout])
