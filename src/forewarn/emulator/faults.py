"""Fault injection around the real service: the kinds of faults, and which requests they affect.

    request ──▶ delay, stall, reset, 404 … 500 ──▶ the service ──▶ half body, other dates, other numbers ──▶ response
                `---- before the service ----'                      `--------- after the service --------'

The affected requests are drawn from a seed: the same requests in the same order get the same faults.
"""

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from forewarn.clocks import Clock
from forewarn.core.errors import BadInput, nearest


class FaultKind(StrEnum):
    """The kinds of faults."""

    DELAY = "delay"
    STALL = "stall"
    NOT_FOUND = "404"
    GONE = "410"
    TOO_MANY_REQUESTS = "429"
    INTERNAL_ERROR = "500"
    RESET = "reset"
    SLOW_FIRST_CALL = "slow-first-call"
    HALF_BODY = "half-body"
    EMPTY_BODY = "empty-body"
    WRONG_TYPE = "wrong-type"
    SKEWED_DATE = "skewed-date"
    ISO_DATES = "iso-dates"
    REPEATED_INCARNATION = "repeated-incarnation"
    SKIPPED_INCARNATION = "skipped-incarnation"
    INCARNATION_RESET = "incarnation-reset"


FAULTS = {
    FaultKind.DELAY: "The request reaches the service `seconds` later (default 5).",
    FaultKind.STALL: "The request is taken and never answered; the connection stays open.",
    FaultKind.NOT_FOUND: "404 instead of an answer, as while the endpoint is being updated.",
    FaultKind.GONE: "410 instead of an answer: the service is being updated, for at most 70 s.",
    FaultKind.TOO_MANY_REQUESTS: "429 instead of an answer, with Retry-After.",
    FaultKind.INTERNAL_ERROR: "500 instead of an answer.",
    FaultKind.RESET: "The connection is reset instead of an answer.",
    FaultKind.SLOW_FIRST_CALL: "The call that switches a group on takes `seconds` (default 120).",
    FaultKind.HALF_BODY: "The connection closes after half the body.",
    FaultKind.EMPTY_BODY: "The status is right and the body is empty.",
    FaultKind.WRONG_TYPE: "Content-Type is text/html.",
    FaultKind.SKEWED_DATE: "The header Date is `seconds` ahead (default 300; negative: behind).",
    FaultKind.ISO_DATES: "NotBefore is in ISO 8601, as the pages of the 2017 preview printed it.",
    FaultKind.REPEATED_INCARNATION: "The document changes and its incarnation does not.",
    FaultKind.SKIPPED_INCARNATION: "The incarnation rises by more than one.",
    FaultKind.INCARNATION_RESET: "The incarnation begins anew when a group that was off is switched on again.",
}
"""One sentence for each fault, for help and reference."""

BEFORE = frozenset(list(FaultKind)[: list(FaultKind).index(FaultKind.HALF_BODY)])
"""The faults before the service; the others change its response."""

_USUAL_SECONDS = {FaultKind.DELAY: 5.0, FaultKind.SLOW_FIRST_CALL: 120.0, FaultKind.SKEWED_DATE: 300.0}
_PER_CHANGE = (FaultKind.REPEATED_INCARNATION, FaultKind.SKIPPED_INCARNATION)


class Fault(msgspec.Struct, frozen=True):
    """One fault: its kind, probability, time window and requests."""

    kind: FaultKind
    probability: float = 1.0
    since: timedelta = timedelta()
    """Start, counted from the first request, or from the start of the scenario."""
    until: timedelta | None = None
    vm: str = ""
    """The VM with faulty requests; all if empty."""
    method: str = ""
    """The method of faulty requests; all if empty."""
    times: int | None = None
    """Largest number of faulty requests."""
    seconds: float | None = None

    @property
    def is_before(self) -> bool:
        return self.kind in BEFORE

    @property
    def takes_place_per_change(self) -> bool:
        """Whether its probability applies to changes of the document, not to requests."""
        return self.kind in _PER_CHANGE

    @property
    def amount(self) -> float:
        return _USUAL_SECONDS.get(self.kind, 0.0) if self.seconds is None else self.seconds


class FaultContext(msgspec.Struct, frozen=True):
    """The properties of a request that faults depend on."""

    vm: str
    method: str
    switches_on: bool
    """Whether the request enrols its group."""


class Faults:
    """The active faults; draws those of each request."""

    def __init__(self, clock: Clock, hurry: float = 1.0, seed: int = 0, faults: Iterable[Fault] = ()) -> None:
        self.hurry = hurry
        self.seed = seed
        self._clock = clock
        self._began_at: datetime | None = None
        """Start of the time windows; None before the first request."""
        self._drawn: list[_ArmedFault] = []
        self._numbers = 0
        for fault in faults:
            self.add(fault)

    def begin(self, at: datetime) -> None:
        """Set the start of the time windows."""
        self._began_at = at

    def add(self, fault: Fault) -> None:
        self._drawn.append(_ArmedFault(fault, random.Random(f"{self.seed}/{self._numbers}/{fault.kind}")))  # noqa: S311
        self._numbers += 1

    def clear(self) -> None:
        self._drawn.clear()

    def active_for(self, context: FaultContext) -> list[Fault]:
        """Draw the faults of this request, in the order in which they were added."""
        now = self._clock.now()
        self._began_at = self._began_at or now
        elapsed = (now - self._began_at) * self.hurry
        return [drawn.fault for drawn in list(self._drawn) if drawn.applies_to(context, elapsed)]


class _ArmedFault:
    """A fault with its own random generator."""

    def __init__(self, fault: Fault, chances: random.Random) -> None:
        self.fault = fault
        self._chances = chances
        self._times = 0

    def applies_to(self, context: FaultContext, elapsed: timedelta) -> bool:
        fault = self.fault
        if elapsed < fault.since or (fault.until is not None and elapsed >= fault.until):
            return False
        if (fault.vm and fault.vm != context.vm) or (fault.method and fault.method != context.method):
            return False
        if fault.kind is FaultKind.SLOW_FIRST_CALL and not context.switches_on:
            return False
        if fault.times is not None and self._times >= fault.times:
            return False
        if not fault.takes_place_per_change and self._chances.random() >= fault.probability:
            return False
        self._times += 1
        return True


def fault_kind(text: str) -> FaultKind:
    """Return the kind of this name; raise BadInput with a suggestion."""
    known = [kind.value for kind in FaultKind]
    if text not in known:
        raise BadInput(f"there is no fault {text!r}{nearest(text, known) or '; known faults: ' + ', '.join(known)}")
    return FaultKind(text)
