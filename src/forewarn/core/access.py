"""Who may do what on the control plane: one table of roles and actions, and what an owner is allowed to see.

Callers on the unix socket are operators, by the permissions of the file. Over TCP a token identifies the caller and
its role. An action is permitted or refused by role alone, before any lookup, so that a refusal reveals nothing about
the fleet. Names are then looked up among what the caller may see: objects of other owners are reported as not found,
with the same text and the same cost as names that do not exist.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from forewarn.core.commands import VmOperation
from forewarn.core.errors import NotAllowed, unknown
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, Event, Group, Host, Role, Vm


class Action(StrEnum):
    """Actions; the values are used in refusals: "a viewer may not ..."."""

    READ_VMS = "read VMs, groups and events"
    READ_HOSTS = "read hosts"
    READ_FLEET = "read the fleet's declaration"
    READ_HISTORY = "read the record"
    READ_METRICS = "read metrics"
    READ_HEALTH = "read the service's health"
    READ_ITSELF = "read who it is"
    OPERATE_VMS = "do anything to VMs"
    RESTART = "restart VMs"
    REDEPLOY = "redeploy VMs"
    DELETE = "delete VMs"
    FREEZE = "freeze VMs"
    EVICT = "evict VMs"
    ALLOCATE = "start and deallocate VMs"
    MOVE = "move VMs"
    MAINTAIN_HOSTS = "maintain hosts"
    RECLAIM = "reclaim spot VMs"
    APPROVE = "approve events"
    POSTPONE = "postpone events"
    CANCEL = "cancel events"
    SET_TERMS = "set a group's terms"
    CHANGE_FLEET = "change the fleet"
    KEEP_TOKENS = "create, list and revoke tokens"
    KEEP_SUBSCRIPTIONS = "read and change subscriptions"


_READS = frozenset({Action.READ_VMS, Action.READ_HISTORY, Action.READ_ITSELF})

PERMITTED: dict[Role, frozenset[Action]] = {
    Role.OPERATOR: frozenset(Action),
    Role.OWNER: _READS
    | {
        Action.OPERATE_VMS,
        Action.RESTART,
        Action.REDEPLOY,
        Action.DELETE,
        Action.APPROVE,
        Action.POSTPONE,
    },
    Role.VIEWER: _READS | {Action.READ_HOSTS, Action.READ_FLEET, Action.READ_METRICS, Action.READ_HEALTH},
}
"""Actions of each role. An owner is limited to its own groups, and sees no others."""

ACTION_OF_OPERATION = {operation: Action(f"{operation} VMs") for operation in VmOperation}

_ARTICLES = {Role.OPERATOR: "an", Role.OWNER: "an", Role.VIEWER: "a"}


class Principal(msgspec.Struct, frozen=True):
    """The authenticated caller of a request, its role, and what it may see."""

    caller: Caller
    role: Role
    groups: frozenset[str] = frozenset()
    """The groups of an owner."""
    token: str = ""
    """The id of its token; empty on the unix socket."""
    expires_at: datetime | None = None
    uid: int | None = None
    """The uid of the peer on the unix socket."""

    @property
    def identity(self) -> tuple[str, str]:
        """The identity by kind and id: names can be reused, and can look alike."""
        return ("token", self.token) if self.token else ("uid", str(self.uid))

    @property
    def sees_all(self) -> bool:
        """Return whether it may see all groups."""
        return self.role is not Role.OWNER

    def sees(self, group: str) -> bool:
        return self.sees_all or group in self.groups

    def may(self, action: Action) -> bool:
        return action in PERMITTED[self.role]

    def require(self, action: Action) -> None:
        if not self.may(action):
            raise NotAllowed(f"{_ARTICLES[self.role]} {self.role} may not {action}; use a token of another role")

    def vm(self, fleet: Fleet, name: str) -> Vm:
        """Return the VM with this name, if it is visible."""
        vm = fleet.vms.get(name)
        if vm is not None and self.sees(vm.group):
            return vm
        raise unknown("VM", name, self.known_vms(fleet))

    def group(self, fleet: Fleet, name: str) -> Group:
        """Return the group with this name, if it is visible."""
        group = fleet.groups.get(name)
        if group is not None and self.sees(name):
            return group
        raise unknown("group", name, self.known_groups(fleet))

    def host(self, fleet: Fleet, name: str) -> Host:
        """Return the host with this name; roles that may not see hosts were refused before."""
        host = fleet.hosts.get(name)
        if host is not None:
            return host
        raise unknown("host", name, fleet.hosts)

    def known_vms(self, fleet: Fleet) -> Iterable[str]:
        if self.sees_all:
            return fleet.vms
        return (name for group in self.known_groups(fleet) for name in fleet.groups[group].vms)

    def known_groups(self, fleet: Fleet) -> Iterable[str]:
        return fleet.groups if self.sees_all else sorted(self.groups & fleet.groups.keys())

    def known_events(self, fleet: Fleet) -> Iterable[Event]:
        """Return the visible unfinished events."""
        if self.sees_all:
            return fleet.events.values()
        return (event for group in self.known_groups(fleet) for event in fleet.events_of(group))
