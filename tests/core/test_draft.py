"""A draft behaves as a copy of its fleet would, and leaves the fleet as it is."""

from datetime import UTC, datetime
from operator import eq, ne
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.declared_keys import RecordKind
from forewarn.core.draft import DraftFleet, Layer, Overlay
from forewarn.core.facts import Enrolled, FleetChanged, FleetDeclared, VmRemoved
from forewarn.core.fleet import EVICTIONS_KEPT, Fleet
from forewarn.core.model import GroupKind, GroupTerms, Host, Interface, Vm
from tests.core.invariant_checker import derived, packed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
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


def test_overlays_are_equal_when_what_can_be_read_is() -> None:
    """Whatever lies below."""
    one, other = Overlay({"a": 1, "b": 2}), Overlay({"a": 1})
    assert one != other

    del one["b"]
    assert one == other


def test_nothing_is_left_of_what_was_cleared() -> None:
    """Neither what was set before nor what lies below."""
    overlay = Overlay({"a": 1})
    overlay["b"] = 2
    overlay.clear()

    assert dict(overlay.items()) == {}


def test_what_is_set_and_what_is_deleted_are_changes() -> None:
    """Both have to be merged."""
    overlay = Overlay({"a": 1})
    overlay["b"] = 2
    del overlay["a"]

    assert overlay.changes == 2


@pytest.mark.parametrize(("least", "is_swapped"), [(1, True), (3, False)])
def test_so_many_changes_are_merged_by_a_swap(least: int, *, is_swapped: bool) -> None:
    """Of every large dictionary; a few changes are merged in place."""
    fleet = Fleet()
    fleet.evolve(FleetDeclared(revision=1, digest="", source=""))
    fleet.evolve(FleetChanged(groups=(GroupTerms("web", GroupKind.SCALE_SET),), vms=(Vm("a", "web", address="x"),)))
    draft = DraftFleet(fleet)
    wired = Vm("b", "web", "h2", address="x", interface=Interface(tap="tap0", mark=7))
    draft.evolve(FleetChanged(hosts=(Host("h2"),), vms=(wired, Vm("c", "web", address="y")), at_run_time=True))

    def parts() -> list[object]:
        indexes = (fleet.addresses._first, fleet.addresses._others, fleet.taps._first, fleet.marks._first)
        differing = fleet.last_applied.differing[RecordKind.HOST]
        return [fleet.hosts, fleet.groups, fleet.vms, fleet._vms_on, *indexes, differing]

    before = parts()
    draft.prepare(least)
    draft.merge()

    assert [now is not part for now, part in zip(parts(), before, strict=True)] == [is_swapped] * len(before)
    assert fleet.addresses["x"] == ("a", "b")


def test_a_draft_is_taken_apart() -> None:
    """Its overlays and what was merged aside are handed out; nothing is left in it."""
    draft = DraftFleet(Fleet())
    draft.evolve(FleetChanged(hosts=(Host("h1"),)))
    hosts = draft.hosts
    draft.prepare(1)
    parts = draft.dissolve()

    assert isinstance(hosts, Layer)
    assert any(part is hosts for part in parts)
    assert any(part is hosts._gone for part in parts)
    assert {"h1": Host("h1")} in [part for part in parts if not isinstance(part, Layer)]
    assert vars(draft) == {}


def test_a_rebased_draft_counts_the_operations_that_began_below() -> None:
    """Once."""
    fleet = Fleet()
    fleet.user_operations = 1
    draft = DraftFleet(fleet)
    draft.user_operations += 1
    fleet.user_operations += 3
    draft.rebase(NOON)
    draft.rebase(NOON)

    assert draft.user_operations == 5


def test_a_rebased_draft_has_the_evictions_below_but_for_those_that_it_forgot() -> None:
    """It forgets by the time of its own decision, and leaves the fleet below as it is."""
    fleet = Fleet()
    groups, vms = (GroupTerms("web", GroupKind.SCALE_SET),), (Vm("a", "web"), Vm("b", "web"), Vm("c", "web"))
    fleet.evolve(FleetChanged(groups=groups, vms=vms))
    draft = DraftFleet(fleet)
    draft.evolve(VmRemoved("b", "evicted", evicted_at=NOON + EVICTIONS_KEPT))
    for vm, at in (("a", NOON), ("c", NOON + EVICTIONS_KEPT)):
        fleet.evolve(VmRemoved(vm, "evicted", evicted_at=at))
    draft.rebase(NOON + EVICTIONS_KEPT)

    assert [each.at for each in draft.evictions] == [NOON + EVICTIONS_KEPT]
    assert [each.at for each in fleet.evictions] == [NOON, NOON + EVICTIONS_KEPT]
    draft.rebase(NOON)
    draft.rebase(NOON + EVICTIONS_KEPT)
    assert [each.at for each in draft.evictions] == [NOON, NOON + EVICTIONS_KEPT]


def test_a_rebased_draft_may_have_forgotten_every_eviction() -> None:
    """The fleet below has none by then."""
    fleet = Fleet()
    fleet.evolve(FleetChanged(groups=(GroupTerms("web", GroupKind.SCALE_SET),), vms=(Vm("a", "web"),)))
    draft = DraftFleet(fleet)
    draft.evolve(VmRemoved("a", "evicted", evicted_at=NOON))
    draft.rebase(NOON)

    assert not draft.evictions
