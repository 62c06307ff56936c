"""Deadlines of many things on one timer."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.metadata.wheel import NEVER, Wheel


class Thing:
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
    wheel, thing = Wheel(100), Thing(105)
    wheel.put(thing)
    wheel.turn(104.9)
    assert thing.calls == 0
    wheel.turn(105)
    wheel.turn(110)
    assert thing.calls == 1
    assert len(wheel) == 0


def test_putting_off_costs_a_store() -> None:
    """A deadline that is put off is called at its new time, without the wheel being told."""
    wheel, thing = Wheel(100), Thing(105)
    wheel.put(thing)
    thing.expires = 120
    wheel.turn(119)
    assert thing.calls == 0
    wheel.turn(120)
    assert thing.calls == 1


def test_a_deadline_may_be_brought_forward() -> None:
    """Putting it again moves it to the earlier second, and leaves nothing at the later."""
    wheel, thing = Wheel(100), Thing(150)
    wheel.put(thing)
    thing.expires = 103
    wheel.put(thing)
    assert len(wheel) == 1
    wheel.turn(103)
    assert thing.calls == 1


def test_what_is_removed_is_not_called() -> None:
    """A thing that is taken out leaves nothing behind."""
    wheel, thing = Wheel(100), Thing(105)
    wheel.put(thing)
    wheel.remove(thing)
    wheel.remove(thing)
    assert len(wheel) == 0
    wheel.turn(200)
    assert thing.calls == 0


def test_a_long_pause_costs_no_more_than_what_is_due() -> None:
    """A wheel that was not turned for years catches up at once."""
    wheel, thing = Wheel(0), Thing(5)
    wheel.put(thing)
    wheel.turn(1e12)
    assert thing.calls == 1


class Steady(Thing):
    """Something with a new deadline whenever the old one has passed."""

    def expired(self) -> None:
        self.calls += 1
        self.expires += 10


def test_an_expired_thing_may_set_a_new_deadline() -> None:
    """What sets another time is called again then."""
    wheel, thing = Wheel(0), Steady(10)
    wheel.put(thing)
    for second in range(1, 31):
        wheel.turn(second)
    assert thing.calls == 3


@given(st.lists(st.integers(1, 50), max_size=30), st.lists(st.integers(1, 20), max_size=20))
def test_everything_is_called_in_its_second(deadlines: list[int], steps: list[int]) -> None:
    """However the wheel is turned, after each turn exactly what is due has been called."""
    wheel, now = Wheel(0), 0
    things = [Thing(deadline) for deadline in deadlines]
    for thing in things:
        wheel.put(thing)
    for step in steps:
        now += step
        wheel.turn(now)
        assert [thing.calls for thing in things] == [int(deadline <= now) for deadline in deadlines]
