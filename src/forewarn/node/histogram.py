"""Histogram of durations, of constant size."""

from bisect import bisect_left
from collections.abc import Iterator


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

    def up_to(self) -> Iterator[tuple[float, int]]:
        """Yield each bound, infinity at last, and how many took no longer."""
        so_far = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            so_far += count
            yield bound, so_far
