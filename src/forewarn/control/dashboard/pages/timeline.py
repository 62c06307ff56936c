"""Timeline: events as bars from announcement over NotBefore to their end, past and future."""

from collections.abc import Iterable
from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import FromQuery

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.events import STATUS_COLOURS
from forewarn.control.dashboard.natural_order import natural_key
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.control.server.recent_events import EndedEvent
from forewarn.core import lifecycle
from forewarn.core.access import Action
from forewarn.core.model import Event
from forewarn.wire.azure_names import show_id, show_name

_FINISHED = 500
"""Finished events that are shown, the newest ones."""
_MOST = 5_000


class TimelineBar(msgspec.Struct, frozen=True, kw_only=True):
    """One event, with times in seconds since 1970 as the script draws them."""

    id: str
    lane: str
    label: str
    status: str
    announced: float
    not_before: float
    started: float | None
    ended: float | None
    approvals: tuple[tuple[str, float], ...]
    """Who approved, and when."""


def bars(events: Iterable[EndedEvent], by: str) -> list[TimelineBar]:
    """Return the bars of events, by lane and then by announcement; what is unfinished has no end."""
    found = [
        TimelineBar(
            id=show_id(event.id),
            lane=(event.host if by == "host" else event.group) or "-",
            label=f"{show_name(event.type)} {', '.join(event.resources[:3])}{' …' * (len(event.resources) > 3)}",
            status=show_name(event.status),
            announced=event.announced_at.timestamp(),
            not_before=event.not_before.timestamp(),
            started=event.started_at.timestamp() if event.started_at else None,
            ended=each.at.timestamp() if event.status in lifecycle.ENDS else None,
            approvals=tuple((given.by, given.at.timestamp()) for given in each.approvals),
        )
        for each in events
        for event in (each.event,)
    ]
    return sorted(found, key=lambda bar: (natural_key(bar.lane), bar.announced, bar.id))


def _concerns(event: Event, text: str) -> bool:
    """Return whether a text is part of the name of the event's group, host, or one of its VMs."""
    return any(text in name.casefold() for name in (event.group, event.host, *event.resources))


@page("/timeline", Action.READ_VMS)
async def show_timeline(
    request: Request[Any, Any, Any],
    context: ContextDependency,
    principal: PrincipalDependency,
    by: FromQuery[str] = "group",
    group: FromQuery[str] = "",
    search: FromQuery[str] = "",
) -> Response[bytes]:
    """Draw the events of all groups, or of one, or those whose names match a search."""
    by = by if by in ("group", "host") else "group"
    if by == "host" and not principal.may(Action.READ_HOSTS):
        by = "group"
    text = search.strip().casefold()
    ended = await context.recent.ended(principal, _FINISHED, group)
    finished = [each for each in ended if _concerns(each.event, text)]
    unfinished = (event for event in principal.known_events(context.fleet) if group in ("", event.group))
    events = [event for event in unfinished if _concerns(event, text)][:_MOST]
    known = [EndedEvent(event, event.announced_at, "", context.recent.approvals_of(event.id)) for event in events]
    data = msgspec.json.encode(bars((*finished, *known), by)).decode()
    data = data.replace("<", "\\u003c")  # it stands inside an element
    last = await recent_lines(context, principal, limit=8, group=group)
    total = len(known) + len(finished)
    return html(
        request,
        "timeline.html",
        section="timeline",
        data=data,
        by=by,
        group=group,
        sees_group=principal.sees(group),
        search=search,
        colours=STATUS_COLOURS,
        total=total,
        last=last,
    )


timeline = Router("/", route_handlers=[show_timeline])
