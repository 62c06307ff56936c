"""One-time links that log a browser in to the dashboard of this node."""

from typing import Any

from litestar import Request, Router, post
from litestar.params import JSONBody

from forewarn.control.api.context import ContextDependency
from forewarn.control.api.routing import ACTION, guard, problem_responses, strict
from forewarn.control.bodies import DashboardLink, DashboardLinkBody
from forewarn.core.access import Action
from forewarn.core.errors import BadInput


@post(
    "/dashboard/links",
    opt={ACTION: Action.READ_ITSELF},
    guards=[guard],
    dto=strict(DashboardLinkBody),
    return_dto=None,
    responses=problem_responses(400, 401, 403, 404, 409, 429, 503),
    summary="Create a login link",
)
async def create_link(
    request: Request[Any, Any, Any], context: ContextDependency, data: JSONBody[DashboardLinkBody]
) -> DashboardLink:
    """Return a one-time link for a token: the one in the body, or else the caller's own. Nothing is recorded."""
    token = data.token or request.headers.get("authorization", "").partition(" ")[2].strip()
    if not token:
        raise BadInput("a session of the dashboard needs a token; create one, and send it in the body")
    context.authenticator.authenticate(context.fleet, f"Bearer {token}", "")
    return DashboardLink(path=f"/login#code={context.links.create(token, is_made=bool(data.token))}")


dashboard_links = Router("/", tags=["Service"], route_handlers=[create_link])
