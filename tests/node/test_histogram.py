"""Durations are counted by size."""

from forewarn.node.histogram import Histogram


def test_durations_are_counted_up_to_each_bound() -> None:
    """One that is as long as a bound is within it; those above all bounds are within infinity."""
    durations = Histogram(0.1, 1.0)
    for seconds in (0.05, 0.1, 0.5, 3.0):
        durations.add(seconds)

    assert list(durations.up_to()) == [(0.1, 2), (1.0, 3), (float("inf"), 4)]
    assert round(durations.total, 6) == 3.65
