"""What a look at libvirt changes in a fleet, and what it leaves as it is."""

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.cli.importing.merging import ImportChange, absent, merge
from forewarn.core.model import GroupKind, GroupTerms, Host, InstanceFacts, Interface, Vm
from forewarn.drivers.libvirt.inventory import Inventory, InventoryMachine
from forewarn.drivers.libvirt.location import DomainState
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet

WEB = InventoryMachine("web-0", "u-0", "52:54:00:00:00:01", "tap-web-0", "10.0.0.4")
KNOWN = Vm(
    "web-0",
    "web",
    host="h1",
    update_domain=3,
    address="10.0.0.4",
    spot=True,
    instance=InstanceFacts(vm_id="u-0", vm_size="big"),
    interface=Interface(tap="tap-web-0", mark=7, mac_address="52:54:00:00:00:01"),
)
FLEET = CurrentFleet({"h1": Host("h1")}, {"web": GroupTerms("web", GroupKind.AVAILABILITY_SET)}, {"web-0": KNOWN})


def found(*machines: InventoryMachine, host: str = "h1") -> Inventory:
    return Inventory(host, "qemu:///system", machines)


def test_a_new_machine_stands_alone() -> None:
    """With all that libvirt says of it, on a host that is declared too."""
    plan = merge([found(WEB)], CurrentFleet())

    assert plan.changes == (
        ImportChange("add", "host", "h1", "qemu:///system"),
        ImportChange("add", "vm", "web-0", "on h1, 10.0.0.4, 52:54:00:00:00:01"),
    )
    assert plan.desired.groups == {"web-0": GroupTerms("web-0", GroupKind.STANDALONE)}
    vm = plan.desired.vms["web-0"]
    assert (vm.host, vm.address, vm.instance.vm_id) == ("h1", "10.0.0.4", "u-0")
    assert vm.interface == Interface(tap="tap-web-0", mark=1, mac_address="52:54:00:00:00:01")


def test_what_is_known_already_is_no_change() -> None:
    """Looking twice changes nothing."""
    plan = merge([found(WEB)], FLEET)

    assert plan.changes == ()
    assert not diff_fleet(plan.desired, FLEET)


def test_a_uuid_is_known_again_in_any_case() -> None:
    """Also where the VM is called otherwise than the machine: it is neither added twice nor removed."""
    vm = replace(KNOWN, name="shop", instance=replace(KNOWN.instance, vm_id="U-0"))
    declared = CurrentFleet(FLEET.hosts, FLEET.groups, {"shop": vm})

    assert merge([found(WEB)], declared).changes == ()
    assert absent([found(WEB)], declared) == []


def test_an_operator_s_decisions_stay() -> None:
    """Group, domains, size and mark are not libvirt's; address, host and wire are."""
    plan = merge([found(replace(WEB, address="10.0.0.9", mac_address="52:54:00:00:00:09"), host="h2")], FLEET)

    assert plan.desired.vms["web-0"] == replace(
        KNOWN,
        host="h2",
        address="10.0.0.9",
        interface=Interface(tap="tap-web-0", mark=7, mac_address="52:54:00:00:00:09"),
    )
    assert plan.changes[1] == ImportChange(
        "change",
        "vm",
        "web-0",
        "host h1 → h2, address 10.0.0.4 → 10.0.0.9, mac_address 52:54:00:00:00:01 → 52:54:00:00:00:09",
    )


def test_what_libvirt_does_not_say_is_not_forgotten() -> None:
    """A machine that is off has no address just now."""
    assert merge([found(InventoryMachine("web-0", "u-0"))], FLEET).changes == ()


def test_a_machine_is_known_by_its_uuid() -> None:
    """The VM keeps its name in the fleet when libvirt calls it otherwise."""
    assert merge([found(replace(WEB, name="web-zero"))], FLEET).changes == ()


def test_a_machine_is_known_by_its_name_else() -> None:
    """One that the operator declared by hand gets its UUID."""
    by_hand = CurrentFleet(FLEET.hosts, FLEET.groups, {"web-0": replace(KNOWN, instance=InstanceFacts())})

    assert merge([found(WEB)], by_hand).changes == (ImportChange("change", "vm", "web-0", "vm_id none → u-0"),)


def test_a_vm_that_forewarn_moved_stays_where_it_is() -> None:
    """It stands where libvirt says, and that is no news; when it is back again, the fleet follows."""
    moved = CurrentFleet(FLEET.hosts | {"h2": Host("h2")}, FLEET.groups, {"web-0": replace(KNOWN, moved_to="h2")})
    back = merge([found(WEB)], moved)

    assert merge([found(WEB, host="h2")], moved).changes == ()
    assert back.changes == (ImportChange("change", "vm", "web-0", "host h2 → h1"),)
    assert back.moves == {"web-0": "h1"}


OFF = DomainState(libvirt.VIR_DOMAIN_SHUTOFF, 0, -1)


@pytest.mark.parametrize("order", [("h1", "h2"), ("h2", "h1")])
@pytest.mark.parametrize("fleet", [FLEET, CurrentFleet()])
def test_a_machine_that_two_hosts_have_is_taken_where_it_runs(fleet: CurrentFleet, order: tuple[str, str]) -> None:
    """Whichever host is named last; the copy that is off is named with the command that removes it."""
    plan = merge([found(replace(WEB, state=OFF) if host == "h1" else WEB, host=host) for host in order], fleet)

    assert plan.desired.vms["web-0"].host == "h2"
    assert plan.remarks == (
        "web-0: it is taken from h2, but h1 defines it too; remove that: 'virsh -c qemu:///system undefine web-0'",
    )


def test_a_machine_that_runs_twice_is_refused() -> None:
    """Nothing of it changes, and the sentence has the remedy."""
    plan = merge([found(WEB), found(WEB, host="h2")], FLEET)

    assert plan.desired.vms == FLEET.vms
    assert len(plan.refused) == 1
    assert plan.refused[0].startswith("web-0 runs on h1 and h2 at once; stop it with 'virsh destroy'")


def test_a_machine_that_is_off_on_two_hosts_stays_where_it_was() -> None:
    """One that the fleet does not have is refused."""
    twice = [found(replace(WEB, state=OFF)), found(replace(WEB, state=OFF), host="h2")]

    assert merge(twice, FLEET).desired.vms == FLEET.vms
    assert merge(twice, FLEET).refused == ()
    assert merge(twice, CurrentFleet()).desired.vms == {}
    assert merge(twice, CurrentFleet()).refused[0].startswith("web-0 is off and defined on h1 and h2; undefine it")


def test_a_copy_that_is_off_does_not_count_while_its_own_host_is_not_asked() -> None:
    """The VM may run there."""
    plan = merge([found(replace(WEB, state=OFF), host="h2")], FLEET)

    assert plan.desired.vms == FLEET.vms
    assert plan.refused == (
        "web-0 is off on h2, and the fleet has it on h1, which was not looked at; import it with the URI of h1 too",
    )
    assert merge([found(WEB, host="h2")], FLEET).desired.vms["web-0"].host == "h2"


def test_every_vm_gets_a_mark_of_its_own() -> None:
    """New ones and known ones that have none; the marks of others are not given again."""
    known = {"web-0": KNOWN, "db-0": Vm("db-0", "db-0", host="h1", interface=Interface(mark=1))}
    fleet = CurrentFleet(FLEET.hosts, FLEET.groups, known)
    plan = merge([found(WEB, InventoryMachine("a", "u-a"), InventoryMachine("b", "u-b"))], fleet)
    again = merge([found(replace(WEB, uuid="u-1", name="c"))], CurrentFleet(vms={"c": Vm("c", "c", host="h1")}))

    assert [plan.desired.vms[name].interface.mark for name in ("web-0", "db-0", "a", "b")] == [7, 1, 2, 3]
    assert again.desired.vms["c"].interface.mark == 1


def test_what_was_deleted_is_not_added_again() -> None:
    """While libvirt still has it."""
    plan = merge([found(WEB)], CurrentFleet(), deleted={"u-0"})

    assert plan.desired.vms == {}


def test_names_and_addresses_that_cannot_be_are_left_out() -> None:
    """Each with a sentence."""
    other = InventoryMachine("db-0", "u-1", address="10.0.0.4")
    plan = merge([found(WEB, other, InventoryMachine("my vm", "u-2")), found(host="h 2")], FLEET)

    assert plan.desired.vms["db-0"].address == ""
    assert plan.remarks == (
        "db-0: its address 10.0.0.4 is that of web-0 already; it is left out",
        "h1: domain 'my vm' is left out; its name is none for a VM",
        "qemu:///system: 'h 2' is not a valid host name; write NAME=qemu:///system",
    )


def test_what_is_gone_is_taken_out_where_asked() -> None:
    """With the group that it stood alone in; those that libvirt never had stay, and those on other hosts."""
    alone = Vm("old", "old", host="h1", instance=InstanceFacts(vm_id="u-9"))
    by_hand = Vm("hand", "hand", host="h1")
    elsewhere = replace(alone, name="far", group="far", host="h7", instance=InstanceFacts(vm_id="u-8"))
    fleet = CurrentFleet(
        FLEET.hosts,
        FLEET.groups | {vm.name: GroupTerms(vm.name, GroupKind.STANDALONE) for vm in (alone, by_hand, elsewhere)},
        FLEET.vms | {vm.name: vm for vm in (alone, by_hand, elsewhere)},
    )
    gone = absent([found(WEB)], fleet)
    plan = merge([found(WEB)], fleet, gone)

    assert gone == ["old"]
    assert plan.changes == (ImportChange("remove", "vm", "old", "libvirt on h1 has it no more"),)
    assert set(plan.desired.vms) == {"web-0", "hand", "far"}
    assert "old" not in plan.desired.groups


def test_a_group_of_several_stays_without_one_of_them() -> None:
    """Only the VM goes."""
    other = replace(KNOWN, name="web-1", address="", instance=InstanceFacts(vm_id="u-1"))
    fleet = CurrentFleet(FLEET.hosts, FLEET.groups, FLEET.vms | {"web-1": other})

    assert set(merge([found(WEB)], fleet, ["web-1"]).desired.groups) == {"web"}
