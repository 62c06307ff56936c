"""Durations are counted by size."""

from forewarn.node.histogram import Histogram


def test_durations_are_counted_up_to_each_bound() -> None:
    """One that is as long as a bound is within it; those above all bounds are within infinity."""
    durations = Histogram(0.1, 1.0)
    for seconds in (0.05, 0.1, 0.5, 3.0):
        durations.add(seconds)

    assert list(durations.up_to()) == [(0.1, 2), (1.0, 3), (float("inf"), 4)]
    assert round(durations.total, 6) == 3.65


def test_a_quantile_is_the_bound_that_is_not_exceeded() -> None:
    """Of nothing it is 0; above all bounds it is not known."""
    durations = Histogram(0.1, 1.0)
    assert durations.quantile(0.5) == 0.0
    for seconds in (0.05, 0.5, 0.6, 3.0):
        durations.add(seconds)

    assert [durations.quantile(share) for share in (0.25, 0.5, 0.75, 0.99)] == [0.1, 1.0, 1.0, float("inf")]


def test_histograms_with_the_same_bounds_are_added() -> None:
    """Such as those of several processes."""
    durations, other = Histogram(0.1, 1.0), Histogram(0.1, 1.0)
    durations.add(0.05)
    other.add(0.5)
    durations.add_counts(other.counts)

    assert durations.counts == (1, 1, 0)
