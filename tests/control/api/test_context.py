"""What the routes share."""

from tests.harness import ApiHarness


def test_the_bounds_of_durations_rise_from_milliseconds_to_seconds(harness: ApiHarness) -> None:
    """A duration is found between two of them."""
    bounds = [bound for bound, _ in harness.context.durations.up_to()]

    assert bounds == sorted(bounds)
    assert (bounds[0], bounds[-2:]) == (0.005, [5.0, float("inf")])
