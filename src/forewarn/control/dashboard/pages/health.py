"""Service health: warnings, journal, requests, refused callers, workers."""

from heapq import nsmallest
from math import inf
from typing import Any

from litestar import Request, Response, Router

from forewarn.control import views
from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action
from forewarn.core.model import Group
from forewarn.node.histogram import Histogram

_SHARES = (0.5, 0.99, 0.999)
_MOST_REFUSED = 20
_MOST_ENROLLED = 100
"""Enrolled groups that are listed; the page of groups has all of them."""
_SLOW = 0.1
"""Seconds from which an append counts as slow."""


def _above(durations: Histogram, bound: float) -> tuple[int, int]:
    """Return how many durations were longer than one of the bounds, and how many there are."""
    counts = dict(durations.up_to())
    total = counts[float("inf")]
    return total - counts[bound], total


def _quantiles(durations: Histogram) -> dict[str, str]:
    """Return limits of some quantiles in milliseconds, as far as the bounds of the histogram tell them."""
    if not any(durations.counts):
        return {}
    return {_share(share): _limit(durations, durations.quantile(share)) for share in _SHARES}


def _share(share: float) -> str:
    return f"p{share * 100:g}"


def _limit(durations: Histogram, seconds: float) -> str:
    """Return the bound below which a quantile is, or the largest bound if the quantile is above it."""
    if seconds < inf:
        return f"≤ {seconds * 1000:g}"
    return f"> {max(bound for bound, _ in durations.up_to() if bound < inf) * 1000:g}"


def _enrolled(context: ApiContext) -> list[views.GroupView]:
    """Return the enrolled groups that are switched off soonest; those that may never be come last."""
    fleet, last_asked, idle_after = context.fleet, context.last_asked, context.node.writer.rules.idle_after
    groups = [group for group in fleet.groups.values() if group.enrolled_at is not None]

    def order(group: Group) -> tuple[bool, float, str]:
        asked = last_asked(group.name)
        return asked is None, asked.at.timestamp() if asked else 0.0, group.name

    first = nsmallest(_MOST_ENROLLED, groups, key=order)
    return [views.view_group(fleet, group, last_asked, idle_after) for group in first]


@page("/health", Action.READ_HEALTH)
async def show_health(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency
) -> Response[bytes]:
    """Show the state of the service."""
    node, fleet, sources = context.node, context.fleet, context.metric_sources
    return html(
        request,
        "health.html",
        section="health",
        is_sound=node.writer.is_sound,
        failure=node.writer.failure,
        revision=node.replica.revision,
        warnings=tuple(node.warnings.values()),
        workers=context.workers() if context.workers else (),
        listeners=context.listeners() if context.listeners else (),
        listening=context.changes.listeners,
        refused=context.authenticator.refused,
        cluster=context.cluster() if context.cluster else None,
        documents=[(version, status, count) for version, status, count in sources.documents() if count],
        refusals={status: count for status, count in sorted(sources.refusals().items()) if count},
        connections=sources.connections(),
        slow_appends=_above(node.writer.appends, _SLOW),
        slow=int(_SLOW * 1000),
        latency={
            "waits": _quantiles(sources.delays()),
            "control": _quantiles(context.durations),
            "appends": _quantiles(node.writer.appends),
        },
        shares=[_share(each) for each in _SHARES],
        refused_by=context.authenticator.refused_by.most_common(_MOST_REFUSED),
        enrolled=_enrolled(context),
        last=await recent_lines(context, principal, limit=8),
        totals={
            "vms": len(fleet.vms),
            "hosts": len(fleet.hosts),
            "groups": len(fleet.groups),
            "enrolled": sources.enrolled(),
            "events": len(fleet.events),
        },
    )


health = Router("/", route_handlers=[show_health])
