"""Changed keys of a record, with the values before and after."""

from collections.abc import Callable
from itertools import islice

import msgspec

from forewarn.core.facts import FleetChanged, GroupSet

NO_GROUP = ""
"""The group of what belongs to none; who sees all groups sees it."""


class ValueChange(msgspec.Struct, frozen=True):
    """The value of a key before a change and after it."""

    before: object
    after: object


def changed_keys(before: msgspec.Struct, after: msgspec.Struct, prefix: str = "") -> dict[str, ValueChange]:
    """Return the differing keys of two records of one kind; nested keys are written ``policy.quorum``."""
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
    """Return the changes of a group's terms; empty if an earlier release did not record the old terms."""
    return changed_keys(fact.before, fact.terms) if fact.before else {}


def changes_of_fleet(fact: FleetChanged, sees: Callable[[str], bool], most: int) -> dict[str, ValueChange]:
    """Return a limited number of changed keys by record, for the visible groups; hosts are in group ``NO_GROUP``."""
    hosts = {each.name: each for each in fact.before_hosts}
    terms = {each.name: each for each in fact.before_groups}
    vms = {each.name: each for each in fact.before_vms}
    found: dict[str, ValueChange] = {}
    for host in fact.hosts:
        if len(found) < most and host.name in hosts and sees(NO_GROUP):
            found |= changed_keys(hosts[host.name], host, f"{host.name}.")
    for group in fact.groups:
        if len(found) < most and group.name in terms and sees(group.name):
            found |= changed_keys(terms[group.name], group, f"{group.name}.")
    for vm in fact.vms:
        if len(found) < most and vm.name in vms and sees(vm.group):
            found |= changed_keys(vms[vm.name], vm, f"{vm.name}.")
    return dict(islice(found.items(), most))


class GroupChanges(msgspec.Struct, frozen=True):
    """The effect of a fleet change on one group."""

    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    changed: dict[str, ValueChange] = {}
    """By key of the group, or by VM and key."""


def changes_of_group(fact: FleetChanged, group: str) -> GroupChanges:
    """Return the VMs that joined and left a group, and the changed keys of the group and its VMs."""
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
