"""What a look at libvirt changes in a fleet, and what it leaves as it is."""

from msgspec.structs import replace

from forewarn.cli.importing.merging import Change, absent, merge
from forewarn.control.difference import Declared, difference
from forewarn.core.model import GroupKind, GroupTerms, Host, InstanceFacts, Interface, Vm
from forewarn.drivers.libvirt.inventory import Inventory, Machine

WEB = Machine("web-0", "u-0", "52:54:00:00:00:01", "tap-web-0", "10.0.0.4")
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
FLEET = Declared({"h1": Host("h1")}, {"web": GroupTerms("web", GroupKind.AVAILABILITY_SET)}, {"web-0": KNOWN})


def found(*machines: Machine, host: str = "h1") -> Inventory:
    return Inventory(host, "qemu:///system", machines)


def test_a_new_machine_stands_alone() -> None:
    """With all that libvirt says of it, on a host that is declared too."""
    plan = merge([found(WEB)], Declared())

    assert plan.changes == (
        Change("add", "host", "h1", "qemu:///system"),
        Change("add", "vm", "web-0", "on h1, 10.0.0.4, 52:54:00:00:00:01"),
    )
    assert plan.wish.groups == {"web-0": GroupTerms("web-0", GroupKind.STANDALONE)}
    vm = plan.wish.vms["web-0"]
    assert (vm.host, vm.address, vm.instance.vm_id) == ("h1", "10.0.0.4", "u-0")
    assert vm.interface == Interface(tap="tap-web-0", mac_address="52:54:00:00:00:01")


def test_what_is_known_already_is_no_change() -> None:
    """Looking twice changes nothing."""
    plan = merge([found(WEB)], FLEET)

    assert plan.changes == ()
    assert not difference(plan.wish, FLEET)


def test_an_operator_s_decisions_stay() -> None:
    """Group, domains, size and mark are not libvirt's; address, host and wire are."""
    plan = merge([found(replace(WEB, address="10.0.0.9", mac_address="52:54:00:00:00:09"), host="h2")], FLEET)

    assert plan.wish.vms["web-0"] == replace(
        KNOWN,
        host="h2",
        address="10.0.0.9",
        interface=Interface(tap="tap-web-0", mark=7, mac_address="52:54:00:00:00:09"),
    )
    assert plan.changes[1] == Change(
        "change",
        "vm",
        "web-0",
        "host h1 → h2, address 10.0.0.4 → 10.0.0.9, mac_address 52:54:00:00:00:01 → 52:54:00:00:00:09",
    )


def test_what_libvirt_does_not_say_is_not_forgotten() -> None:
    """A machine that is off has no address just now."""
    assert merge([found(Machine("web-0", "u-0"))], FLEET).changes == ()


def test_a_machine_is_known_by_its_uuid() -> None:
    """The VM keeps its name in the fleet when libvirt calls it otherwise."""
    assert merge([found(replace(WEB, name="web-zero"))], FLEET).changes == ()


def test_a_machine_is_known_by_its_name_else() -> None:
    """One that the operator declared by hand gets its UUID."""
    by_hand = Declared(FLEET.hosts, FLEET.groups, {"web-0": replace(KNOWN, instance=InstanceFacts())})

    assert merge([found(WEB)], by_hand).changes == (Change("change", "vm", "web-0", "vm_id none → u-0"),)


def test_a_vm_that_forewarn_moved_stays_where_it_is() -> None:
    """It stands where libvirt says; that is no news. Back again, it is a remark."""
    moved = Declared(FLEET.hosts | {"h2": Host("h2")}, FLEET.groups, {"web-0": replace(KNOWN, moved_to="h2")})

    assert merge([found(WEB, host="h2")], moved).changes == ()
    assert merge([found(WEB)], moved).remarks == ("web-0: Forewarn moved it to h2, and libvirt has it on h1 again",)


def test_names_and_addresses_that_cannot_be_are_left_out() -> None:
    """Each with a sentence."""
    other = Machine("db-0", "u-1", address="10.0.0.4")
    plan = merge([found(WEB, other, Machine("my vm", "u-2")), found(host="h 2")], FLEET)

    assert plan.wish.vms["db-0"].address == ""
    assert plan.remarks == (
        "db-0: its address 10.0.0.4 is that of web-0 already; it is left out",
        "h1: domain 'my vm' is left out; its name is none for a VM",
        "qemu:///system: 'h 2' is no name of a host; write NAME=qemu:///system",
    )


def test_what_is_gone_is_taken_out_where_asked() -> None:
    """With the group that it stood alone in; those that libvirt never had stay, and those on other hosts."""
    alone = Vm("old", "old", host="h1", instance=InstanceFacts(vm_id="u-9"))
    by_hand = Vm("hand", "hand", host="h1")
    elsewhere = replace(alone, name="far", group="far", host="h7", instance=InstanceFacts(vm_id="u-8"))
    fleet = Declared(
        FLEET.hosts,
        FLEET.groups | {vm.name: GroupTerms(vm.name, GroupKind.STANDALONE) for vm in (alone, by_hand, elsewhere)},
        FLEET.vms | {vm.name: vm for vm in (alone, by_hand, elsewhere)},
    )
    gone = absent([found(WEB)], fleet)
    plan = merge([found(WEB)], fleet, gone)

    assert gone == ["old"]
    assert plan.changes == (Change("remove", "vm", "old", "libvirt on h1 has it no more"),)
    assert set(plan.wish.vms) == {"web-0", "hand", "far"}
    assert "old" not in plan.wish.groups


def test_a_group_of_several_stays_without_one_of_them() -> None:
    """Only the VM goes."""
    other = replace(KNOWN, name="web-1", address="", instance=InstanceFacts(vm_id="u-1"))
    fleet = Declared(FLEET.hosts, FLEET.groups, FLEET.vms | {"web-1": other})

    assert set(merge([found(WEB)], fleet, ["web-1"]).wish.groups) == {"web"}
