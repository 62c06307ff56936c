"""What a look at libvirt changes in a fleet: machines are added and brought up to date, all else stays. Pure.

A VM is known again by its UUID, else by its name. Group, update domain, fault domain and all that an operator decides
stay as they are; host, address and wire are libvirt's to say. A new VM stands alone.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from forewarn.control.difference import Declared
from forewarn.control.wish import Wish
from forewarn.core.declaration import NAME
from forewarn.core.model import GroupKind, GroupTerms, Host, InstanceFacts, Interface, Vm
from forewarn.drivers.libvirt.inventory import Inventory, Machine


class Change(msgspec.Struct, frozen=True):
    """One line of the plan."""

    what: str
    """``add``, ``change`` or ``remove``."""
    kind: str
    """``host`` or ``vm``."""
    name: str
    detail: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The fleet as it would be, what would change, and what cannot be taken over."""

    wish: Wish
    changes: tuple[Change, ...] = ()
    remarks: tuple[str, ...] = ()


def merge(found: Sequence[Inventory], declared: Declared, gone: Iterable[str] = ()) -> Plan:
    """Return what leads from the declared fleet to what was found; VMs named ``gone`` are taken out."""
    hosts, groups, vms = dict(declared.hosts), dict(declared.groups), dict(declared.vms)
    changes: list[Change] = []
    remarks: list[str] = []
    for inventory in found:
        if not NAME.fullmatch(inventory.host):
            remarks.append(f"{inventory.uri}: {inventory.host!r} is no name of a host; write NAME={inventory.uri}")
            continue
        if inventory.host not in hosts:
            hosts[inventory.host] = Host(inventory.host)
            changes.append(Change("add", "host", inventory.host, inventory.uri))
        for machine in inventory.machines:
            if not NAME.fullmatch(machine.name):
                remarks.append(f"{inventory.host}: domain {machine.name!r} is left out; its name is none for a VM")
                continue
            vm, change = _vm(machine, inventory.host, vms, remarks)
            vms[vm.name] = vm
            groups.setdefault(vm.group, GroupTerms(vm.group, GroupKind.STANDALONE))
            changes.extend(change)
    for name in gone:
        if name in vms:
            vm = vms.pop(name)
            if vm.group == name or not any(other.group == vm.group for other in vms.values()):
                groups.pop(vm.group, None)
            changes.append(Change("remove", "vm", name, f"libvirt on {vm.standing_on} has it no more"))
    return Plan(Wish(hosts, groups, vms), tuple(changes), tuple(remarks))


def absent(found: Sequence[Inventory], declared: Declared) -> list[str]:
    """Return the VMs that came from libvirt, stand on a host that was looked at, and are on none of them."""
    hosts = {inventory.host for inventory in found}
    there = {value for inventory in found for each in inventory.machines for value in (each.uuid, each.name)}
    return [
        vm.name
        for vm in declared.vms.values()
        if vm.instance.vm_id and vm.standing_on in hosts and not {vm.instance.vm_id, vm.name} & there
    ]


def _vm(machine: Machine, host: str, vms: dict[str, Vm], remarks: list[str]) -> tuple[Vm, list[Change]]:
    known = next((vm for vm in vms.values() if vm.instance.vm_id == machine.uuid), vms.get(machine.name))
    address = machine.address
    owner = next((vm.name for vm in vms.values() if address and vm.address == address), "")
    if owner and owner != (known.name if known else machine.name):
        remarks.append(f"{machine.name}: its address {address} is that of {owner} already; it is left out")
        address = ""
    if known is None:
        vm = Vm(
            machine.name,
            machine.name,
            host=host,
            address=address,
            instance=InstanceFacts(vm_id=machine.uuid),
            interface=Interface(mac_address=machine.mac_address, tap=machine.tap),
        )
        return vm, [
            Change("add", "vm", vm.name, ", ".join(filter(None, (f"on {host}", address, machine.mac_address))))
        ]
    interface = replace(
        known.interface,
        mac_address=machine.mac_address or known.interface.mac_address,
        tap=machine.tap or known.interface.tap,
    )
    if known.moved_to and known.host == host:
        remarks.append(f"{known.name}: Forewarn moved it to {known.moved_to}, and libvirt has it on {host} again")
    vm = replace(
        known,
        # One that was moved while it ran stands where libvirt says; only a move that we know nothing of is news.
        host=known.host if known.standing_on == host else host,
        address=address or known.address,
        instance=replace(known.instance, vm_id=machine.uuid),
        interface=interface,
    )
    told = ", ".join(_differences(known, vm))
    return vm, [Change("change", "vm", vm.name, told)] if told else []


def _differences(before: Vm, after: Vm) -> Iterator[str]:
    for what, old, new in (
        ("host", before.host, after.host),
        ("address", before.address, after.address),
        ("vm_id", before.instance.vm_id, after.instance.vm_id),
        ("mac_address", before.interface.mac_address, after.interface.mac_address),
        ("tap", before.interface.tap, after.interface.tap),
    ):
        if old != new:
            yield f"{what} {old or 'none'} → {new or 'none'}"
