"""Histogram of durations, of constant size."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator


class Histogram:
    """Counts durations up to each of some bounds, in seconds."""

    def __init__(self, *bounds: float) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """All of them together."""

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds

    @property
    def counts(self) -> tuple[int, ...]:
        """How many were between one bound and the next."""
        return tuple(self._counts)

    def add_counts(self, counts: Iterable[int]) -> None:
        """Add those of another histogram with the same bounds."""
        self._counts = [own + other for own, other in zip(self._counts, counts, strict=True)]

    def quantile(self, share: float) -> float:
        """Return the bound that this share of the durations did not exceed; 0 without any."""
        total = sum(self._counts)
        return next(bound for bound, count in self.up_to() if count >= share * total) if total else 0.0

    def up_to(self) -> Iterator[tuple[float, int]]:
        """Yield each bound, infinity at last, and how many took no longer."""
        so_far = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            so_far += count
            yield bound, so_far
