"""Which clock counts: this VM's, or the endpoint's where the two differ steadily."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.runtime.clock_check import SAMPLES, ClockCheck, EndpointClock
from forewarn.clocks import ManualClock
from forewarn.wire.dates import show_time
from tests.agent.harness import event, started

NOW = datetime(2026, 3, 5, 6, 53, 9, 700_000, tzinfo=UTC)
HOUR = timedelta(hours=1)
NONE = timedelta(0)


class ClockHarness:
    """A VM's clock, and an endpoint that is asked."""

    def __init__(self, ahead: timedelta = NONE) -> None:
        self.own = ManualClock(NOW)
        self.clock = EndpointClock(self.own)
        self.check = ClockCheck(self.clock)
        self.ahead = ahead

    def ask(self, times: int = 1, *, every: float = 1.1, frozen: str = "") -> None:
        for _ in range(times):
            self.own.advance(timedelta(seconds=every))
            self.check.add_date(frozen or show_time(self.own.now() + self.ahead))


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta(seconds=20), timedelta(days=400), timedelta(days=-30_000)])
def test_an_offset_that_is_large_and_steady_is_reckoned_with(
    ahead: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    """After three samples, told once; what the endpoint says is then at most a second away."""
    clocks = ClockHarness(ahead)
    clocks.ask(SAMPLES - 1)
    assert (clocks.check.is_unsure, clocks.clock.offset) == (True, NONE)
    clocks.ask(20)

    assert not clocks.check.is_unsure
    assert abs(clocks.clock.now() - (clocks.own.now() + ahead)) <= timedelta(seconds=1)
    assert clocks.clock.own() == clocks.own.now()
    assert clocks.clock.own(clocks.clock.now()) == clocks.own.now()
    assert ("behind" if ahead > NONE else "ahead of") in clocks.check.trouble
    assert clocks.check.trouble.endswith("; the endpoint's clock is used; set this VM's clock")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("ahead", [NONE, timedelta(seconds=4), timedelta(seconds=-4)])
def test_a_small_offset_changes_nothing(ahead: timedelta, caplog: pytest.LogCaptureFixture) -> None:
    """Up to five seconds."""
    clocks = ClockHarness(ahead)
    clocks.ask(10)

    assert (clocks.clock.offset, clocks.check.trouble, clocks.check.is_unsure) == (NONE, "", False)
    assert caplog.records == []


def test_one_odd_date_is_not_trusted() -> None:
    """Neither the first nor one between others, also while the endpoint's clock counts."""
    clocks = ClockHarness()
    for ahead in (NONE, HOUR):
        clocks.ahead = ahead
        clocks.ask(SAMPLES)
        before = clocks.clock.offset
        clocks.ahead = timedelta(days=9)
        clocks.ask()
        assert clocks.check.is_unsure
        clocks.ahead = ahead
        clocks.ask()

        assert clocks.clock.offset == before
        assert not clocks.check.is_unsure


def test_a_date_that_stands_still_is_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    """A cache, or a clock that a test has stopped; it is said once, and nobody waits for it again."""
    caplog.set_level(logging.INFO)
    clocks = ClockHarness()
    clocks.ask(20, frozen="Thu, 05 Mar 2026 09:53:09 GMT")

    assert clocks.clock.offset == NONE
    assert not clocks.check.is_unsure
    assert caplog.messages == ["the endpoint's Date differs from this VM's clock by a varying amount and is ignored"]


def test_dates_that_disagree_are_not_trusted() -> None:
    """Two nodes behind one address, each with another clock."""
    clocks = ClockHarness()
    for number in range(20):
        clocks.ahead = HOUR * (1 + number % 2)
        clocks.ask()

    assert clocks.clock.offset == NONE
    assert "varying amount" in clocks.check.trouble


def test_samples_in_one_moment_count_once() -> None:
    """Several answers at once say no more than one."""
    clocks = ClockHarness(HOUR)
    clocks.ask(10, every=0.05)

    assert clocks.clock.offset == NONE


def test_a_clock_that_was_set_right_counts_again(caplog: pytest.LogCaptureFixture) -> None:
    """By its own samples; the time that is shown does not jump."""
    caplog.set_level(logging.INFO)
    clocks = ClockHarness(HOUR)
    clocks.ask(SAMPLES)
    shown = clocks.clock.now()
    clocks.own.step(HOUR)
    clocks.ahead = NONE
    clocks.ask(SAMPLES)

    assert clocks.clock.offset == NONE
    assert clocks.check.trouble == ""
    assert NONE < clocks.clock.now() - shown < timedelta(seconds=10)
    assert "agrees with the endpoint's again" in caplog.messages[-1]


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_an_endpoint_without_a_date_changes_nothing(date: str) -> None:
    """Not every endpoint tells the time."""
    clocks = ClockHarness()
    for _ in range(5):
        clocks.check.add_date(date)

    assert (clocks.clock.offset, clocks.check.is_unsure) == (NONE, False)


def test_times_beyond_the_calendar_are_its_end() -> None:
    """Whatever an endpoint says, no time raises."""
    clocks = ClockHarness()
    clocks.clock.offset = timedelta(days=-3_000_000)

    assert clocks.clock.now().year == 1
    assert clocks.clock.own(NOW).year == 9999


def test_a_new_event_that_contradicts_the_date_makes_the_own_clock_count() -> None:
    """Until the clocks agree: its NotBefore is still to come by this VM's clock, and over by Date."""
    clocks = ClockHarness(HOUR)
    clocks.ask(SAMPLES)
    soon = event(not_before=clocks.own.now() + timedelta(minutes=15))
    clocks.check.check_events([event(not_before=clocks.own.now() + HOUR * 2), started(soon)])
    assert clocks.clock.offset
    clocks.check.check_events([soon])
    clocks.ask(SAMPLES * 2)

    assert clocks.clock.offset == NONE
    assert "contradicts it" in clocks.check.trouble
    clocks.ahead = NONE
    clocks.ask()
    clocks.ahead = HOUR
    clocks.ask(SAMPLES)
    assert clocks.clock.offset
