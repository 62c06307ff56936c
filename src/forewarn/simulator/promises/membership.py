"""Which groups and domains VMs may have had, by the plan and by responses."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from math import inf

import msgspec

from forewarn.simulator.actions.environment_faults import BefallMachine, DamageMemory, RebootGuest
from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetApply, RequestFleetChange
from forewarn.simulator.actions.host_requests import RequestDegradation, RequestHostOperation, RequestHostSelection
from forewarn.simulator.actions.vm_requests import (
    RecordMove,
    RequestMove,
    RequestVmChange,
    RequestVmSelection,
)
from forewarn.simulator.plan import Plan


class Membership:
    """The groups and domains that each VM may have had: those of the plan, of its changes, and of responses."""

    def __init__(self, plan: Plan) -> None:
        self._groups: dict[str, set[str]] = {}
        self._domains: dict[str, set[tuple[int, int]]] = {}
        self.all_groups = {group.name for group in plan.groups} | {vm.group for vm in plan.vms}
        self._standalone_groups = {group.name for group in plan.groups if group.kind == "standalone"}
        self.unsettled_groups: set[str] = set()
        """Groups that a change of the fleet may have removed."""
        self.maybe_down: set[str] = set()
        """VMs that may have been deallocated."""
        self.maybe_gone: set[str] = set()
        """VMs that may have been removed."""
        self.refiled: set[str] = set()
        """VMs that the fleet file may have put into another group."""
        self.may_be_spot: set[str] = set()
        """VMs that may have become spot VMs."""
        self.maybe_moved: set[str] = set()
        """VMs that may stand on another host than at the beginning."""
        self._hosts = {vm.name: vm.host for vm in plan.vms}
        self.maybe_killed: set[str] = set()
        """VMs with guests that may have been killed in the middle of a request."""
        for planned in plan.vms:
            self.learn(planned.name, planned.group, (planned.update_domain, planned.fault_domain))
        for action in plan.actions:
            match action:
                case RequestFleetChange(change=change):
                    self._foresee_patch(change)
                case EditFleetFile(edit=edit, subject=subject, value=value) if edit.endswith("-vm"):
                    self._foresee_edit(edit, subject, value.partition("/")[0])
                case EditFleetFile(edit="set-spot", subject=subject):
                    self.may_be_spot.add(subject)
                case RequestVmChange(vm=vm, keys=keys):
                    self._foresee_keys(vm, msgspec.json.decode(keys, type=_ChangedKeys))
                case RequestVmSelection(operation="remove", selection=selection):
                    self.maybe_gone |= self.matching(selection.encode())
                case RequestVmSelection(operation="move") | RequestFleetApply():
                    self.maybe_moved.update(self._hosts)
                case RequestMove(vm=vm) | RecordMove(vm=vm) | BefallMachine(vm=vm, what="moved"):
                    self.maybe_moved.add(vm)
                case BefallMachine(vm=vm, what="gone"):
                    self.maybe_gone.add(vm)
                    self.maybe_killed.add(vm)
                case BefallMachine(vm=vm) | RebootGuest(vm=vm) | DamageMemory(vm=vm):
                    self.maybe_killed.add(vm)
        if any(isinstance(each, RequestFleetApply) and "exact" in each.how for each in plan.actions):
            self._foresee_exact(plan)
        degrades = (
            each
            for each in plan.actions
            if isinstance(each, RequestDegradation)
            or (isinstance(each, RequestHostOperation | RequestHostSelection) and each.operation == "degrade")
        )
        self.degrades_from = min((action.at for action in degrades), default=inf)
        """When a host may first have been said to degrade, which brings events forward."""

    def learn(self, vm: str, group: str, domains: tuple[int, int] | None = None) -> None:
        self._groups.setdefault(vm, set()).add(group)
        self.all_groups.add(group)
        if domains is not None:
            self._domains.setdefault(vm, set()).add(domains)

    def may_be_in(self, vm: str, group: str) -> bool:
        return group in self._groups.get(vm, (group,))

    def is_closed(self, group: str) -> bool:
        """Return whether no VM can have joined a group."""
        vms = self.vms_of(group)
        return not self.may_be_removed(group) and all(self.group_of(vm) and vm not in self.refiled for vm in vms)

    def may_be_removed(self, group: str) -> bool:
        """Tell whether a group may have been removed, by a change of the fleet or with its only VM."""
        is_left = group in self._standalone_groups and not self.maybe_gone.isdisjoint(self.vms_of(group))
        return is_left or group in self.unsettled_groups

    def names_hidden_from(self, groups: Sequence[str]) -> list[str]:
        """Return the groups, and the VMs that were never in one of these groups."""
        hidden = [vm for vm, its in self._groups.items() if vm not in groups and its.isdisjoint(groups)]
        return sorted({*hidden, *self.all_groups.difference(groups, self._groups)})

    def matching(self, bulk: bytes) -> set[str]:
        """Return the VMs that the selector of a bulk operation may mean."""
        patterns = msgspec.json.decode(bulk)["select"].get("names", ("*",))
        return {vm for vm in self._groups if any(fnmatchcase(vm, pattern) for pattern in patterns)}

    @property
    def all_vms(self) -> list[str]:
        return sorted(self._groups)

    def is_vm(self, name: str) -> bool:
        return name in self._groups

    def group_of(self, vm: str) -> str:
        """Return the group of a VM that can have been in only one; empty otherwise."""
        groups = self._groups.get(vm, ())
        return next(iter(groups)) if len(groups) == 1 else ""

    def vms_of(self, group: str) -> list[str]:
        return [vm for vm, groups in self._groups.items() if group in groups]

    def domains_of(self, vms: Iterable[str]) -> set[tuple[int, int]] | None:
        """Return the update and fault domains of VMs; None where they may have changed."""
        found: set[tuple[int, int]] = set()
        for vm in vms:
            domains = self._domains.get(vm, ())
            if len(domains) != 1:
                return None
            found |= set(domains)
        return found

    def hosts_of(self, vms: Iterable[str]) -> set[str] | None:
        """Return the hosts of VMs; None where they may have changed."""
        names = set(vms)
        if names & (self.maybe_moved | self.maybe_gone | self.refiled) or not names <= self._hosts.keys():
            return None
        return {self._hosts[vm] for vm in names}

    def _foresee_patch(self, change: str) -> None:
        try:
            decoded = msgspec.json.decode(change, type=_FleetChange)
        except msgspec.DecodeError:
            return
        for vm in decoded.vms:
            self.learn(vm.name, vm.group or vm.name)
            self.learn(vm.name, vm.name)
            self._domains.setdefault(vm.name, set()).add((vm.update_domain, vm.fault_domain))
            self.may_be_spot.add(vm.name)
            self.maybe_moved.add(vm.name)
        self.unsettled_groups.update(decoded.removed_groups, (group.name for group in decoded.groups))
        self.maybe_gone.update(decoded.removed_vms)

    def _foresee_keys(self, vm: str, keys: "_ChangedKeys") -> None:
        """Expect that a VM gets these keys, or not."""
        if keys.group:
            self.learn(vm, keys.group)
        domains = self._domains.setdefault(vm, set())
        for update, fault in tuple(domains):
            domains.add(
                (
                    update if keys.update_domain is None else keys.update_domain,
                    fault if keys.fault_domain is None else keys.fault_domain,
                )
            )
        if keys.spot is not None:
            self.may_be_spot.add(vm)

    def _foresee_exact(self, plan: Plan) -> None:
        """Expect that VMs are made as the fleet file has them: others are removed, and those that are gone return."""
        self.maybe_gone.update(self._groups.keys() - {vm.name for vm in plan.vms})
        self.refiled.update(self._groups)

    def _foresee_edit(self, edit: str, vm: str, group: str) -> None:
        """Expect that the fleet file adds, moves or removes a VM; a group goes with its last VM."""
        self.unsettled_groups.update(self._groups.get(vm, ()))
        if edit in ("add-vm", "regroup-vm"):
            self.learn(vm, group)
            self.unsettled_groups.add(group)
            self.refiled.add(vm)
            self._domains[vm] = set()
        elif edit == "remove-vm":
            self.maybe_gone.add(vm)


class _ChangedGroup(msgspec.Struct):
    name: str


class _ChangedVm(msgspec.Struct):
    name: str
    group: str = ""
    update_domain: int = 0
    fault_domain: int = 0


class _ChangedKeys(msgspec.Struct):
    group: str = ""
    update_domain: int | None = None
    fault_domain: int | None = None
    spot: bool | None = None


class _FleetChange(msgspec.Struct):
    groups: tuple[_ChangedGroup, ...] = ()
    vms: tuple[_ChangedVm, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()
