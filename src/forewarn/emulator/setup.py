"""The initial state of an emulation: fleet, notices, durations and faults."""

from collections.abc import Iterable
from datetime import timedelta
from ipaddress import IPv4Address

import msgspec
from msgspec.structs import replace

from forewarn.config.settings import NoticeSettings
from forewarn.core.errors import BadInput
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.model import EventType, GroupKind, GroupTerms, Host, Vm
from forewarn.emulator.faults import Fault
from forewarn.fleetfile.parser import DesiredFleet

GROUP = "emulated"
_FIRST_ADDRESS = IPv4Address("10.0.0.4")
_UPDATE_DOMAINS = 5
_FAULT_DOMAINS = 3
_TERMINATE_NOTICE = 5 * 60
# Azure: medians of July 2025 are ten minutes from Started to gone, five for a live migration.
IMPACT_DURATIONS = {
    type_: timedelta(seconds=5) if traits.ends_vm else timedelta(minutes=10) for type_, traits in EVENT_TYPES.items()
}
"""How long an event stays Started, unless a scenario says otherwise."""


class EmulationSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The initial state of an emulation."""

    fleet: DesiredFleet
    notice: NoticeSettings = NoticeSettings()
    """The least notice of each type of event."""
    lasts: dict[EventType, timedelta] = {}
    """How long an event stays Started, where it is not as long as in ``IMPACT_DURATIONS``."""
    user_operation_limit: int = 0
    enrolled: bool = True
    """Whether groups are enrolled from the start."""
    faults: tuple[Fault, ...] = ()


def fleet_of(names: Iterable[str]) -> DesiredFleet:
    """Return VMs of these names in one group, each on its own host.

    The group is a scale set, the only kind in which every event type occurs.
    """
    names = tuple(names)
    if len(set(names)) < len(names):
        raise BadInput(f"VM names must be unique: {', '.join(names)}; remove the repeated name")
    vms = {
        name: Vm(
            name,
            GROUP,
            host=f"host-{number}",
            update_domain=number % _UPDATE_DOMAINS,
            fault_domain=number % _FAULT_DOMAINS,
        )
        for number, name in enumerate(names)
    }
    terms = GroupTerms(GROUP, GroupKind.SCALE_SET, terminate_notice=_TERMINATE_NOTICE)
    hosts = {vm.host: Host(vm.host) for vm in vms.values()}
    return DesiredFleet(hosts, {GROUP: terms}, vms)


def with_addresses(fleet: DesiredFleet) -> DesiredFleet:
    """Give every VM an address, by which the service identifies callers."""
    taken = {vm.address for vm in fleet.vms.values()}
    free = (str(_FIRST_ADDRESS + number) for number in range(len(fleet.vms) + len(taken)))
    vacant = (address for address in free if address not in taken)
    vms = {name: vm if vm.address else replace(vm, address=next(vacant)) for name, vm in fleet.vms.items()}
    return DesiredFleet(fleet.hosts, fleet.groups, vms)
