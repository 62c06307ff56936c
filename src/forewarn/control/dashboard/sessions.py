"""Sessions of the dashboard: the cookie holds a token, so that a session ends with its token.

    login with a token        the cookie holds that token
    one-time link             a code in memory stands for a token; it is redeemed once, within five minutes

A request with the cookie that changes something must carry the CSRF token of the session, which is derived from the
cookie: another site can send the cookie, but cannot read or compute that value.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from forewarn.control.problems import InvalidSession
from forewarn.core.errors import NotAllowed
from forewarn.randomness import secret_text

_COOKIE = "forewarn_session"
_LOGIN_COOKIE = "forewarn_login"
"""Holds a random value that the login form repeats, so that no other site can log a browser in."""
CSRF_HEADER = "x-csrf-token"
LINK_LIFETIME = 300.0
"""Seconds within which a one-time link must be redeemed."""
_MOST_LINKS = 1_000


def session_cookie(port: int) -> str:
    """Return the name of the cookie of a session: browsers send cookies to all ports of a host."""
    return f"{_COOKIE}_{port}"


def login_cookie(port: int) -> str:
    return f"{_LOGIN_COOKIE}_{port}"


def port_of(scope: Mapping[str, Any]) -> int:
    """Return the port that a request came to; 0 at the unix socket."""
    server = scope.get("server")
    return (server[1] or 0) if server else 0


def csrf_token(secret: str) -> str:
    """Return the CSRF token of a session or of a login form."""
    return hashlib.sha256(f"csrf:{secret}".encode()).hexdigest()


def check_csrf(secret: str, given: str) -> None:
    if not hmac.compare_digest(csrf_token(secret).encode(), given.encode()):
        raise InvalidSession


def bearer_of(token: str, method: str, csrf: str) -> str:
    """Return the ``Authorization`` header that the token of the cookie stands for; empty without one."""
    if not token:
        return ""
    if method not in ("GET", "HEAD"):
        check_csrf(token, csrf)
    return f"Bearer {token}"


class _Link(msgspec.Struct, frozen=True):
    token: str
    expires: float
    is_made: bool


class LoginLinks:
    """One-time links that were created and not redeemed yet. They are gone with the process."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._links: dict[str, _Link] = {}
        self._made: dict[str, None] = {}
        """Hashes of tokens that were made for sessions which a link began."""

    def create(self, token: str, *, is_made: bool = False) -> str:
        """Return a code that stands for a token; one that was made for the session ends with it."""
        self._drop_expired()
        while len(self._links) >= _MOST_LINKS:
            del self._links[next(iter(self._links))]
        code = secret_text()
        self._links[_key(code)] = _Link(token, self._seconds() + LINK_LIFETIME, is_made)
        return code

    def redeem(self, code: str) -> str:
        """Return the token of a code, once; raise NotAllowed for any other code."""
        self._drop_expired()
        link = self._links.pop(_key(code), None)
        if link is None:
            raise NotAllowed(
                "this link was used already or is older than five minutes; run 'forewarn dashboard' again"
            )
        if link.is_made:
            self._made[_key(link.token)] = None
            while len(self._made) > _MOST_LINKS:
                del self._made[next(iter(self._made))]
        return link.token

    def was_made_for(self, token: str) -> bool:
        """Return whether a token was made for a session that a link began."""
        return _key(token) in self._made

    def _drop_expired(self) -> None:
        now = self._seconds()
        self._links = {key: link for key, link in self._links.items() if link.expires > now}


def _key(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
