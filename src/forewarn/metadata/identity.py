"""Identity modes: whether VMs are identified by source address, packet mark or tap device."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from forewarn.core.fleet import Fleet
from forewarn.core.fleet_index import ReverseIndex
from forewarn.core.fleet_records import mark_key
from forewarn.core.model import Vm


class Identity(StrEnum):
    """How callers are identified."""

    ADDRESS = "address"
    MARK = "mark"
    """By the mark that the host's packet filter sets on packets of the VM's tap, whatever their source address."""
    TAP = "tap"
    """By the tap device of the connection; each tap has its own listener, so that addresses may repeat."""


class CallerLookup(msgspec.Struct, frozen=True):
    """How to look up callers for one identity mode."""

    of: Callable[[Vm], str]
    """The lookup key of a VM; empty if it has none."""
    owners: Callable[[Fleet], ReverseIndex]


CALLER_LOOKUPS = {
    Identity.ADDRESS: CallerLookup(lambda vm: vm.address, lambda fleet: fleet.addresses),
    Identity.MARK: CallerLookup(lambda vm: mark_key(vm.interface.mark), lambda fleet: fleet.marks),
    Identity.TAP: CallerLookup(lambda vm: vm.interface.tap, lambda fleet: fleet.taps),
}
