"""Whether this VM's clock can be trusted."""

from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.clock_check import clock_trouble

NOW = datetime(2026, 3, 5, 6, 53, 9, 700_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("Thu, 05 Mar 2026 06:53:09 GMT", ""),
        ("Thu, 05 Mar 2026 06:53:14 GMT", ""),
        ("", ""),
        ("yesterday", ""),
        ("Thu, 05 Mar 2026 07:53:09 GMT", "this VM's clock is 59m59s behind the endpoint's"),
        ("Thu, 05 Mar 2026 06:52:49 GMT", "this VM's clock is 21s ahead of the endpoint's"),
        ("Mon, 01 Jan 0001 00:00:00 GMT", "ahead of the endpoint's"),
    ],
)
def test_a_clock_that_differs_is_told(date: str, said: str) -> None:
    """From five seconds on; what is no time tells nothing."""
    assert said in clock_trouble(date, NOW)
    assert bool(said) == bool(clock_trouble(date, NOW))


def test_the_remedy_is_named() -> None:
    """One sentence."""
    assert clock_trouble("Thu, 05 Mar 2026 07:53:10 GMT", NOW - timedelta(milliseconds=700)).endswith(
        "; set the clock"
    )
