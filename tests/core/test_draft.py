"""A draft behaves as a copy of its fleet would, and leaves the fleet as it is."""

from datetime import UTC, datetime
from operator import eq, ne
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.draft import DraftFleet, Overlay
from forewarn.core.facts import Enrolled, FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Vm
from tests.core.invariant_checker import derived, packed

Step = tuple[str, str, Any]
KEYS = st.sampled_from("abcde")
STEPS = st.lists(
    st.tuples(st.just("set"), KEYS, st.integers(0, 9))
    | st.tuples(st.sampled_from(["del", "pop", "get", "setdefault"]), KEYS, st.none() | st.integers(0, 9))
    | st.tuples(st.sampled_from(["clear", "popitem"]), st.just(""), st.none()),
    max_size=12,
)


def carry_out(target: dict[str, Any], step: Step) -> object:
    """Do one thing to a dictionary; return what came of it."""
    verb, key, value = step
    try:
        match verb:
            case "set":
                target[key] = value
            case "del":
                del target[key]
            case "get":
                return target.get(key, value), key in target, target[key]
            case "pop":
                return target.pop(key) if value is None else target.pop(key, value)
            case "clear":
                target.clear()
            case "popitem":
                return target.popitem()
            case _:
                return target.setdefault(key, value)
    except KeyError:
        return KeyError
    return None


def all_of(target: dict[str, Any]) -> tuple[object, ...]:
    """Return everything that can be read of a dictionary, in its order."""
    return (
        len(target),
        bool(target),
        list(target),
        list(reversed(target)),
        list(target.keys()),
        list(target.values()),
        list(target.items()),
        target.copy(),
        {**target},
    )


@given(base=st.dictionaries(KEYS, st.integers(0, 9)), steps=STEPS)
def test_an_overlay_is_like_a_copy_until_it_is_merged(
    base: dict[str, Any], steps: list[tuple[str, str, Any]]
) -> None:
    """Order included; what lies below changes by the merge only, and is then what the copy is."""
    before, copied, overlay = dict(base), dict(base), Overlay(base)
    for step in steps:
        assert carry_out(overlay, step) == carry_out(copied, step)
        assert all_of(overlay) == all_of(copied)
        assert overlay == copied
        assert list(base.items()) == list(before.items())

    merged = overlay.merged()
    assert list(base.items()) == list(before.items())
    overlay.merge()

    assert list(base.items()) == list(merged.items()) == list(copied.items())


def test_a_draft_has_every_attribute_of_a_fleet() -> None:
    """One that is added to the fleet is added to the draft: else the rules could not read it there."""
    fleet, draft = Fleet(), DraftFleet(Fleet())

    assert vars(fleet).keys() <= vars(draft).keys()
    for part in ("last_applied", "addresses"):
        assert vars(getattr(fleet, part)).keys() == vars(getattr(draft, part)).keys()


def test_what_was_merged_aside_is_what_a_merge_makes_and_keeps_what_changed_below_since() -> None:
    """Groups that a draft does not change may be switched on, and have events, between its decision and its merge."""
    web, db, new = (GroupTerms(name, GroupKind.SCALE_SET) for name in ("web", "db", "new"))
    before = FleetChanged(groups=(web, db), vms=(Vm("web-0", "web", address="10.0.0.1"), Vm("db-0", "db")))
    change = FleetChanged(groups=(new,), vms=(Vm("new-0", "new", address="10.0.0.1"),), removed_vms=("web-0",))
    enrolled = Enrolled("db", datetime(2026, 1, 1, tzinfo=UTC), "db-0")
    fleet, folded = Fleet(), Fleet()
    for fact in (before, enrolled, change):
        folded.evolve(fact)
    fleet.evolve(before)
    draft = DraftFleet(fleet)
    draft.evolve(change)
    draft.prepare(least=1)
    assert fleet.vms.keys() == {"web-0", "db-0"}

    fleet.evolve(enrolled)
    draft.overtaken.add("db")
    draft.rebase(enrolled.at)
    draft.merge()

    assert (packed(fleet), derived(fleet)) == (packed(folded), derived(folded))


def test_what_is_missing_is_popped_as_its_default() -> None:
    """As from a dictionary."""
    overlay = Overlay({"a": 1})
    del overlay["a"]

    assert overlay.pop("a", 2) == 2
    with pytest.raises(KeyError):
        overlay.pop("a")


def test_what_was_deleted_is_not_read_from_below() -> None:
    """Nor is an overlay equal to a dictionary with other values."""
    overlay = Overlay({"a": 1, "b": 2})
    del overlay["a"]

    with pytest.raises(KeyError):
        overlay["a"]
    for other, is_equal in (({"b": 2}, True), ({"b": 3}, False), ({}, False)):
        assert (eq(overlay, other), ne(overlay, other)) == (is_equal, not is_equal)
