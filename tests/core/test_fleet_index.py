"""The indexes of the fleet: owners by what they own, and members that leave and join in one change."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.fleet_index import MembershipChange, ReverseIndex

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from(["x", "y"]), NAMES), max_size=30)


@given(STEPS)
def test_owners_are_those_that_were_added_and_not_discarded(steps: list[tuple[bool, str, str]]) -> None:
    """In the order in which they came; whoever shares nothing is as good as whoever shares."""
    owners = ReverseIndex()
    expected: dict[str, list[str]] = {"x": [], "y": []}
    for is_added, owned, name in steps:
        (owners.add if is_added else owners.discard)(owned, name)
        if is_added and name not in expected[owned]:
            expected[owned].append(name)
        elif not is_added and name in expected[owned]:
            expected[owned].remove(name)

    assert {owned: list(owners[owned]) for owned in expected} == expected
    assert sorted(owners) == sorted(owned for owned, names in expected.items() if names)
    assert len(owners) == sum(bool(names) for names in expected.values())
    assert set(owners.shared) == {owned for owned, names in expected.items() if len(names) > 1}


def test_what_is_empty_is_nobodys() -> None:
    """A VM without an address owns none."""
    owners = ReverseIndex()
    owners.add("", "a")

    assert (owners[""], len(owners)) == ((), 0)


def test_who_leaves_goes_and_who_joins_stands_last() -> None:
    """The others keep their order."""
    shift = MembershipChange()
    shift.move("b", "web", "db")
    shift.move("d", "", "web")

    assert shift.members_after("web", ("a", "b", "c")) == ("a", "c", "d")
    assert shift.members_after("db", ()) == ("b",)
    assert list(shift.touched()) == ["web", "db"]
    assert list(shift.touched()) == [], "each was forgotten"


def test_who_stays_touches_nothing() -> None:
    """A VM that is declared anew in its place moves nobody."""
    shift = MembershipChange()
    shift.move("a", "web", "web")

    assert list(shift.touched()) == []
