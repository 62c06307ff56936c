"""Login with a token or a one-time link, and logout."""

from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.datastructures import Cookie
from litestar.enums import RequestEncodingType
from litestar.params import Body, FromQuery
from litestar.response import Redirect

from forewarn.control.api.context import ContextDependency, context_of
from forewarn.control.dashboard.routing import ERRORS, HEADERS, html, public_page
from forewarn.control.dashboard.sessions import check_csrf, csrf_token, login_cookie, port_of, session_cookie
from forewarn.control.problems import TooManyFailures, Unauthenticated
from forewarn.core.commands import RevokeToken
from forewarn.core.errors import ForewarnError
from forewarn.randomness import new_uuid, secret_text

_START = "/"


class LoginForm(msgspec.Struct, frozen=True):
    """What the login page sends: a token, or the code of a link."""

    csrf: str = ""
    token: str = ""
    code: str = ""
    next: str = _START


_Form = Annotated[LoginForm, Body(media_type=RequestEncodingType.URL_ENCODED)]


@public_page(get, "/login")
async def login_page(request: Request[Any, Any, Any], next: FromQuery[str] = _START) -> Response[bytes]:
    """Show the form. The script of the page redeems the code of a link, which is not sent with the address."""
    return _form(request, next)


@public_page(post, "/login", status_code=200)
async def log_in(request: Request[Any, Any, Any], context: ContextDependency, data: _Form) -> Response[Any]:
    """Check the token, and keep it in the cookie."""
    port = port_of(request.scope)
    check_csrf(request.cookies.get(login_cookie(port), ""), data.csrf)
    try:
        token = context.links.redeem(data.code) if data.code else data.token.strip()
        address = request.client.host if request.client else ""
        principal = context.authenticator.authenticate(context.fleet, f"Bearer {token}", address)
    except (Unauthenticated, TooManyFailures) as error:
        detail = "" if isinstance(error, Unauthenticated) else str(error)
        return _form(request, data.next, is_wrong=True, detail=detail, status=401)
    except ForewarnError as error:
        return _form(request, data.next, is_wrong=True, detail=str(error), status=403)
    lasts = principal.expires_at - context.now() if principal.expires_at else None
    cookie = _cookie(
        request, session_cookie(port), token, None if lasts is None else max(1, int(lasts.total_seconds()))
    )
    return Redirect(_local(data.next), status_code=303, headers=HEADERS, cookies=[cookie])


@public_page(post, "/logout", status_code=200)
async def log_out(request: Request[Any, Any, Any], context: ContextDependency, data: _Form) -> Response[Any]:
    """End the session in this browser. A token that was made for it is revoked; any other stays valid."""
    name = session_cookie(port_of(request.scope))
    token = request.cookies.get(name, "")
    check_csrf(token, data.csrf)
    if context.links.was_made_for(token):
        with suppress(ForewarnError):  # it may have ended already, or this node does not lead; it ends by itself
            principal = context.authenticator.authenticate(context.fleet, f"Bearer {token}", "")
            await context.node.submit(RevokeToken(id=new_uuid(), by=principal.caller, token=principal.token))
    return Redirect("/login", status_code=303, headers=HEADERS, cookies=[_cookie(request, name, "", 0)])


def _form(
    request: Request[Any, Any, Any], target: str, *, is_wrong: bool = False, detail: str = "", status: int = 200
) -> Response[bytes]:
    name = login_cookie(port_of(request.scope))
    secret = request.cookies.get(name) or secret_text()
    shown = html(
        request,
        "login.html",
        status=status,
        csrf=csrf_token(secret),
        target=_local(target),
        is_wrong=is_wrong,
        detail=detail,
        is_local=context_of(request.scope).links is not None,
    )
    shown.set_cookie(_cookie(request, name, secret, None))
    return shown


def _cookie(request: Request[Any, Any, Any], name: str, value: str, lasts: int | None) -> Cookie:
    is_secure = request.scope["scheme"] == "https"
    return Cookie(key=name, value=value, max_age=lasts, httponly=True, samesite="lax", secure=is_secure)


def _local(target: str) -> str:
    """Return a path of this service: a redirect must not leave it."""
    try:
        parts = urlsplit(target)
    except ValueError:  # such as //[
        return _START
    is_local = (
        not parts.scheme and not parts.netloc and target.startswith("/") and not target.startswith(("//", "/\\"))
    )
    return target if is_local and target.isprintable() else _START


login = Router("/", route_handlers=[login_page, log_in, log_out], exception_handlers=ERRORS)
