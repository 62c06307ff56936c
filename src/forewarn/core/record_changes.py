"""Which keys of a record changed, and from what to what."""

from collections.abc import Callable
from itertools import islice

import msgspec

from forewarn.core.facts import FleetChanged, GroupSet


class ValueChange(msgspec.Struct, frozen=True):
    """The value of a key before a change and after it."""

    before: object
    after: object


def changed_keys(before: msgspec.Struct, after: msgspec.Struct, prefix: str = "") -> dict[str, ValueChange]:
    """Return the keys in which two records of one kind differ; a key of a record within is ``policy.quorum``."""
    found: dict[str, ValueChange] = {}
    for key in after.__struct_fields__:
        old, new = getattr(before, key), getattr(after, key)
        if old == new:
            continue
        if isinstance(old, msgspec.Struct) and isinstance(new, msgspec.Struct):
            found |= changed_keys(old, new, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = ValueChange(msgspec.to_builtins(old), msgspec.to_builtins(new))
    return found


def changes_of_terms(fact: GroupSet) -> dict[str, ValueChange]:
    """Return what a group's new terms changed; nothing where an earlier release did not record those before."""
    return changed_keys(fact.before, fact.terms) if fact.before else {}


def changes_of_fleet(fact: FleetChanged, sees: Callable[[str], bool], most: int) -> dict[str, ValueChange]:
    """Return at most so many of the changed keys, by the group or the VM they are of, in the groups that one sees."""
    terms = {each.name: each for each in fact.before_groups}
    vms = {each.name: each for each in fact.before_vms}
    found: dict[str, ValueChange] = {}
    for group in fact.groups:
        if len(found) < most and group.name in terms and sees(group.name):
            found |= changed_keys(terms[group.name], group, f"{group.name}.")
    for vm in fact.vms:
        if len(found) < most and vm.name in vms and sees(vm.group):
            found |= changed_keys(vms[vm.name], vm, f"{vm.name}.")
    return dict(islice(found.items(), most))


class GroupChanges(msgspec.Struct, frozen=True):
    """What a change of the fleet meant for one group."""

    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    changed: dict[str, ValueChange] = {}
    """By key of the group, or by VM and key."""


def changes_of_group(fact: FleetChanged, group: str) -> GroupChanges:
    """Return who joined and left a group, and which of its keys, and its VMs' keys, changed."""
    before = {vm.name: vm for vm in fact.before_vms}
    after = {vm.name: vm for vm in fact.vms}
    joined = [vm.name for vm in fact.vms if vm.group == group and not _was_in(before.get(vm.name), group)]
    left = [name for name, vm in before.items() if vm.group == group and not _was_in(after.get(name), group)]
    changed: dict[str, ValueChange] = {}
    terms_before = {terms.name: terms for terms in fact.before_groups}
    for terms in fact.groups:
        if terms.name == group and group in terms_before:
            changed |= changed_keys(terms_before[group], terms)
    for vm in fact.vms:
        if vm.group == group and _was_in(before.get(vm.name), group):
            changed |= changed_keys(before[vm.name], vm, f"{vm.name}.")
    return GroupChanges(tuple(joined), tuple(left), changed)


def _was_in(vm: object, group: str) -> bool:
    return getattr(vm, "group", None) == group
