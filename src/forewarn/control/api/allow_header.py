"""The ``Allow`` header: the methods of a path, in responses to OPTIONS and with 405."""

from litestar import Litestar
from litestar.types import Message, Scope

_ALLOWED = "allowed"
_ALLOW = b"allow"


def record_methods(app: Litestar) -> None:
    """Record the methods of each path.

    The framework answers OPTIONS with the methods that a path had when its first route was added.
    """
    app.state[_ALLOWED] = {
        handler: sorted(route.methods) for route in app.routes for handler in getattr(route, "route_handlers", ())
    }


async def set_allow_header(message: Message, scope: Scope) -> None:
    """Set ``Allow`` to all methods of a path in responses to OPTIONS; sort it in all responses."""
    if message["type"] != "http.response.start":
        return
    headers = dict(message["headers"])
    if _ALLOW not in headers:
        return
    methods = headers[_ALLOW].decode().split(", ")
    if scope.get("method") == "OPTIONS":
        methods = scope["app"].state[_ALLOWED][scope["route_handler"]]
    rest = ((key, value) for key, value in message["headers"] if key != _ALLOW)
    message["headers"] = [*rest, (_ALLOW, ", ".join(sorted(methods)).encode())]
