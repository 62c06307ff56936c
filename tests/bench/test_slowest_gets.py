"""How much later GETs are answered beside other work."""

from bench.slowest_gets import tail_beside


def test_the_tails_of_all_rounds_are_compared() -> None:
    """Rounds alone give the spread, and those without work the noise."""
    quiet = [[1.0] * 999 + [5.0], [1.0] * 999 + [7.0]]
    beside = [[2.0] * 999 + [30.0], [2.0] * 999 + [31.0]]

    figure = tail_beside("a storm", beside, quiet)

    assert figure.name == "p99.9 of GETs beside a storm"
    assert figure.measured == 30.0 - 5.0
    assert figure.is_met is False
    assert figure.spread
    assert (figure.spread.low, figure.spread.high) == (24.0, 25.0)
    assert figure.noise
    assert (figure.noise.low, figure.noise.high) == (-1.0, 1.0)
    assert "medians 2.00 and 1.00 ms; longest 31 ms" in figure.detail
