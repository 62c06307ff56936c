"""Decides whether the expectations of a scenario are met."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from forewarn.config.durations import show_duration
from forewarn.core import lifecycle
from forewarn.emulator.event_log import EventLife
from forewarn.emulator.requests import SentRequest
from forewarn.emulator.scenario import Expectation
from forewarn.emulator.scenario_tables import Claim

_ENDS = {Claim(end): end for end in lifecycle.ENDS}


class ExpectationState(StrEnum):
    """State of an expectation."""

    OPEN = "open"
    MET = "met"
    MISSED = "missed"


class Verdict(msgspec.Struct, frozen=True):
    """State of one expectation, with its text."""

    claim: str
    outcome: ExpectationState
    detail: str = msgspec.field(default="", name="told")


def claim_of(expectation: Expectation) -> str:
    words = [f"{expectation.event} {expectation.that}".strip()]
    if expectation.never:
        words[0] = f"{expectation.event} never {expectation.that}".strip()
    if expectation.by:
        words.append(f"by {expectation.by}")
    if expectation.within is not None:
        words.append(f"within {show_duration(expectation.within)}")
    if expectation.after is not None:
        words.append(f"not before {show_duration(expectation.after)}")
    return " ".join(words)


def judge(expectation: Expectation, lives: Sequence[EventLife] | None, now: datetime, hurry: float) -> Verdict:
    """Judge an expectation of the events that a step announced; all of them must meet it."""
    if lives is None:
        return Verdict(claim_of(expectation), ExpectationState.OPEN, "not yet")
    if not lives:
        return Verdict(claim_of(expectation), ExpectationState.MISSED, "nothing was announced")
    judged = [_judge_one(expectation, life, now, hurry) for life in lives]
    order = (ExpectationState.MISSED, ExpectationState.OPEN, ExpectationState.MET)
    return min(judged, key=lambda verdict: order.index(verdict.outcome))


def judge_requests(
    expectation: Expectation, requests: Iterable[SentRequest], began_at: datetime, now: datetime, hurry: float
) -> Verdict:
    by = expectation.by
    # A request before the start counts as one at the start.
    happened = next((max(sent.at, began_at) for sent in requests if by in ("", sent.vm)), None)
    return _weigh(expectation, happened, began_at, now, hurry, is_final=False)


def _judge_one(expectation: Expectation, life: EventLife, now: datetime, hurry: float) -> Verdict:
    happened = _when(expectation, life)
    return _weigh(expectation, happened, life.event.announced_at, now, hurry, is_final=life.is_over)


def _when(expectation: Expectation, life: EventLife) -> datetime | None:
    match expectation.that:
        case Claim.FETCHED | Claim.APPROVED:
            who = life.fetched if expectation.that is Claim.FETCHED else life.approved
            return who.get(expectation.by) if expectation.by else min(who.values(), default=None)
        case Claim.STARTED:
            return life.started_at
        case Claim.GONE:
            return life.ended_at
        case claim:
            return life.ended_at if life.status is _ENDS[claim] else None


def _weigh(
    expectation: Expectation,
    happened: datetime | None,
    since: datetime,
    now: datetime,
    hurry: float,
    *,
    is_final: bool,
) -> Verdict:
    claim = claim_of(expectation)
    did = f"it was {expectation.that}" if expectation.that is not Claim.ASKED else "the first request came"
    if happened is not None:
        # In the scenario's time, so that it can be compared with the scenario.
        took = (happened - since) * hurry
        said = f"{did} after {show_duration(timedelta(seconds=round(took.total_seconds())))}"
        is_late = expectation.within is not None and took > expectation.within
        is_early = expectation.after is not None and took < expectation.after
        is_met = not (is_late or is_early or expectation.never)
        return Verdict(claim, ExpectationState.MET if is_met else ExpectationState.MISSED, said)
    waited = (now - since) * hurry
    is_too_late = is_final or (expectation.within is not None and waited > expectation.within)
    if not is_too_late:
        return Verdict(claim, ExpectationState.OPEN, "not yet")
    return Verdict(claim, ExpectationState.MET if expectation.never else ExpectationState.MISSED, "it did not happen")
