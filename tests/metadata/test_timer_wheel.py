"""Deadlines of many things on one timer."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.metadata.timer_wheel import NEVER, TimerWheel


class TimedEntry:
    """Something that notes when its deadline was called."""

    def __init__(self, expires: int) -> None:
        self.expires = expires
        self.bucket = 0
        self.calls = 0

    def expired(self) -> None:
        self.calls += 1
        self.expires = NEVER


def test_a_deadline_is_called_when_it_has_passed() -> None:
    """Not a second early, and only once."""
    timer_wheel, thing = TimerWheel(100), TimedEntry(105)
    timer_wheel.put(thing)
    timer_wheel.advance(104.9)
    assert thing.calls == 0
    timer_wheel.advance(105)
    timer_wheel.advance(110)
    assert thing.calls == 1
    assert len(timer_wheel) == 0


def test_putting_off_costs_a_store() -> None:
    """A deadline that is put off is called at its new time, without the wheel being told."""
    timer_wheel, thing = TimerWheel(100), TimedEntry(105)
    timer_wheel.put(thing)
    thing.expires = 120
    timer_wheel.advance(119)
    assert thing.calls == 0
    timer_wheel.advance(120)
    assert thing.calls == 1


def test_a_deadline_may_be_brought_forward() -> None:
    """Putting it again moves it to the earlier second, and leaves nothing at the later."""
    timer_wheel, thing = TimerWheel(100), TimedEntry(150)
    timer_wheel.put(thing)
    thing.expires = 103
    timer_wheel.put(thing)
    assert len(timer_wheel) == 1
    timer_wheel.advance(103)
    assert thing.calls == 1


def test_what_is_removed_is_not_called() -> None:
    """A thing that is taken out leaves nothing behind."""
    timer_wheel, thing = TimerWheel(100), TimedEntry(105)
    timer_wheel.put(thing)
    timer_wheel.remove(thing)
    timer_wheel.remove(thing)
    assert len(timer_wheel) == 0
    timer_wheel.advance(200)
    assert thing.calls == 0


def test_a_long_pause_costs_no_more_than_what_is_due() -> None:
    """A wheel that was not turned for years catches up at once."""
    timer_wheel, thing = TimerWheel(0), TimedEntry(5)
    timer_wheel.put(thing)
    timer_wheel.advance(1e12)
    assert thing.calls == 1


class RepeatingEntry(TimedEntry):
    """Something with a new deadline whenever the old one has passed."""

    def expired(self) -> None:
        self.calls += 1
        self.expires += 10


def test_an_expired_thing_may_set_a_new_deadline() -> None:
    """What sets another time is called again then."""
    timer_wheel, thing = TimerWheel(0), RepeatingEntry(10)
    timer_wheel.put(thing)
    for second in range(1, 31):
        timer_wheel.advance(second)
    assert thing.calls == 3


@given(st.lists(st.integers(1, 50), max_size=30), st.lists(st.integers(1, 20), max_size=20))
def test_everything_is_called_in_its_second(deadlines: list[int], steps: list[int]) -> None:
    """However the wheel is turned, after each turn exactly what is due has been called."""
    timer_wheel, now = TimerWheel(0), 0
    things = [TimedEntry(deadline) for deadline in deadlines]
    for thing in things:
        timer_wheel.put(thing)
    for step in steps:
        now += step
        timer_wheel.advance(now)
        assert [thing.calls for thing in things] == [int(deadline <= now) for deadline in deadlines]
