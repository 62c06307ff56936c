"""Plans an import: which hosts and VMs libvirt's state adds, changes or removes in the fleet. Pure.

A VM is matched by its UUID, else by its name. Group, update domain, fault domain and other operator settings stay;
host, address and tap are libvirt's. A new VM is standalone. A machine that several hosts have is taken from the host
where it runs; if that is ambiguous it is refused. Every VM gets a mark.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

import msgspec
from msgspec.structs import replace

from forewarn.core.model import GroupKind, GroupTerms, Host, InstanceFacts, Interface, Vm
from forewarn.core.terms import NAME
from forewarn.drivers.libvirt.inventory import Inventory, InventoryMachine
from forewarn.drivers.libvirt.location import DomainCopy, LocationSurvey
from forewarn.drivers.libvirt.problems import LibvirtProblem
from forewarn.fleetfile.diff import CurrentFleet
from forewarn.fleetfile.parser import DesiredFleet


class ImportChange(msgspec.Struct, frozen=True):
    """One line of the plan."""

    what: str
    """``add``, ``change`` or ``remove``."""
    kind: str
    """``host`` or ``vm``."""
    name: str
    detail: str = ""


class ImportPlan(msgspec.Struct, frozen=True):
    """The planned fleet, its changes, and the machines that cannot be imported."""

    desired: DesiredFleet
    changes: tuple[ImportChange, ...] = ()
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Ambiguous machines, with the remedy."""
    moves: dict[str, str] = {}
    """VMs that are back on their declared host after a move."""


def merge(
    found: Sequence[Inventory], declared: CurrentFleet, gone: Iterable[str] = (), deleted: Collection[str] = ()
) -> ImportPlan:
    """Return what leads from the declared fleet to what was found; VMs named ``gone`` are taken out.

    Machines with a UUID in ``deleted`` are left out: Forewarn has deleted their VMs.
    """
    hosts, groups, vms = dict(declared.hosts), dict(declared.groups), dict(declared.vms)
    changes: list[ImportChange] = []
    remarks: list[str] = []
    refused: list[str] = []
    moves: dict[str, str] = {}
    marks = _free_marks(declared)
    copies = _copies(found)
    for inventory in found:
        host = inventory.host
        if not NAME.fullmatch(host):
            remarks.append(f"{inventory.uri}: {host!r} is not a valid host name; write NAME={inventory.uri}")
            continue
        if host not in hosts:
            hosts[host] = Host(host)
            changes.append(ImportChange("add", "host", host, inventory.uri))
        for machine in inventory.machines:
            known = _known(machine, vms)
            remark = _reason_to_skip(machine, inventory, deleted)
            refusal, place = ("", "") if remark else _place(machine, host, known, copies[machine.uuid], found)
            if not remark and not refusal and place != host:
                command = f"'virsh -c {inventory.uri} undefine {machine.name}'"
                remark = (
                    f"{machine.name}: it is taken from {place}, but {host} defines it too; remove that: {command}"
                )
            if remark or refusal:
                remarks += [remark] if remark else []
                refused += [refusal] if refusal and refusal not in refused else []
                continue
            if known and known.moved_to and known.host == host:
                moves[known.name] = host
                changes.append(ImportChange("change", "vm", known.name, f"host {known.moved_to} → {host}"))
            vm, change = _vm(machine, host, vms, marks, remarks)
            vms[vm.name] = vm
            groups.setdefault(vm.group, GroupTerms(vm.group, GroupKind.STANDALONE))
            changes.extend(change)
    for name in gone:
        if name in vms:
            vm = vms.pop(name)
            if vm.group == name or not any(other.group == vm.group for other in vms.values()):
                groups.pop(vm.group, None)
            changes.append(ImportChange("remove", "vm", name, f"libvirt on {vm.standing_on} has it no more"))
    return ImportPlan(DesiredFleet(hosts, groups, vms), tuple(changes), tuple(remarks), tuple(refused), moves)


def _reason_to_skip(machine: InventoryMachine, inventory: Inventory, deleted: Collection[str]) -> str:
    if machine.uuid in deleted:
        return (
            f"{machine.name}: Forewarn has deleted it; it comes back once libvirt on {inventory.host} defines it anew"
        )
    if not NAME.fullmatch(machine.name):
        return f"{inventory.host}: domain {machine.name!r} is left out; its name is none for a VM"
    return ""


def _place(
    machine: InventoryMachine, host: str, known: Vm | None, copies: tuple[DomainCopy, ...], found: Sequence[Inventory]
) -> tuple[str, str]:
    """Return why a machine is refused, or its host."""
    recorded = known.standing_on if known else ""
    try:
        place = LocationSurvey(machine.name, copies).place(recorded)
    except LibvirtProblem as error:
        return f"{error}; then import it again", ""
    is_looked_at = any(inventory.host == recorded for inventory in found)
    if known and recorded and not is_looked_at and not (place and place.state.is_active):
        reason = f"{machine.name} is off on {host}, and the fleet has it on {recorded}, which was not looked at"
        return f"{reason}; import it with the URI of {recorded} too", ""
    return "", place.host if place else host


def _copies(found: Sequence[Inventory]) -> dict[str, tuple[DomainCopy, ...]]:
    """Return the hosts' entries of each machine, by UUID."""
    copies: dict[str, tuple[DomainCopy, ...]] = {}
    for inventory in found:
        for each in inventory.machines:
            copies[each.uuid] = (*copies.get(each.uuid, ()), DomainCopy(inventory.host, each.uuid, each.state))
    return copies


def uuid_of(vm: Vm) -> str:
    """Return a VM's UUID in libvirt's format, in lower case."""
    return vm.instance.vm_id.lower()


def _known(machine: InventoryMachine, vms: dict[str, Vm]) -> Vm | None:
    return next((vm for vm in vms.values() if uuid_of(vm) == machine.uuid), vms.get(machine.name))


def _free_marks(declared: CurrentFleet) -> Iterator[int]:
    taken = {vm.interface.mark for vm in declared.vms.values()}
    return (mark for mark in count(1) if mark not in taken)


def absent(found: Sequence[Inventory], declared: CurrentFleet) -> list[str]:
    """Return the VMs from libvirt that are recorded on an inspected host, and exist on none."""
    hosts = {inventory.host for inventory in found}
    there = {value for inventory in found for each in inventory.machines for value in (each.uuid, each.name)}
    return [
        vm.name
        for vm in declared.vms.values()
        if vm.instance.vm_id and vm.standing_on in hosts and not {uuid_of(vm), vm.name} & there
    ]


def _vm(
    machine: InventoryMachine, host: str, vms: dict[str, Vm], marks: Iterator[int], remarks: list[str]
) -> tuple[Vm, list[ImportChange]]:
    known = _known(machine, vms)
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
            interface=Interface(mac_address=machine.mac_address, tap=machine.tap, mark=next(marks)),
        )
        return vm, [
            ImportChange("add", "vm", vm.name, ", ".join(filter(None, (f"on {host}", address, machine.mac_address))))
        ]
    interface = replace(
        known.interface,
        mac_address=machine.mac_address or known.interface.mac_address,
        tap=machine.tap or known.interface.tap,
        mark=known.interface.mark or next(marks),
    )
    vm = replace(
        known,
        # For a VM that was moved live libvirt's host is current; only an unknown move is a change.
        host=known.host if known.standing_on == host else host,
        address=address or known.address,
        instance=known.instance if uuid_of(known) == machine.uuid else replace(known.instance, vm_id=machine.uuid),
        interface=interface,
    )
    differences = ", ".join(_differences(known, vm))
    return vm, [ImportChange("change", "vm", vm.name, differences)] if differences else []


def _differences(before: Vm, after: Vm) -> Iterator[str]:
    for what, old, new in (
        ("host", before.host, after.host),
        ("address", before.address, after.address),
        ("vm_id", before.instance.vm_id, after.instance.vm_id),
        ("mac_address", before.interface.mac_address, after.interface.mac_address),
        ("tap", before.interface.tap, after.interface.tap),
        ("mark", before.interface.mark, after.interface.mark),
    ):
        if old != new:
            yield f"{what} {old or 'none'} → {new or 'none'}"
