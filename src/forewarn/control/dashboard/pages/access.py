"""Access: the tokens, and the form for a new one."""

from typing import Any

from litestar import Request, Response, Router

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.recent_history import TOKENS, recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action
from forewarn.core.model import Role


@page("/access", Action.KEEP_TOKENS)
async def show_access(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency
) -> Response[bytes]:
    """List the tokens that are not revoked."""
    tokens = sorted(context.fleet.tokens.values(), key=lambda token: token.name)
    return html(
        request,
        "access.html",
        section="access",
        tokens=tokens,
        roles=[str(each) for each in Role],
        now=context.now(),
        own=principal.token,
        last=await recent_lines(context, principal, limit=8, topic=TOKENS),
    )


access = Router("/", route_handlers=[show_access])
