"""Identification of VMs by address, tap or mark: no VM may be mistaken for another.

Addresses are unique, except among VMs with a tap or mark: their packets are distinguished by interface. Taps and
marks are unique in the whole fleet, so that a VM keeps its own when it moves.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import IPv4Network, ip_address

from forewarn.core.declared_keys import DeclarationConflict, RecordKind
from forewarn.core.errors import Refused
from forewarn.core.fleet import Fleet
from forewarn.core.fleet_index import ReverseIndex
from forewarn.core.fleet_records import mark_key
from forewarn.core.model import Interface, Vm

IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}", re.ASCII)
LONGEST_DEVICE = 15
"""Maximum length of the name of a network device on Linux."""
TAP = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_DEVICE - 1}}}")
MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
MARKS = range(2**32)
"""The range of packet marks; 0 means no mark."""
_NO_INTERFACE = Interface()


def find_ambiguous(fleet: Fleet, declared: Mapping[str, Vm], gone: Collection[str]) -> Iterator[DeclarationConflict]:
    """Yield conflicts: VMs that could be mistaken for each other, or for VMs that stay."""
    yield from _find_ambiguous(fleet, declared, gone, "address", fleet.addresses, lambda vm: vm.address)
    wired = {name: vm for name, vm in declared.items() if vm.interface != _NO_INTERFACE}
    if wired:
        leaving = {*gone, *declared}
        yield from _find_ambiguous(fleet, wired, leaving, "tap", fleet.taps, lambda vm: vm.interface.tap)
        yield from _find_ambiguous(fleet, wired, leaving, "mark", fleet.marks, lambda vm: mark_key(vm.interface.mark))


def check_addresses(declared: Mapping[str, Vm]) -> None:
    """Refuse addresses, taps, marks and MAC addresses that are not well-formed."""
    wired = {name: vm for name, vm in declared.items() if vm.interface != _NO_INTERFACE}
    for vm in declared.values():
        if vm.address:
            _check_address(vm, vm.address)
    for vm in wired.values():
        _check_interface(vm)


def _find_ambiguous(
    fleet: Fleet,
    declared: Mapping[str, Vm],
    gone: Collection[str],
    what: str,
    owners: ReverseIndex,
    key_of: Callable[[Vm], str],
) -> Iterator[DeclarationConflict]:
    claimed: dict[str, Vm] = {}
    for vm in declared.values():
        key = key_of(vm)
        if not key:
            continue
        other = claimed.setdefault(key, vm)
        if other is vm:
            staying = (name for name in owners[key] if name not in declared and name not in gone)
            other = next((fleet.vms[name] for name in staying), vm)
        if other is not vm and (what != "address" or not (has_interface(vm) and has_interface(other))):
            also = "; give each of them a tap or a mark if that is meant" if what == "address" else ""
            said = f"VM {vm.name!r}: {what} {key} belongs to VM {other.name!r} already{also}"
            yield DeclarationConflict(RecordKind.VM, vm.name, said, other.name)


def has_interface(vm: Vm) -> bool:
    """Return whether its packets can be distinguished by tap or mark."""
    return bool(vm.interface.tap or vm.interface.mark)


def _check_interface(vm: Vm) -> None:
    interface = vm.interface
    if interface.tap and not TAP.fullmatch(interface.tap):
        raise Refused(
            f"VM {vm.name!r}: {interface.tap!r} is not a valid device name; it has up to {LONGEST_DEVICE} characters"
        )
    if interface.mark not in MARKS:
        raise Refused(f"VM {vm.name!r}: mark must be from 1 to {MARKS[-1]}")
    if interface.mac_address and not MAC.fullmatch(interface.mac_address):
        raise Refused(f"VM {vm.name!r}: write the MAC address {interface.mac_address!r} as 52:54:00:12:34:56")
    for address in filter(None, (interface.public_ip_address, interface.ipv6_address)):
        _check_address(vm, address)
    if interface.ipv6_address and ":" not in interface.ipv6_address:
        raise Refused(f"VM {vm.name!r}: {interface.ipv6_address!r} is not a valid IPv6 address")
    if ":" in interface.public_ip_address:
        raise Refused(f"VM {vm.name!r}: {interface.public_ip_address!r} is not a valid IPv4 address")
    if interface.subnet:
        _check_subnet(vm, interface.subnet)


def _check_address(vm: Vm, address: str) -> None:
    if IPV4.fullmatch(address):
        return  # fast path for the usual form: the library takes ten times as long
    try:
        canonical = str(ip_address(address))
    except ValueError:
        raise Refused(f"VM {vm.name!r}: {address!r} is not a valid IP address") from None
    if canonical != address:
        raise Refused(f"VM {vm.name!r}: write the address {address!r} as {canonical!r}")


def _check_subnet(vm: Vm, subnet: str) -> None:
    try:
        canonical = str(IPv4Network(subnet))
    except ValueError:
        raise Refused(f"VM {vm.name!r}: {subnet!r} is not a valid subnet such as 10.0.0.0/24") from None
    if canonical != subnet:
        raise Refused(f"VM {vm.name!r}: write the subnet {subnet!r} as {canonical!r}")
