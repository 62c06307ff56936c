"""Equal strings and records kept once: what keeps a fleet of a million VMs small after loading.

Decoding makes a new string for every mention of a host or a group. Records are given their shared parts right
after decoding, before anybody else has seen them; that is why frozen ones may be changed here.
"""

from collections.abc import Hashable, Iterable

from msgspec.structs import astuple, force_setattr

from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.model import Group, InstanceFacts, Vm

_VM_NAMES = ("name", "group", "host", "zone", "moved_to")
_INSTANCE_NAMES = ("vm_size", "os_type", "location", "resource_group_name", "subscription_id")


class Sharing:
    """Remembers what it has seen, for as long as one load takes."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._tags: dict[Hashable, dict[str, str]] = {}
        self._instances: dict[Hashable, InstanceFacts] = {}
        self._last = InstanceFacts()

    def share_groups(self, groups: Iterable[Group]) -> None:
        """Give groups the names that were seen before."""
        names = self._names
        for group in groups:
            force_setattr(group.terms, "name", names.setdefault(group.terms.name, group.terms.name))
            group.vms = tuple([names.setdefault(name, name) for name in group.vms])
            group.asked_by = names.setdefault(group.asked_by, group.asked_by)

    def share_vms(self, vms: Iterable[Vm]) -> None:
        """Give VMs the names and instance facts that were seen before."""
        names = self._names
        for vm in vms:
            for field in _VM_NAMES:
                if name := getattr(vm, field):
                    force_setattr(vm, field, names.setdefault(name, name))
            force_setattr(vm, "instance", self._instance(vm.instance))

    def share_entry(self, entry: Entry) -> None:
        """Give the VMs that an entry declares what was seen before."""
        for fact in entry.facts:
            if isinstance(fact, FleetChanged):
                self.share_vms(fact.vms)

    def _instance(self, facts: InstanceFacts) -> InstanceFacts:
        if facts == self._last:
            return self._last
        self._last = facts
        tags = tuple(facts.tags.items())
        if facts.vm_id:  # it has its own identity, so only its parts can be shared
            for field in _INSTANCE_NAMES:
                name = getattr(facts, field)
                force_setattr(facts, field, self._names.setdefault(name, name))
            force_setattr(facts, "tags", self._tags.setdefault(tags, facts.tags))
            return facts
        *names, _ = astuple(facts)
        self._last = self._instances.setdefault((*names, tags), facts)
        return self._last
