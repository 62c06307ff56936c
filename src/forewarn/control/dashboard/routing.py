"""Declares the pages: permission, rendering, security headers, and errors that a person reads."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from litestar import MediaType, Request, Response, get
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.response import Redirect
from litestar.types import ExceptionHandlersMap

from forewarn.control.api.context import authenticate, context_of, principal_of
from forewarn.control.api.problems import answer_http, answer_unforeseen
from forewarn.control.api.routing import ACTION, PUBLIC
from forewarn.control.dashboard.rendering import render, texts
from forewarn.control.dashboard.sessions import csrf_token, port_of, session_cookie
from forewarn.control.dashboard.static_files import digest
from forewarn.control.problems import Unauthenticated, problem_of
from forewarn.core.access import Action
from forewarn.core.errors import ForewarnError

StateFilter = Annotated[str, QueryParameter(name="state")]
"""Parameter of a page: a state of VMs. The framework has another use for the name itself."""
_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAVIGATION = (
    ("tonight", "/", Action.READ_VMS),
    ("fleet", "/fleet", Action.READ_VMS),
    ("timeline", "/timeline", Action.READ_VMS),
    ("rollouts", "/rollouts", Action.READ_HOSTS),
    ("vms", "/vms", Action.READ_VMS),
    ("hosts", "/hosts", Action.READ_HOSTS),
    ("groups", "/groups", Action.READ_VMS),
    ("history", "/history", Action.READ_HISTORY),
    ("health", "/health", Action.READ_HEALTH),
    ("access", "/access", Action.KEEP_TOKENS),
    ("notifications", "/notifications", Action.KEEP_SUBSCRIPTIONS),
)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page: nothing inline, nothing from elsewhere, no frames, nothing kept."""


def html(
    request: Request[Any, Any, Any], template: str, *, status: int = 200, section: str = "", **values: object
) -> Response[bytes]:
    """Render a template as a page for the principal of the request."""
    principal = principal_of(request.scope) if section else None
    cookie = session_cookie(port_of(request.scope))
    may = {action.name.lower(): principal.may(action) for action in Action} if principal else {}
    page = render(
        template,
        {
            "section": section,
            "principal": principal,
            "csrf": csrf_token(request.cookies.get(cookie, "")) if principal else "",
            "may": may,
            "static": digest(),
            "now": context_of(request.scope).now(),
            "navigation": [(name, at, may[action.name.lower()]) for name, at, action in _NAVIGATION] if may else (),
            **values,
        },
    )
    return Response(page, status_code=status, media_type=MediaType.HTML, headers=HEADERS)


def _guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    authenticate(connection).require(handler.opt[ACTION])


def page(path: str, action: Action) -> Callable[[_Function], HTTPRouteHandler]:
    """Declare a page that a principal with this permission may see."""
    made: Callable[[_Function], HTTPRouteHandler] = get(
        path, opt={ACTION: action}, guards=[_guard], include_in_schema=False
    )
    return made


def public_page(
    method: Callable[..., Any], path: str, status_code: int = 200
) -> Callable[[_Function], HTTPRouteHandler]:
    """Declare a page that needs no session."""
    made: Callable[[_Function], HTTPRouteHandler] = method(
        path, opt={PUBLIC: True}, include_in_schema=False, status_code=status_code
    )
    return made


def _show_error(request: Request[Any, Any, Any], error: ForewarnError) -> Response[Any]:
    if isinstance(error, Unauthenticated):
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return Redirect(f"/login?next={quote(target, safe='')}", status_code=303, headers=HEADERS)
    problem = problem_of(error)
    return _error_page(request, problem.status, problem.title, problem.detail)


def _show_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    return _error_page(request, error.status_code, HTTPStatus(error.status_code).phrase, error.detail)


def _error_page(request: Request[Any, Any, Any], status: int, title: str, detail: str) -> Response[bytes]:
    """Show an error, with the navigation where there is a session."""
    try:
        authenticate(request)
        section = "error"
    except ForewarnError:
        section = ""
    return html(request, "error.html", status=status, section=section, title=title, detail=detail)


def show_unknown_path(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """Answer a browser with a page, and any other client as the API does."""
    if "text/html" not in request.headers.get("accept", ""):
        return answer_http(request, error)
    detail = texts()["error"]["unknown_path"].format(path=request.url.path)
    return _error_page(request, error.status_code, HTTPStatus(error.status_code).phrase, detail)


ERRORS: ExceptionHandlersMap = {
    ForewarnError: _show_error,
    HTTPException: _show_http_error,
    Exception: answer_unforeseen,
}
