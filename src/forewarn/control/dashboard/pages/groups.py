"""Groups: enrolment of each, and one group with its terms, VMs and events."""

from typing import Any

from litestar import Request, Response, Router
from litestar.params import FromPath, FromQuery

from forewarn.control import views
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.events import event_row
from forewarn.control.dashboard.natural_order import natural_key
from forewarn.control.dashboard.recent_history import GROUPS, recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action, Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventStatus

_MOST = 500


def group_names(fleet: Fleet, principal: Principal, search: str) -> list[str]:
    """Return the names of visible groups that contain a text, in natural order."""
    wanted = search.lower()
    return sorted((name for name in principal.known_groups(fleet) if wanted in name.lower()), key=natural_key)


@page("/groups", Action.READ_VMS)
async def list_groups(
    request: Request[Any, Any, Any],
    context: ContextDependency,
    principal: PrincipalDependency,
    search: FromQuery[str] = "",
) -> Response[bytes]:
    """List groups by name, with their enrolment."""
    fleet = context.fleet
    names = group_names(fleet, principal, search)
    idle_after = context.node.writer.rules.idle_after
    rows = [views.view_group(fleet, fleet.groups[name], context.last_asked, idle_after) for name in names[:_MOST]]
    last = await recent_lines(context, principal, limit=8, topic=GROUPS)
    return html(
        request, "groups.html", section="groups", rows=rows, total=len(names), most=_MOST, search=search, last=last
    )


@page("/groups/{name:str}", Action.READ_VMS)
async def show_group(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]
) -> Response[bytes]:
    """Show one group."""
    fleet = context.fleet
    group = principal.group(fleet, name)
    idle_after = context.node.writer.rules.idle_after
    events = fleet.events_of(name)
    return html(
        request,
        "group.html",
        section="groups",
        group=views.detail_group(fleet, group, context.last_asked, idle_after),
        terms=group.terms,
        events=[event_row(fleet, each, context.now()) for each in events],
        scheduled=sum(each.status is EventStatus.SCHEDULED for each in events),
        last=await recent_lines(context, principal, group=name),
    )


groups = Router("/", route_handlers=[list_groups, show_group])
