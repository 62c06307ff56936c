"""A look at one thing that a rule promises, and what all looks together come to.

A check is a function that yields looks; it bears the name of its rule. What cannot be looked at raises ``NotSeen``:
a rule that was not seen is never called kept.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

_Subject = TypeVar("_Subject")


class Look(msgspec.Struct, frozen=True):
    """What was expected, and what was seen instead or indeed."""

    expected: str
    seen: str
    is_kept: bool


class NotSeen(Exception):
    """There was nothing to look at; says why."""


class Outcome(StrEnum):
    """What became of a rule."""

    KEPT = "kept"
    BREACH = "breach"
    DIFFERS = "differs"
    """It is broken, but it is ours and not Azure's: other servers may do as they do."""
    NOT_SEEN = "not seen"


class Finding(msgspec.Struct, frozen=True):
    """What was found out about one rule."""

    rule: str
    outcome: Outcome
    expected: str
    seen: str


class When(StrEnum):
    """When a rule can be looked at."""

    ALWAYS = "always"
    ON_AN_EVENT = "on an event"
    ON_REQUEST = "on request"
    """It takes long, or is a burden to the server."""


class Check(msgspec.Struct, Generic[_Subject], frozen=True):
    """How a rule is looked at."""

    when: When
    look: Callable[[_Subject], Iterator[Look]]


class Checks(dict[str, Check[_Subject]]):
    """Checks by the name of their rule."""

    def add(
        self, when: When = When.ALWAYS
    ) -> Callable[[Callable[[_Subject], Iterator[Look]]], Callable[[_Subject], Iterator[Look]]]:
        """Take a function in under its own name."""

        def taken(look: Callable[[_Subject], Iterator[Look]]) -> Callable[[_Subject], Iterator[Look]]:
            self[look.__name__.replace("_", "-")] = Check(when, look)
            return look

        return taken


def seen(looks: Iterable[Look], otherwise: str) -> Iterator[Look]:
    """Yield the looks; where there are none, say why."""
    is_empty = True
    for look in looks:
        is_empty = False
        yield look
    if is_empty:
        raise NotSeen(otherwise)


OUT_OF_SIGHT = "it cannot be seen from outside"


def is_good(findings: Iterable[Finding], *, requires_all: bool = False) -> bool:
    """Tell whether no rule that binds is broken; ``requires_all``: and none that can be seen was not."""
    return not any(
        each.outcome is Outcome.BREACH
        or (requires_all and each.outcome is Outcome.NOT_SEEN and each.seen != OUT_OF_SIGHT)
        for each in findings
    )


def found(rule: str, promise: str, looks: Iterator[Look], *, is_binding: bool = True) -> Finding:
    """Return what the looks come to: the first that is not kept counts."""
    last = None
    try:
        for last in looks:
            if not last.is_kept:
                return Finding(rule, Outcome.BREACH if is_binding else Outcome.DIFFERS, last.expected, last.seen)
    except NotSeen as why:
        return Finding(rule, Outcome.NOT_SEEN, promise, str(why))
    if last is None:
        return Finding(rule, Outcome.NOT_SEEN, promise, "there was nothing to look at")
    return Finding(rule, Outcome.KEPT, last.expected, last.seen)
