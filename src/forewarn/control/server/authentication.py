"""Tokens: how they are made, and who is let in with one.

    fw_<id>_<secret>     the id finds the token; the secret, 256 random bits, is kept as its SHA-256 alone

Wrong tokens are slowed down: whoever has shown some from one address is turned away unheard for a while that grows
with every further one. Others at that address, with tokens of their own, are not kept waiting.
"""

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from forewarn.control.problems import TooManyFailures, Unauthenticated
from forewarn.core.access import Principal
from forewarn.core.credentials import Role, Token
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind

_WRITTEN = re.compile(r"fw_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_FREE_FAILURES = 5
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
_FORGET_AFTER = 900.0
_MOST_REMEMBERED = 10_000
_NO_HASH = "0" * 64

CALLER_KINDS = {Role.OPERATOR: CallerKind.OPERATOR, Role.OWNER: CallerKind.OWNER, Role.VIEWER: CallerKind.OPERATOR}
"""Who stands in the record for a role. A viewer causes nothing."""


def mint(
    name: str, role: Role, groups: tuple[str, ...], now: datetime, lasts: timedelta | None, id_: str = ""
) -> tuple[Token, str]:
    """Draw a new token, or another secret for one; return what is kept of it, and the text that its bearer shows."""
    id_, secret = id_ or secrets.token_hex(8), secrets.token_urlsafe(32)
    expires_at = now + lasts if lasts else None
    return Token(id_, name, role, _hash(secret), now, expires_at, groups), f"fw_{id_}_{secret}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class _FailedAttempts(msgspec.Struct):
    count: int = 0
    last_at: float = 0.0
    wait_until: float = 0.0


class Authenticator:
    """Tells who shows a token, and slows down those who guess."""

    def __init__(self, now: Callable[[], datetime], seconds: Callable[[], float]) -> None:
        self._now = now
        self._seconds = seconds
        self._failures: OrderedDict[tuple[str, str], _FailedAttempts] = OrderedDict()
        self.refused = 0
        """How many requests were turned away since the start."""

    def authenticate(self, fleet: Fleet, authorization: str, address: str) -> Principal:
        """Return who shows this ``Authorization`` header; raise Unauthenticated or TooManyFailures."""
        scheme, _, text = authorization.partition(" ")
        written = _WRITTEN.fullmatch(text.strip()) if scheme.lower() == "bearer" else None
        token = fleet.tokens.get(written[1]) if written else None
        # Whoever guesses ids is one and the same guesser, so that this memory stays small.
        key = (address, token.id if token else "")
        self._refuse_while_waiting(key)
        matches = hmac.compare_digest(_hash(written[2] if written else ""), token.hash if token else _NO_HASH)
        if token is None or not matches or self._is_expired(token):
            self.refused += 1
            if authorization:
                self._remember(key)
            raise Unauthenticated
        self._failures.pop(key, None)
        return Principal(
            Caller(CALLER_KINDS[token.role], token.name, address),
            token.role,
            frozenset(token.groups),
            token.id,
            token.expires_at,
        )

    def _is_expired(self, token: Token) -> bool:
        return token.expires_at is not None and token.expires_at <= self._now()

    def _refuse_while_waiting(self, key: tuple[str, str]) -> None:
        failures = self._failures.get(key)
        if failures is None:
            return
        left = failures.wait_until - self._seconds()
        if left > 0:
            self.refused += 1
            raise TooManyFailures(int(left) + 1)

    def _remember(self, key: tuple[str, str]) -> None:
        now = self._seconds()
        failures = self._failures.setdefault(key, _FailedAttempts())
        self._failures.move_to_end(key)
        if now - failures.last_at > _FORGET_AFTER:
            failures.count = 0
        failures.count += 1
        failures.last_at = now
        if failures.count >= _FREE_FAILURES:
            wait = min(_FIRST_WAIT * 2 ** min(failures.count - _FREE_FAILURES, 10), _LONGEST_WAIT)
            failures.wait_until = now + wait
        while len(self._failures) > _MOST_REMEMBERED:
            self._failures.popitem(last=False)
