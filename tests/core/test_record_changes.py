"""Which keys of a record changed, and from what to what."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from forewarn.core.facts import FleetChanged, GroupSet
from forewarn.core.model import ApprovalRule, GroupKind, GroupTerms, Policy, Vm
from forewarn.core.record_changes import (
    GroupChanges,
    ValueChange,
    changed_keys,
    changes_of_fleet,
    changes_of_group,
    changes_of_terms,
)

WEB = GroupTerms("web", GroupKind.AVAILABILITY_SET)
NEW_WEB = replace(WEB, approval=ApprovalRule.ALL, policy=Policy(postpone_limit=60))
OF_WEB = {"approval": ValueChange("any", "all"), "policy.postpone_limit": ValueChange(0, 60)}
DB = GroupTerms("db", GroupKind.AVAILABILITY_SET)
CHANGE = FleetChanged(
    groups=(NEW_WEB, replace(DB, terminate_notice=300), GroupTerms("new", GroupKind.AVAILABILITY_SET)),
    before_groups=(WEB, DB),
    vms=(
        Vm("stays", "web", spot=True),
        Vm("joins", "web"),
        Vm("new", "web"),
        Vm("leaves", "db"),
        Vm("other", "db", update_domain=1),
    ),
    before_vms=(Vm("stays", "web"), Vm("joins", "db"), Vm("leaves", "web"), Vm("gone", "web"), Vm("other", "db")),
)


def test_a_key_of_a_record_within_has_the_name_of_both() -> None:
    """What did not change is not named."""
    assert changed_keys(WEB, NEW_WEB) == OF_WEB
    assert changed_keys(WEB, WEB) == {}


def test_new_terms_tell_what_they_changed() -> None:
    """Nothing where an earlier release did not record the terms before."""
    assert changes_of_terms(GroupSet(NEW_WEB, before=WEB)) == OF_WEB
    assert changes_of_terms(GroupSet(NEW_WEB)) == {}


def test_a_change_of_the_fleet_names_each_key_by_its_group_or_vm() -> None:
    """What is new or gone has no changed keys."""
    assert changes_of_fleet(CHANGE, lambda _: True, 99) == {
        "web.approval": ValueChange("any", "all"),
        "web.policy.postpone_limit": ValueChange(0, 60),
        "db.terminate_notice": ValueChange(None, 300),
        "stays.spot": ValueChange(False, True),
        "joins.group": ValueChange("db", "web"),
        "leaves.group": ValueChange("web", "db"),
        "other.update_domain": ValueChange(0, 1),
    }


@pytest.mark.parametrize(
    ("sees", "most", "found"),
    [
        ("db".__eq__, 99, ["db.terminate_notice", "leaves.group", "other.update_domain"]),
        (lambda _: True, 1, ["web.approval"]),
        (lambda _: True, 2, ["web.approval", "web.policy.postpone_limit"]),
        (lambda _: True, 4, ["web.approval", "web.policy.postpone_limit", "db.terminate_notice", "stays.spot"]),
    ],
    ids=["one group only", "one key", "two keys", "keys of a VM too"],
)
def test_only_so_many_keys_of_what_one_sees_are_told(
    sees: Callable[[str], bool], most: int, found: list[str]
) -> None:
    """The first ones."""
    assert list(changes_of_fleet(CHANGE, sees, most)) == found


def test_a_group_is_told_who_joined_and_left_and_what_changed() -> None:
    """A VM that comes from another group joined; one that goes to another, or from the fleet, left."""
    assert changes_of_group(CHANGE, "web") == GroupChanges(
        joined=("joins", "new"), left=("leaves", "gone"), changed={**OF_WEB, "stays.spot": ValueChange(False, True)}
    )


def test_a_new_group_has_no_changed_keys() -> None:
    """There was nothing before."""
    assert changes_of_group(CHANGE, "new") == GroupChanges()
