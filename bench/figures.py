"""What was measured, as ratios within one run and with the spread beside them."""

from collections.abc import Sequence
from statistics import median

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """The middle of a series and how far it strays."""

    median: float
    low: float
    high: float
    deviation: float
    """The median distance from the median."""
    rounds: int


def spread_of(series: Sequence[float]) -> Spread:
    """Sum up a series of measurements."""
    middle = median(series)
    deviation = median(abs(each - middle) for each in series)
    return Spread(middle, min(series), max(series), deviation, len(series))


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Divide two series round by round: what disturbs a whole round falls out of it."""
    return [one / other for one, other in zip(above, below, strict=True)]


def percentile(series: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of the series does not exceed."""
    ordered = sorted(series)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    name: str
    asked: str = ""
    """The requirement, in words; empty if the figure is only reported."""
    limit: float | None = None
    is_at_least: bool = True
    """The limit is a least value, not a greatest one."""
    measured: float
    unit: str = ""
    spread: Spread | None = None
    noise: Spread | None = None
    """The machine's own: nginx against nginx, or the same thing measured twice."""
    detail: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether it is what it should be; None where nothing was asked."""
        if self.limit is None:
            return None
        return self.measured >= self.limit if self.is_at_least else self.measured <= self.limit


class Result(msgspec.Struct, frozen=True):
    """What one part of the bench found on one machine."""

    part: str
    at: str
    is_quick: bool
    machine: dict[str, str]
    figures: tuple[Figure, ...]
