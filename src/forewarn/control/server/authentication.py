"""Token authentication: creates tokens, verifies them, throttles failed attempts.

    fw_<id>_<secret>     the id finds the token; of the secret, 256 random bits, only the SHA-256 is stored

After several wrong tokens from one address its further attempts are refused without a check, for a time that doubles
with each one. Other tokens from the same address are not affected.
"""

import hashlib
import hmac
import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from forewarn.control.problems import TooManyFailures, Unauthenticated
from forewarn.core.access import Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind, Role, Token
from forewarn.core.redaction import TOKEN_BEGINNING
from forewarn.randomness import secret_bytes, secret_text

_WRITTEN = re.compile(rf"{TOKEN_BEGINNING}([A-Za-z0-9_-]{{43}})")
_FREE_FAILURES = 5
_FIRST_WAIT = 1.0
_MOST_ADDRESSES = 500
_LONGEST_WAIT = 60.0
_FORGET_AFTER = 900.0
_MOST_REMEMBERED = 10_000
_NO_HASH = "0" * 64

CALLER_KINDS = {Role.OPERATOR: CallerKind.OPERATOR, Role.OWNER: CallerKind.OWNER, Role.VIEWER: CallerKind.OPERATOR}
"""Kind of caller recorded for a role. A viewer causes nothing."""


def mint(
    name: str, role: Role, groups: tuple[str, ...], now: datetime, lasts: timedelta | None, id_: str = ""
) -> tuple[Token, str]:
    """Create a token, or a new secret for one; return the record to store, and the token text."""
    id_, secret = id_ or secret_bytes(8).hex(), secret_text()
    expires_at = now + lasts if lasts else None
    return Token(id_, name, role, _hash(secret), now, expires_at, groups), f"fw_{id_}_{secret}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class _FailedAttempts(msgspec.Struct):
    count: int = 0
    last_at: float = 0.0
    wait_until: float = 0.0


class Authenticator:
    """Authenticates tokens, and throttles failed attempts."""

    def __init__(
        self, now: Callable[[], datetime], seconds: Callable[[], float], most_remembered: int = _MOST_REMEMBERED
    ) -> None:
        self._now = now
        self._most_remembered = most_remembered
        self._seconds = seconds
        self._failures: OrderedDict[tuple[str, str], _FailedAttempts] = OrderedDict()
        self.refused = 0
        """Number of refused requests since the start."""
        self.refused_by: Counter[str] = Counter()
        """The same by address; of many addresses, those that were refused most."""

    def authenticate(self, fleet: Fleet, authorization: str, address: str) -> Principal:
        """Return the principal of an ``Authorization`` header; raise Unauthenticated or TooManyFailures."""
        scheme, _, text = authorization.partition(" ")
        written = _WRITTEN.fullmatch(text.strip()) if scheme.lower() == "bearer" else None
        token = fleet.tokens.get(written[1]) if written else None
        # All unknown ids of an address share one key, so that this memory stays small.
        key = (address, token.id if token else "")
        self._refuse_while_waiting(key)
        given = _hash(written[2] if written else "")
        is_present = hmac.compare_digest(given, token.hash if token else _NO_HASH)
        is_previous = hmac.compare_digest(given, self._previous_hash(token))
        if token is None or not (is_present or is_previous) or self._is_expired(token):
            self._count(address)
            if authorization:
                self._remember(key)
            raise Unauthenticated
        self._failures.pop(key, None)
        principal = _principal(token, address)
        return principal if is_present else replace(principal, expires_at=token.previous_until)

    def principal_of(self, fleet: Fleet, token_id: str, address: str) -> Principal:
        """Return the principal of a token that was verified before; raise Unauthenticated if it is not in force."""
        token = fleet.tokens.get(token_id)
        if token is None or self._is_expired(token):
            self._count(address)
            raise Unauthenticated
        return _principal(token, address)

    def _previous_hash(self, token: Token | None) -> str:
        """Return the hash of the secret before the last rotation, while that is valid."""
        if token is None or token.previous_until is None or token.previous_until <= self._now():
            return _NO_HASH
        return token.previous_hash

    def _is_expired(self, token: Token) -> bool:
        return token.expires_at is not None and token.expires_at <= self._now()

    def _refuse_while_waiting(self, key: tuple[str, str]) -> None:
        failures = self._failures.get(key)
        if failures is None:
            return
        left = failures.wait_until - self._seconds()
        if left > 0:
            self._count(key[0])
            raise TooManyFailures(int(left) + 1)

    def _count(self, address: str) -> None:
        self.refused += 1
        self.refused_by[address] += 1
        if len(self.refused_by) > 2 * _MOST_ADDRESSES:
            self.refused_by = Counter(dict(self.refused_by.most_common(_MOST_ADDRESSES)))

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
        while len(self._failures) > self._most_remembered:
            self._failures.popitem(last=False)


def _principal(token: Token, address: str) -> Principal:
    caller = Caller(CALLER_KINDS[token.role], token.name, address)
    return Principal(caller, token.role, frozenset(token.groups), token.id, token.expires_at)
