"""Who holds what until when."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.agent.decision.holds import MOST_HOLDERS, Holder, Holds, read_holder
from forewarn.core.errors import BadInput, LimitReached, Unknown
from forewarn.core.model import EventType
from tests.agent.samples import NOW, REBOOT

TWO_MINUTES = timedelta(minutes=2)
DATABASE = Holder("database", TWO_MINUTES)


def test_a_holder_is_read() -> None:
    """Name, duration and types, in any case."""
    expected = Holder("database", TWO_MINUTES, frozenset({EventType.REBOOT, EventType.FREEZE}))

    assert read_holder("database", "120s", ("Reboot", "freeze")) == expected


@pytest.mark.parametrize(
    ("name", "within", "types", "sentence"),
    [
        ("", "120s", (), "1 to 64 printable"),
        ("a" * 65, "120s", (), "1 to 64 printable"),
        ("a\nb", "120s", (), "1 to 64 printable"),
        ("database", "soon", (), "within = 'soon'"),
        ("database", "0s", (), "more than 0s"),
        ("database", "2d", (), "at most 1d"),
        ("database", "120s", ("Rebot",), "did you mean 'Reboot'"),
    ],
)
def test_a_holder_that_cannot_be_is_refused(name: str, within: str, types: tuple[str, ...], sentence: str) -> None:
    """The sentence says what may be given."""
    with pytest.raises(BadInput, match=sentence):
        read_holder(name, within, types)


def test_an_event_is_held_from_when_it_is_told() -> None:
    """At most as long as the holder said."""
    holds = Holds()
    holds.register(DATABASE)

    assert holds.take(REBOOT, NOW) == {"database": NOW + TWO_MINUTES}
    assert holds.holds("database", REBOOT.id)


def test_only_the_types_that_were_named_are_held() -> None:
    """And all of them where none was."""
    holds = Holds()
    holds.register(DATABASE)
    holds.register(Holder("cache", TWO_MINUTES, frozenset({EventType.FREEZE})))

    assert [*holds.take(REBOOT, NOW)] == ["database"]


def test_who_comes_back_moves_no_deadline() -> None:
    """A program that crashes and starts over and over cannot hold an event for ever."""
    holds = Holds()
    holds.register(DATABASE)
    holds.take(REBOOT, NOW)
    holds.leave(DATABASE)
    holds.register(replace(DATABASE))

    assert holds.take(REBOOT, NOW + timedelta(minutes=1)) == {}
    assert holds.holds("database", REBOOT.id)


def test_who_left_holds_no_new_event() -> None:
    """It could not be told of it."""
    holds = Holds()
    holds.register(DATABASE)
    holds.leave(DATABASE)

    assert holds.take(REBOOT, NOW) == {}


def test_an_old_connection_that_ends_late_takes_nothing_away() -> None:
    """The program is back under its name already."""
    holds = Holds()
    holds.register(DATABASE)
    holds.register(replace(DATABASE))
    holds.leave(DATABASE)

    assert [*holds.take(REBOOT, NOW)] == ["database"]


def test_holders_are_bounded() -> None:
    """One too many is refused; one that is known may register again."""
    holds = Holds()
    for number in range(MOST_HOLDERS):
        holds.register(Holder(f"p{number}", TWO_MINUTES))

    with pytest.raises(LimitReached, match="there are 64 holders already"):
        holds.register(DATABASE)
    holds.register(Holder("p0", TWO_MINUTES))


def test_holds_of_one_event_are_bounded() -> None:
    """Programs that come and go under ever new names do not fill the memory."""
    holds = Holds()
    taken = 0
    for number in range(1000):
        holder = Holder(f"p{number}", TWO_MINUTES)
        holds.register(holder)
        taken += len(holds.take(REBOOT, NOW))
        holds.leave(holder)

    assert taken == MOST_HOLDERS


def test_what_is_gone_is_forgotten() -> None:
    """And with it the names of those that held it."""
    holds = Holds()
    holds.register(DATABASE)
    holds.take(REBOOT, NOW)
    holds.leave(DATABASE)
    holds.require("database")
    holds.forget(REBOOT.id)

    assert not holds.holds("database", REBOOT.id)
    with pytest.raises(Unknown):
        holds.require("database")


def test_a_name_that_nobody_bears_is_refused_with_the_nearest() -> None:
    """A typing error would else be noticed when the deadline has passed."""
    holds = Holds()
    holds.register(DATABASE)

    with pytest.raises(Unknown, match="did you mean 'database'"):
        holds.require("databse")
