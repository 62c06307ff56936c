"""A look at one thing that a rule promises, and what all looks together come to.

A check is a function that yields results; it has the name of its rule. What cannot be observed raises
``NotObserved``: a rule that was not observed is never called kept.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

_Subject = TypeVar("_Subject")


class CheckResult(msgspec.Struct, frozen=True):
    """What was expected, and what was seen instead or indeed."""

    expected: str
    seen: str
    is_kept: bool


class NotObserved(Exception):
    """There was nothing to look at; says why."""


class RuleOutcome(StrEnum):
    """What became of a rule."""

    KEPT = "kept"
    BREACH = "breach"
    DIFFERS = "differs"
    """It is broken, but it is ours and not Azure's: other servers may do as they do."""
    NOT_SEEN = "not seen"


class RuleFinding(msgspec.Struct, frozen=True):
    """What was found out about one rule."""

    rule: str
    outcome: RuleOutcome
    expected: str
    seen: str


class CheckTiming(StrEnum):
    """When a rule can be looked at."""

    ALWAYS = "always"
    ON_AN_EVENT = "on an event"
    ON_REQUEST = "on request"
    """It takes long, or is a burden to the server."""


class Check(msgspec.Struct, Generic[_Subject], frozen=True):
    """How a rule is looked at."""

    when: CheckTiming
    look: Callable[[_Subject], Iterator[CheckResult]]


class Checks(dict[str, Check[_Subject]]):
    """Checks by the name of their rule."""

    def add(
        self, when: CheckTiming = CheckTiming.ALWAYS
    ) -> Callable[[Callable[[_Subject], Iterator[CheckResult]]], Callable[[_Subject], Iterator[CheckResult]]]:
        """Take a function in under its own name."""

        def taken(look: Callable[[_Subject], Iterator[CheckResult]]) -> Callable[[_Subject], Iterator[CheckResult]]:
            self[look.__name__.replace("_", "-")] = Check(when, look)
            return look

        return taken


def require_results(looks: Iterable[CheckResult], otherwise: str) -> Iterator[CheckResult]:
    """Yield the looks; where there are none, say why."""
    is_empty = True
    for look in looks:
        is_empty = False
        yield look
    if is_empty:
        raise NotObserved(otherwise)


OUT_OF_SIGHT = "it cannot be seen from outside"


def is_good(findings: Iterable[RuleFinding], *, requires_all: bool = False) -> bool:
    """Tell whether no rule that binds is broken; ``requires_all``: and none that can be seen was not."""
    return not any(
        each.outcome is RuleOutcome.BREACH
        or (requires_all and each.outcome is RuleOutcome.NOT_SEEN and each.seen != OUT_OF_SIGHT)
        for each in findings
    )


def conclude(rule: str, promise: str, looks: Iterator[CheckResult], *, is_binding: bool = True) -> RuleFinding:
    """Return what the looks come to: the first that is not kept counts."""
    last = None
    try:
        for last in looks:
            if not last.is_kept:
                return RuleFinding(
                    rule, RuleOutcome.BREACH if is_binding else RuleOutcome.DIFFERS, last.expected, last.seen
                )
    except NotObserved as why:
        return RuleFinding(rule, RuleOutcome.NOT_SEEN, promise, str(why))
    if last is None:
        return RuleFinding(rule, RuleOutcome.NOT_SEEN, promise, "there was nothing to look at")
    return RuleFinding(rule, RuleOutcome.KEPT, last.expected, last.seen)
