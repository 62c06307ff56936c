"""How the bench sums up the memory of a busy service."""

import pytest

from bench.growth import Sample, figure_of


def test_only_the_second_half_counts() -> None:
    """What a service needs to get going is no growth; each second minute is told."""
    samples = [Sample(minute, minute * 100, 50 * 2**20 + min(minute, 2) * 2**20) for minute in range(5)]
    figure = figure_of(samples)

    assert figure.measured == pytest.approx(0.0)
    assert figure.detail.endswith("400 operations in all; resident MiB by minute: 50.0 at 0, 52.0 at 2, 52.0 at 4")
