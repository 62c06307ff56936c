"""The fleets that are emulated: made of a few names, or of a fleet file, and ready to be asked about."""

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
    """Return VMs of these names that see each other's events, each on a host of its own.

    They are a scale set, the one kind of group in which every type of event occurs.
    """
    names = tuple(names)
    if len(set(names)) < len(names):
        raise BadInput(f"the names of VMs differ from each other, and these do not: {', '.join(names)}")
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
    """Give every VM an address: it is by its address that the service knows who is asking."""
    taken = {vm.address for vm in fleet.vms.values()}
    free = (str(_FIRST_ADDRESS + number) for number in range(len(fleet.vms) + len(taken)))
    vacant = (address for address in free if address not in taken)
    vms = {name: vm if vm.address else replace(vm, address=next(vacant)) for name, vm in fleet.vms.items()}
    return DesiredFleet(fleet.hosts, fleet.groups, vms)
