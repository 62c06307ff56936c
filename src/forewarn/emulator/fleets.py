"""Builds the emulated fleet from VM names or a fleet file."""

from collections.abc import Iterable
from ipaddress import IPv4Address

from msgspec.structs import replace

from forewarn.core.errors import BadInput
from forewarn.core.model import GroupKind, GroupTerms, Host, Vm
from forewarn.fleetfile.parser import DesiredFleet

GROUP = "emulated"
_FIRST_ADDRESS = IPv4Address("10.0.0.4")
_UPDATE_DOMAINS = 5
_FAULT_DOMAINS = 3
_TERMINATE_NOTICE = 5 * 60


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
