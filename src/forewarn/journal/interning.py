"""Interning: equal strings and records share one object, so that a fleet of a million VMs needs less memory.

Decoding makes a new string for every mention of a host or a group. Records are given their shared parts right
after decoding, before any other code has seen them; that is why frozen ones may be changed here.
"""

from collections.abc import Hashable, Iterable

from msgspec.structs import force_setattr, replace

from forewarn.core.facts import Entry, FleetChanged, FleetDeclared
from forewarn.core.model import Group, InstanceFacts, Vm


class Interner:
    """Holds the strings and records of one load."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._makes: dict[Hashable, InstanceFacts] = {}
        self._labels: dict[Hashable, dict[str, str]] = {}

    def share_groups(self, groups: Iterable[Group]) -> None:
        """Replace names in groups by equal ones seen before."""
        seen = self._names.setdefault
        for group in groups:
            force_setattr(group.terms, "name", seen(group.name, group.name))
            force_setattr(group, "vms", tuple([seen(name, name) for name in group.vms]))
            force_setattr(group, "asked_by", seen(group.asked_by, group.asked_by))

    def share_vms(self, vms: Iterable[Vm]) -> None:
        """Give VMs the names, labels and instance facts that were seen before."""
        seen = self._names.setdefault
        plain = InstanceFacts()
        for vm in vms:
            force_setattr(vm, "name", seen(vm.name, vm.name))
            force_setattr(vm, "group", seen(vm.group, vm.group))
            force_setattr(vm, "host", seen(vm.host, vm.host))
            force_setattr(vm, "zone", seen(vm.zone, vm.zone))
            if vm.moved_to:
                force_setattr(vm, "moved_to", seen(vm.moved_to, vm.moved_to))
            if vm.labels:
                force_setattr(vm, "labels", self._labels.setdefault(tuple(vm.labels.items()), vm.labels))
            if vm.instance != plain:
                force_setattr(vm, "instance", self._instance(vm.instance))

    def share_entry(self, entry: Entry) -> None:
        """Give the VMs that an entry declares what was seen before."""
        for fact in entry.facts:
            if isinstance(fact, FleetChanged | FleetDeclared):
                self.share_vms(fact.vms)

    def _instance(self, facts: InstanceFacts) -> InstanceFacts:
        make = self._makes.setdefault((facts.vm_size, facts.resource_group_name, *facts.tags.items()), facts)
        # What has an identity of its own shares all but that.
        shared = make if make.vm_id == facts.vm_id else replace(make, vm_id=facts.vm_id)
        return shared if shared == facts else facts
