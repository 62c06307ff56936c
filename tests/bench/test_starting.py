"""What is told of the start of a command."""

import pytest

from bench.starting import figure_of

TOOK = {
    "nothing": [0.010, 0.020],
    "again": [0.010, 0.020],
    "libraries": [0.050, 0.100],
    "modules": [0.060, 0.120],
    "standard": [0.040, 0.080],
    "events": [0.074, 0.144],
    "request": [0.004, 0.004],
}


def test_the_request_is_not_counted() -> None:
    """Each round's is taken from that round's command, and the rest is put in terms of an empty program."""
    figure = figure_of(TOOK)

    assert figure.measured == pytest.approx(7.0)
    assert figure.spread
    assert (figure.spread.low, figure.spread.high) == pytest.approx((7.0, 7.0))


def test_the_parts_of_a_start_are_told() -> None:
    """A reader sees what takes the time, and what any program would pay."""
    detail = figure_of(TOOK).detail

    assert "click and msgspec makes it 5.0 times that, our modules 6.0, the whole command 7.3" in detail
    assert "its requests take 4.0 ms of 109 ms" in detail
    assert "standard library: 4.0" in detail
