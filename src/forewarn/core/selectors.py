"""Which VMs, or hosts, are meant: by names, globs, labels, and what they are at the moment."""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import translate
from re import Pattern
from re import compile as compile_pattern

import msgspec

from forewarn.core.fleet import Fleet
from forewarn.core.label_selectors import LabelSelector
from forewarn.core.model import Host, HostState, Vm

_GLOB = frozenset("*?[")


class VmState(StrEnum):
    """Whether a VM runs."""

    RUNNING = "running"
    CRASHED = "crashed"
    """It crashed, and was not seen to run since."""
    DEALLOCATED = "deallocated"


def state_of_vm(fleet: Fleet, vm: Vm) -> VmState:
    if vm.deallocated:
        return VmState.DEALLOCATED
    return VmState.CRASHED if vm.name in fleet.crashed else VmState.RUNNING


class NamePatterns:
    """Names, and globs such as ``web-*``; without any of them, all names."""

    def __init__(self, given: Iterable[str] = ()) -> None:
        patterns = tuple(given)
        self.names = tuple(each for each in patterns if not is_glob(each))
        self._globs: tuple[Pattern[str], ...] = tuple(
            compile_pattern(translate(each)) for each in patterns if is_glob(each)
        )
        self._exact = frozenset(self.names)

    @property
    def are_names(self) -> bool:
        """Whether only names are given, and no glob."""
        return bool(self.names) and not self._globs

    def match(self, name: str) -> bool:
        return name in self._exact or any(glob.match(name) for glob in self._globs) or not self._has_any

    @property
    def _has_any(self) -> bool:
        return bool(self._exact or self._globs)


def is_glob(name: str) -> bool:
    return not _GLOB.isdisjoint(name)


class VmSelector(msgspec.Struct, frozen=True, kw_only=True):
    """All of what is given must hold of a VM; nothing given means all VMs."""

    names: NamePatterns = NamePatterns()
    group: str | None = None
    host: str | None = None
    state: VmState | None = None
    spot: bool | None = None
    labels: LabelSelector = LabelSelector()

    def matches(self, fleet: Fleet, vm: Vm) -> bool:
        return (
            self.names.match(vm.name)
            and self.group in (None, vm.group)
            and self.host in (None, vm.standing_on)
            and self.spot in (None, vm.spot)
            and self.state in (None, state_of_vm(fleet, vm))
            and self.labels.matches(vm.labels)
        )

    def candidates(self, fleet: Fleet) -> Iterable[str] | None:
        """Return the names of few VMs that hold all that match, where an index has them; else None."""
        if self.names.are_names:
            return self.names.names
        if self.group is not None:
            group = fleet.groups.get(self.group)
            return group.vms if group else ()
        return None if self.host is None else fleet.vms_on(self.host)


class HostSelector(msgspec.Struct, frozen=True, kw_only=True):
    """All of what is given must hold of a host; nothing given means all hosts."""

    names: NamePatterns = NamePatterns()
    state: HostState | None = None
    cordoned: bool | None = None
    labels: LabelSelector = LabelSelector()

    def matches(self, fleet: Fleet, host: Host) -> bool:
        return (
            self.names.match(host.name)
            and self.state in (None, fleet.state_of(host.name))
            and self.cordoned in (None, host.name in fleet.cordoned)
            and self.labels.matches(host.labels)
        )
