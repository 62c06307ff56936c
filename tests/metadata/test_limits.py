"""How much a caller may ask: the rate in one number, and files for the connections."""

import resource
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.metadata.limits import Limits, RateLimiter, provide_files


class Meter:
    """Somebody whose requests are counted."""

    def __init__(self) -> None:
        self.spent_until = 0.0


@given(st.lists(st.floats(0, 3), max_size=200))
def test_no_window_holds_more_than_rate_and_burst(gaps: list[float]) -> None:
    """In any stretch of time, no more requests pass than the burst and what the rate earns in it."""
    rate, meter, now = RateLimiter(5.0, 20), Meter(), 1000.0
    passed: list[float] = []
    for gap in gaps:
        now += gap
        if rate.admit(meter, now) == 0:
            passed.append(now)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], 1):
            assert last <= 20 + 5.0 * (end - start) + 1e-6


def test_one_who_keeps_to_the_rate_is_never_refused() -> None:
    """Five requests a second, evenly, pass for ever."""
    rate, meter = RateLimiter(5.0, 1), Meter()
    assert [rate.admit(meter, 1000 + number * 0.2001) for number in range(500)] == [0] * 500


def test_what_is_refused_costs_nothing() -> None:
    """However often one is refused, the next request passes when it would have without that."""
    rate, meter = RateLimiter(1.0, 1), Meter()
    rate.admit(meter, 100.0)
    assert {rate.admit(meter, 100.5) for _ in range(1_000)} == {1}
    assert rate.admit(meter, 101.0) == 0


def test_the_pause_told_is_enough() -> None:
    """Whoever waits as long as was said is let in."""
    rate, meter = RateLimiter(0.1, 2), Meter()
    assert [rate.admit(meter, 50.0), rate.admit(meter, 50.0)] == [0, 0]
    pause = rate.admit(meter, 50.0)
    assert pause == 10
    assert rate.admit(meter, 50.0 + pause) == 0


def test_a_clock_that_is_set_back_shuts_nobody_out() -> None:
    """Somebody further ahead than anybody can be is the clock's doing, and is let in."""
    rate, meter = RateLimiter(5.0, 20), Meter()
    rate.admit(meter, 10_000.0)
    assert rate.admit(meter, 5_000.0) == 0


def test_no_rate_is_no_limit() -> None:
    """A rate of 0 lets everything through."""
    rate, meter = RateLimiter(0.0, 20), Meter()
    assert {rate.admit(meter, 7.0) for _ in range(10_000)} == {0}
    for earlier, later in pairwise((7.0, 6.0, 8.0)):
        assert rate.admit(meter, min(earlier, later)) == 0


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record what is asked of the system, whose hard limit is 10,000 files."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 10_000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: asked.append(limit))
    return asked


def test_files_are_provided_for_the_connections(files: list[tuple[int, int]]) -> None:
    """The soft limit is raised to what the connections need, and nothing is said."""
    assert provide_files(Limits(connections=5_000)) == (5_000, "")
    assert files == [(5_256, 10_000)]


def test_connections_of_the_other_plane_have_files_of_their_own(files: list[tuple[int, int]]) -> None:
    """So that a crowd of operators takes none from VMs, nor from the journal."""
    assert provide_files(Limits(connections=5_000), 1_000) == (5_000, "")
    assert files == [(6_256, 10_000)]


def test_enough_files_are_left_alone(files: list[tuple[int, int]]) -> None:
    """Where the limit suffices, it is not touched."""
    assert provide_files(Limits(connections=500)) == (500, "")
    assert files == []


def test_what_does_not_fit_is_said(files: list[tuple[int, int]]) -> None:
    """Where the hard limit is too low, what there is is provided, and the message names both numbers."""
    fit, message = provide_files(Limits(connections=20_000))
    assert fit == 9_744
    assert files == [(10_000, 10_000)]
    assert "connections = 20000" in message
    assert "9744" in message
    assert "LimitNOFILE" in message
