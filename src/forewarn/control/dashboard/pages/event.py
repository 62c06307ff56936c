"""Event: its whole history, the document as each api-version shows it, and what can be done with it."""

from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import FromPath

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.events import STATUS_COLOURS, event_row
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action
from forewarn.core.model import EventStatus
from forewarn.wire.azure_names import STATUSES
from forewarn.wire.document import render as render_document
from forewarn.wire.versions import API_VERSIONS


@page("/events/{id:str}", Action.READ_VMS)
async def show_event(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency, id: FromPath[str]
) -> Response[bytes]:
    """Show the timeline of an event, by its whole or shortened id."""
    timeline = await context.record.timeline(principal, id)
    present = context.fleet.events.get(timeline.id.lower())
    documents = []
    if present is not None:
        group = context.fleet.groups[present.group]
        events = tuple(context.fleet.events_of(present.group))
        for version in API_VERSIONS:
            body = render_document(events, group.incarnation, version, group.terms.kind)
            shown = msgspec.json.format(body, indent=2).decode()
            documents.append((version.name, shown, present.type in version.types))
    return html(
        request,
        "event.html",
        section="timeline",
        event=timeline,
        is_scheduled=present is not None and present.status is EventStatus.SCHEDULED,
        is_unfinished=present is not None,
        documents=documents,
        rollout=present.rollout if present else "",
        row=event_row(context.fleet, present, context.now()) if present else None,
        started_at=next((step.at for step in timeline.steps if step.what == STATUSES[EventStatus.STARTED]), None),
        colours=STATUS_COLOURS,
        last=await recent_lines(context, principal, event=timeline.id),
        postpone_limit=context.fleet.groups[present.group].terms.policy.postpone_limit if present else 0,
    )


event = Router("/", route_handlers=[show_event])
