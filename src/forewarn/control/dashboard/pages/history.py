"""History: who did what, filtered, in pages, and as CSV or JSON lines."""

from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response, Router

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action

_FILTERS = ("vm", "group", "host", "event", "caller")


@page("/history", Action.READ_HISTORY)
async def show_history(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency
) -> Response[bytes]:
    """Show the newest lines of the history that match the filters."""
    filters = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    if filters["host"]:
        principal.require(Action.READ_HOSTS)
    given = {name: value for name, value in filters.items() if value}
    lines = await recent_lines(context, principal, limit=200, **given)
    export = f"/v1/history/export?{urlencode(given)}"
    return html(request, "history.html", section="history", lines=lines, filters=filters, export=export)


history = Router("/", route_handlers=[show_history])
