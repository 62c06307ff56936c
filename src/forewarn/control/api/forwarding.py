"""Requests that another node must answer: those that change something, and those about what only the leader knows."""

from litestar.connection import ASGIConnection
from litestar.types import ASGIApp, Receive, Scope, Send

from forewarn.control.api.context import context_of, principal_of
from forewarn.core.errors import Unavailable


class LeaderRoute:
    """Middleware of a route that the leader answers; every check that needs no leader is made here before.

    A request that only reads is answered here where no leader can be asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        forwarder = context_of(scope).forwarder
        if forwarder is None or forwarder.is_leading:
            await self.app(scope, receive, send)
            return
        handler = scope["route_handler"]
        await handler.authorize_connection(ASGIConnection(scope, receive, send))
        here: Receive | None
        try:
            here = await forwarder.forward(scope, receive, send, principal_of(scope))
        except Unavailable:
            if scope.get("method") != "GET":
                raise
            here = receive
        if here is not None:
            await self.app(scope, here, send)
