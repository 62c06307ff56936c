"""Notifications: the subscriptions and how their deliveries go."""

from typing import Any

from litestar import Request, Response, Router

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.subscriptions import view_subscription
from forewarn.control.dashboard.recent_history import SUBSCRIPTIONS, recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action
from forewarn.core.model import SubscriptionKind


@page("/notifications", Action.KEEP_SUBSCRIPTIONS)
async def show_notifications(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency
) -> Response[bytes]:
    """List the subscriptions."""
    found = sorted(context.fleet.subscriptions.values(), key=lambda each: each.name)
    return html(
        request,
        "notifications.html",
        section="notifications",
        rows=[view_subscription(context, each) for each in found],
        last=await recent_lines(context, principal, limit=8, topic=SUBSCRIPTIONS),
        kinds=[str(each) for each in SubscriptionKind],
    )


notifications = Router("/", route_handlers=[show_notifications])
