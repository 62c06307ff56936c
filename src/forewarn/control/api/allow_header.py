"""``Allow``: the methods that a path has, named to OPTIONS and with a 405."""

from litestar import Litestar
from litestar.types import Message, Scope

_ALLOWED = "allowed"
_ALLOW = b"allow"


def record_methods(app: Litestar) -> None:
    """Note what each path can be used with.

    The framework answers OPTIONS with what a path had when its first route was added.
    """
    app.state[_ALLOWED] = {
        handler: sorted(route.methods) for route in app.routes for handler in getattr(route, "route_handlers", ())
    }


async def set_allow_header(message: Message, scope: Scope) -> None:
    """Name all methods of a path in an answer to OPTIONS, in alphabetical order in any."""
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
