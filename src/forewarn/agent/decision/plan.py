"""Plans which handlers fit into the time before an event, and the deadline of each call. Pure.

    now ─────────────────────────────────────────────── NotBefore
     │ stage 1 │    stage 2     │ stage 3 │   to spare  │ SPARE: the approval's way
       takes      takes (the       takes
                  longest in it)

A call that takes longer is stopped HANDOVER before the time that later stages need.

When not all handlers fit, they are placed in the order of importance, and those without room are skipped. They still
run in the order of the configuration. A handler without ``takes`` needs no room here: it is called as long as any
time is left.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

SPARE = timedelta(seconds=1)
"""Kept free before NotBefore."""
HANDOVER = timedelta(seconds=1.5)
"""Kept free between a call and later stages that have time reserved: a call that is stopped may take a second to
return, and the next call must not lose the milliseconds in between."""
SLIP = timedelta(milliseconds=250)
"""By how much a handler may exceed the time left and still be called: its deadline is then that much shorter."""
_FOR_EVER = timedelta(days=36_500)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""Lower bound for NotBefore of any service, so that date arithmetic cannot overflow."""


class OnFailure(StrEnum):
    """What a handler's failure means for the event."""

    GO_ON = "go-on"
    HOLD = "hold"
    GIVE_UP = "give-up"


class HandlerTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How one handler is called: the settings of [handlers.NAME] that all handlers share."""

    timeout: timedelta = timedelta(seconds=60)
    takes: timedelta = timedelta(0)
    importance: int = 0
    retries: int = 0
    retry_after: timedelta = timedelta(seconds=2)
    on_failure: OnFailure = OnFailure.HOLD
    """For a handler that only notifies (``prepares = False``) the default is ``go-on``."""


def is_within(pause: timedelta, since: datetime, now: datetime) -> bool:
    """Return whether a pause still lasts; one that began in the future is over, because the clock was set back."""
    return timedelta(0) <= now - since < pause


def time_left(not_before: datetime | None, now: datetime) -> timedelta:
    """Return the time left to prepare; unlimited without NotBefore."""
    return _FOR_EVER if not_before is None else max(not_before, _LONG_AGO) - SPARE - now


def fitting(stages: Sequence[Sequence[str]], terms: Mapping[str, HandlerTerms], left: timedelta) -> frozenset[str]:
    """Return the handlers of these stages that can all be run, one stage after another, in the time that is left."""
    if left <= timedelta(0):
        return frozenset()
    order = [name for stage in stages for name in stage]
    chosen: frozenset[str] = frozenset()
    # The sort is stable: among equals, the configured order decides.
    for name in sorted(order, key=lambda name: -terms[name].importance):
        if _length(stages, terms, chosen | {name}) <= left + SLIP:
            chosen |= {name}
    return chosen


def lasts(
    stages: Sequence[Sequence[str]], terms: Mapping[str, HandlerTerms], chosen: frozenset[str], left: timedelta
) -> timedelta:
    """Return for how long ``fitting`` keeps returning the same as now, while the time left decreases."""
    return min(left, left + SLIP - _length(stages, terms, chosen) + timedelta.resolution)


def _length(stages: Sequence[Sequence[str]], terms: Mapping[str, HandlerTerms], chosen: frozenset[str]) -> timedelta:
    none = timedelta(0)
    return sum((max((terms[name].takes for name in stage if name in chosen), default=none) for stage in stages), none)


def deadline(
    name: str,
    later: Sequence[Sequence[str]],
    terms: Mapping[str, HandlerTerms],
    chosen: frozenset[str],
    not_before: datetime | None,
    began: datetime,
) -> datetime:
    """Return the deadline of a call that began at ``began``; the chosen handlers of later stages keep their time.

    A call gets the time that it ``takes`` if later stages keep theirs; a longer one ends ``HANDOVER`` earlier.
    """
    longest = began + terms[name].timeout
    if not_before is None:
        return longest
    reserved = _length(later, terms, chosen)
    latest = max(not_before, _LONG_AGO) - SPARE - reserved
    promised = began + terms[name].takes
    if reserved:
        handed_over = latest - HANDOVER
        latest = max(handed_over, min(promised, latest)) if promised <= latest + SLIP else handed_over
    return min(longest, latest)
