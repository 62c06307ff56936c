"""VMs that leave and join in one change."""

from forewarn.core.shift import Shift


def test_who_leaves_goes_and_who_joins_stands_last() -> None:
    """The others keep their order."""
    shift = Shift()
    shift.move("b", "web", "db")
    shift.move("d", "", "web")

    assert shift.shifted("web", ("a", "b", "c")) == ("a", "c", "d")
    assert shift.shifted("db", ()) == ("b",)
    assert shift.touched() == {"web", "db"}


def test_who_stays_touches_nothing() -> None:
    """A VM that is declared anew in its place moves nobody."""
    shift = Shift()
    shift.move("a", "web", "web")

    assert shift.touched() == set()
