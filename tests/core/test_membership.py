"""VMs that leave and join in one change."""

from forewarn.core.membership import MembershipChange


def test_who_leaves_goes_and_who_joins_stands_last() -> None:
    """The others keep their order."""
    shift = MembershipChange()
    shift.move("b", "web", "db")
    shift.move("d", "", "web")

    assert shift.members_after("web", ("a", "b", "c")) == ("a", "c", "d")
    assert shift.members_after("db", ()) == ("b",)
    assert shift.touched() == {"web", "db"}


def test_who_stays_touches_nothing() -> None:
    """A VM that is declared anew in its place moves nobody."""
    shift = MembershipChange()
    shift.move("a", "web", "web")

    assert shift.touched() == set()
