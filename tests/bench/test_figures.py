"""The arithmetic of the bench: ratios, spreads, and what counts as met."""

import pytest

from bench.figures import Figure, percentile, ratios, spread_of


def test_a_spread_is_the_median_with_its_extremes() -> None:
    """One wild round moves the extremes, not the median and not the deviation."""
    spread = spread_of([1.0, 1.1, 0.9, 9.0, 1.0])

    assert (spread.median, spread.low, spread.high, spread.rounds) == (1.0, 0.9, 9.0, 5)
    assert spread.deviation == pytest.approx(0.1)


def test_ratios_are_taken_round_by_round() -> None:
    """What slows a whole round down falls out of its ratio."""
    assert ratios([10.0, 20.0], [20.0, 40.0]) == [0.5, 0.5]


def test_ratios_need_series_of_equal_length() -> None:
    """A round that is missing on one side must not shift the others."""
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("share", "expected"), [(0.5, 51.0), (0.99, 100.0), (1.0, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    """So many of the series lie below it, and nothing is made up in between."""
    assert percentile([float(each) for each in range(100, 0, -1)], share) == expected


@pytest.mark.parametrize(
    ("measured", "is_at_least", "is_met"),
    [(0.9, True, True), (0.89, True, False), (0.9, False, True), (0.91, False, False)],
)
def test_a_figure_is_met_on_the_right_side_of_its_limit(measured: float, *, is_at_least: bool, is_met: bool) -> None:
    """The limit itself is still good."""
    assert Figure(name="x", limit=0.9, is_at_least=is_at_least, measured=measured).is_met is is_met


def test_a_figure_without_limit_is_neither_met_nor_missed() -> None:
    """What nobody asked for is only told."""
    assert Figure(name="x", measured=1.0).is_met is None
