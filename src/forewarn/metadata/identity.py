"""What a VM is known by: its source address, or the wire its packets come from."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from forewarn.core.fleet import Fleet, mark_key
from forewarn.core.fleet_index import ReverseIndex
from forewarn.core.model import Vm


class Identity(StrEnum):
    """By what callers are told apart."""

    ADDRESS = "address"
    MARK = "mark"
    """By what the host's packet filter wrote on the packets of its tap, whatever address they bear."""
    TAP = "tap"
    """By the device that they came from; each has a listener of its own, so that addresses may be equal."""


class CallerLookup(msgspec.Struct, frozen=True):
    """Where to look up callers of one identity."""

    of: Callable[[Vm], str]
    """What a VM is looked up by; empty for one that has none."""
    owners: Callable[[Fleet], ReverseIndex]


CALLER_LOOKUPS = {
    Identity.ADDRESS: CallerLookup(lambda vm: vm.address, lambda fleet: fleet.addresses),
    Identity.MARK: CallerLookup(lambda vm: mark_key(vm.interface.mark), lambda fleet: fleet.marks),
    Identity.TAP: CallerLookup(lambda vm: vm.interface.tap, lambda fleet: fleet.taps),
}
