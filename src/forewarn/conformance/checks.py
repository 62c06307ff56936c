"""The registry of checks, and the result of a check.

A check is a function that yields results; it has the name of its rule. It raises ``NotObserved`` if the rule cannot
be observed: such a rule never counts as kept.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

_Subject = TypeVar("_Subject")


class CheckResult(msgspec.Struct, frozen=True):
    """One expectation of a rule, and what was observed."""

    expected: str
    seen: str
    is_kept: bool


class NotObserved(Exception):
    """The rule could not be observed; the message says why."""


class RuleOutcome(StrEnum):
    """Result of a rule."""

    KEPT = "kept"
    BREACH = "breach"
    DIFFERS = "differs"
    """Not kept, but it is Forewarn's rule and not Azure's: other servers need not keep it."""
    NOT_SEEN = "not seen"


class RuleFinding(msgspec.Struct, frozen=True):
    """The finding about one rule."""

    rule: str
    outcome: RuleOutcome
    expected: str
    seen: str


class CheckTiming(StrEnum):
    """When a rule can be checked."""

    ALWAYS = "always"
    ON_AN_EVENT = "on an event"
    ON_REQUEST = "on request"
    """The check takes long, or puts load on the server."""


class Check(msgspec.Struct, Generic[_Subject], frozen=True):
    """The check of a rule."""

    when: CheckTiming
    run: Callable[[_Subject], Iterator[CheckResult]]


class Checks(dict[str, Check[_Subject]]):
    """Checks by the name of their rule."""

    def add(
        self, when: CheckTiming = CheckTiming.ALWAYS
    ) -> Callable[[Callable[[_Subject], Iterator[CheckResult]]], Callable[[_Subject], Iterator[CheckResult]]]:
        """Register a function under its own name."""

        def taken(run: Callable[[_Subject], Iterator[CheckResult]]) -> Callable[[_Subject], Iterator[CheckResult]]:
            self[run.__name__.replace("_", "-")] = Check(when, run)
            return run

        return taken


def require_results(results: Iterable[CheckResult], otherwise: str) -> Iterator[CheckResult]:
    """Yield the results; raise NotObserved with the reason if there are none."""
    is_empty = True
    for result in results:
        is_empty = False
        yield result
    if is_empty:
        raise NotObserved(otherwise)


OUT_OF_SIGHT = "it cannot be seen from outside"


def is_good(findings: Iterable[RuleFinding], *, requires_all: bool = False) -> bool:
    """Return whether no binding rule is broken; ``requires_all``: and all observable rules were observed."""
    return not any(
        each.outcome is RuleOutcome.BREACH
        or (requires_all and each.outcome is RuleOutcome.NOT_SEEN and each.seen != OUT_OF_SIGHT)
        for each in findings
    )


def conclude(rule: str, promise: str, results: Iterator[CheckResult], *, is_binding: bool = True) -> RuleFinding:
    """Return the finding of several results: the first that is not kept counts."""
    last = None
    try:
        for last in results:
            if not last.is_kept:
                return RuleFinding(
                    rule, RuleOutcome.BREACH if is_binding else RuleOutcome.DIFFERS, last.expected, last.seen
                )
    except NotObserved as why:
        return RuleFinding(rule, RuleOutcome.NOT_SEEN, promise, str(why))
    if last is None:
        return RuleFinding(rule, RuleOutcome.NOT_SEEN, promise, "there was nothing to look at")
    return RuleFinding(rule, RuleOutcome.KEPT, last.expected, last.seen)
