"""Backoffs: the pause after failures in a row grows, and what succeeds is forgotten."""

from datetime import timedelta

from forewarn.clocks import ManualClock
from forewarn.node.backoff import WorkBackoffs

LEAST = timedelta(seconds=1)


def test_the_pause_of_a_piece_of_work_grows_and_is_limited() -> None:
    """Each piece of work counts its own failures; only the first in a row is to be logged."""
    backoffs = WorkBackoffs[str](ManualClock().seconds)
    pauses = []
    for number in range(9):
        assert backoffs.fail("one", "broken") is (number == 0)
        pauses.append(backoffs.pause_after("one", LEAST).total_seconds())
    assert pauses == [1, 1, 2, 4, 8, 16, 30, 30, 30]
    assert backoffs.pause_after("other", LEAST) == LEAST
    backoffs.succeed("one")
    assert list(backoffs) == []
    assert backoffs.fail("one", "broken")
    assert backoffs.pause_after("one", LEAST) == LEAST


def test_a_pause_is_as_long_as_the_writer_needs() -> None:
    """While the journal cannot be written, trying again sooner is useless."""
    backoffs = WorkBackoffs[str](ManualClock().seconds)
    backoffs.fail("one", "broken")
    assert backoffs.pause_after("one", timedelta(seconds=20)) == timedelta(seconds=20)
