"""The promises about tokens: what they let their holders do, and until when.

revoked      refused from then on
rotated      the old secret is refused at once, or is valid for as long as was asked for
expired      refused from then on
a viewer's   changes nothing
"""

import re

import msgspec

from forewarn.simulator.actions.access_requests import VIEWER
from forewarn.simulator.actions.cluster_faults import SkewNode
from forewarn.simulator.actions.service_faults import DriftClock, StepClock
from forewarn.simulator.exchanges import ControlExchange
from forewarn.simulator.promises.memory import CheckerMemory

_TOKEN = re.compile(r"/v1/tokens/([0-9a-f]+)(?:/rotate)?")
_OVERLAP = re.compile(r"overlap=(\d+)")
_PUBLIC = ("/v1/health/live", "/v1/health/ready")
"""What everybody may read, with a wrong token or with none."""
_SLACK = 1.0
"""Seconds after which a token is certainly expired."""


class _NewToken(msgspec.Struct):
    id: str


class _AskedToken(msgspec.Struct):
    lasts: int | None = None


class _Limit(msgspec.Struct, frozen=True):
    """From when on a token, or its old secret, is refused; and why."""

    at: float
    reason: str


class _Doubt(msgspec.Struct, frozen=True):
    """What contradicts a rotation or an expiry, unless another request changed the token meanwhile."""

    token: str
    exchange: ControlExchange
    key: str
    """The key of the request that the token is as it is by."""
    text: str


class TokenPromises:
    """Remembers what became of tokens, and checks what they are accepted for."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._report = memory.report
        self._has_right_clock = not any(
            isinstance(each, StepClock | DriftClock | SkewNode) for each in memory.plan.actions
        )
        self._revoked: dict[str, float] = {}
        """When the revocation of each token had been acknowledged."""
        self._limits: dict[str, tuple[_Limit, str]] = {}
        """Of tokens that expire, and of old secrets; each with the key of the request that set it."""
        self._valid_until: dict[str, tuple[float, str]] = {}
        """Of old secrets: until when each is valid, with the key of its rotation."""
        self._changes: dict[str, list[ControlExchange]] = {}
        """Rotations and revocations that were asked for, whatever came of them."""
        self._doubts: list[_Doubt] = []

    def see(self, exchange: ControlExchange) -> None:
        is_done = 200 <= exchange.status < 300
        where = f"{exchange.method} {exchange.path} of {exchange.who}"
        if is_done and exchange.who == VIEWER and exchange.method != "GET" and not exchange.is_trial:
            self._report(exchange.ended_at, f"{where} was let through, although a viewer changes nothing")
        if exchange.token and exchange.path not in _PUBLIC:
            self._see_use(exchange, where, is_done=is_done)
        if exchange.method != "GET" and exchange.path.startswith("/v1/tokens"):
            self._see_change(exchange, is_done=is_done)

    def _see_use(self, exchange: ControlExchange, where: str, *, is_done: bool) -> None:
        token = exchange.token
        id_ = token.partition(" ")[0]
        if is_done and id_ in self._revoked and self._revoked[id_] < exchange.sent_at:
            self._report(exchange.ended_at, f"{where} was let through with a revoked token")
        if is_done and token in self._limits and self._limits[token][0].at <= exchange.sent_at:
            limit, key = self._limits[token]
            self._doubts.append(
                _Doubt(id_, exchange, key, f"{where} was let through with a token that {limit.reason}")
            )
        if exchange.status == 401 and token in self._valid_until:
            until, key = self._valid_until[token]
            if exchange.ended_at < until:
                text = f"{where} was refused with an old secret, which was to be valid until {until:.0f} s"
                self._doubts.append(_Doubt(id_, exchange, key, text))

    def _see_change(self, exchange: ControlExchange, *, is_done: bool) -> None:
        path, _, query = exchange.path.partition("?")
        named = _TOKEN.fullmatch(path)
        if named is None:
            if is_done and self._has_right_clock and exchange.body:
                self._see_new(exchange)
            return
        self._changes.setdefault(named[1], []).append(exchange)
        if not is_done:
            return
        if exchange.method == "DELETE":
            self._revoked.setdefault(named[1], exchange.ended_at)
        elif found := _OVERLAP.search(query):
            old, overlap = f"{named[1]} before {exchange.key}", int(found[1])
            if not overlap:
                self._limits[old] = _Limit(exchange.ended_at, "has another secret now"), exchange.key
            elif self._has_right_clock and named[1] not in self._limits:  # an old secret ends with its token
                self._valid_until[old] = exchange.sent_at + overlap - _SLACK, exchange.key

    def _see_new(self, exchange: ControlExchange) -> None:
        lasts = msgspec.json.decode(exchange.body, type=_AskedToken).lasts
        if lasts is not None:
            token = msgspec.json.decode(exchange.response, type=_NewToken).id
            self._limits[token] = _Limit(exchange.ended_at + lasts + _SLACK, "has expired"), exchange.key

    def settle(self) -> None:
        for doubt in self._doubts:
            others = (each for each in self._changes.get(doubt.token, ()) if each.key != doubt.key)
            if not any(each.sent_at <= doubt.exchange.ended_at for each in others):
                self._report(doubt.exchange.ended_at, doubt.text)
