"""What still fits before an event begins. Pure.

    now ─────────────────────────────────────────────── NotBefore
     │ stage 1 │    stage 2     │ stage 3 │   to spare  │ SPARE: the approval's way
       takes      takes (the       takes
                  longest in it)

A call that takes longer is told to stop HANDOVER before the time that later stages need.

When not everything fits, the most important handler finds its place first, then the next, and who finds none is left
out. The order in which they run stays that of the configuration. A handler that does not say how long it takes
counts for nothing here: it is tried as long as any time is left.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

SPARE = timedelta(seconds=1)
"""Kept free before NotBefore."""
HANDOVER = timedelta(seconds=1.5)
"""Kept free between a call and later stages that have time reserved: a call that is told to stop may take a second
to return, and what then begins must not lack the milliseconds in between."""
SLIP = timedelta(milliseconds=250)
"""By how much a handler may exceed what is left and is still begun: its deadline is then that much shorter."""
_FOR_EVER = timedelta(days=36_500)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""No event was announced before that, whatever a service says; nothing reaches the end of the calendar from there."""


class OnFailure(StrEnum):
    """What a handler's failure means for the event."""

    GO_ON = "go-on"
    HOLD = "hold"
    GIVE_UP = "give-up"


class HandlerTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How one handler is run: what every table [handlers.NAME] may say beside the handler's own settings."""

    timeout: timedelta = timedelta(seconds=60)
    takes: timedelta = timedelta(0)
    importance: int = 0
    retries: int = 0
    retry_after: timedelta = timedelta(seconds=2)
    on_failure: OnFailure = OnFailure.HOLD
    """For a handler that only tells others (``prepares = False``) the default is ``go-on``."""


def is_within(pause: timedelta, since: datetime, now: datetime) -> bool:
    """Tell whether a pause still lasts; one that seems to begin in the future is over, as the clock was set."""
    return timedelta(0) <= now - since < pause


def time_left(not_before: datetime | None, now: datetime) -> timedelta:
    """Return the time there is to get ready; without NotBefore it has no end."""
    return _FOR_EVER if not_before is None else max(not_before, _LONG_AGO) - SPARE - now


def fitting(stages: Sequence[Sequence[str]], terms: Mapping[str, HandlerTerms], left: timedelta) -> frozenset[str]:
    """Return the handlers of these stages that can all be run, one stage after another, in the time that is left."""
    if left <= timedelta(0):
        return frozenset()
    order = [name for stage in stages for name in stage]
    chosen: frozenset[str] = frozenset()
    # The sort is stable: among equals, whoever stands earlier goes first.
    for name in sorted(order, key=lambda name: -terms[name].importance):
        if _length(stages, terms, chosen | {name}) <= left + SLIP:
            chosen |= {name}
    return chosen


def lasts(
    stages: Sequence[Sequence[str]], terms: Mapping[str, HandlerTerms], chosen: frozenset[str], left: timedelta
) -> timedelta:
    """Return how long ``fitting`` returns the same as now, while the time that is left runs out."""
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
    """Return when a call that began then must be done, so that those chosen from later stages still have their time.

    What it says it takes, it gets where that leaves the later stages their time; beyond that it ends ``HANDOVER``
    earlier.
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
