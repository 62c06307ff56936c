"""What VMs are known by."""

import pytest
from msgspec.structs import replace

from forewarn.core.errors import Refused
from forewarn.core.fleet_records import mark_key
from forewarn.core.model import Interface, Vm
from tests.core.harness import FleetHarness
from tests.core.test_fleet_changes import FLEET, declare


def vm(name: str, address: str = "", **interface: object) -> Vm:
    return Vm(name, "web", address=address, interface=Interface(**interface))  # type: ignore[arg-type]


def test_vms_on_wires_of_their_own_may_share_an_address() -> None:
    """Two tenants may have chosen the same one."""
    harness = FleetHarness(FLEET)
    harness.give(declare(vm("a", "10.0.0.4", tap="tap-a"), vm("b", "10.0.0.4", mark=7)))

    assert harness.fleet.addresses["10.0.0.4"] == ("a", "b")
    assert harness.fleet.taps["tap-a"] == ("a",)
    assert harness.fleet.marks["7"] == ("b",)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (vm("a", "10.0.0.4"), vm("b", "10.0.0.4", tap="tap-b")),
        (vm("a", "10.0.0.4", tap="tap-a"), vm("b", "10.0.0.4")),
        (vm("a", tap="tap-a"), vm("b", tap="tap-a")),
        (vm("a", mark=7), vm("b", mark=7)),
    ],
)
def test_nobody_can_be_taken_for_another(first: Vm, second: Vm) -> None:
    """Whether both are declared at once, or one is there already."""
    with pytest.raises(Refused, match="belongs to VM 'a' already"):
        FleetHarness(FLEET).give(declare(first, second))
    harness = FleetHarness(FLEET)
    harness.give(declare(first))
    with pytest.raises(Refused, match="belongs to VM 'a' already"):
        harness.give(declare(second))


def test_wires_can_be_exchanged() -> None:
    """What two VMs give up in one change, each may have of the other."""
    harness = FleetHarness(FLEET)
    harness.give(declare(vm("a", "10.0.0.4", tap="one"), vm("b", "10.0.0.5", tap="two")))
    harness.give(declare(vm("a", "10.0.0.5", tap="two"), vm("b", "10.0.0.4", tap="one")))

    assert harness.fleet.taps["one"] == harness.fleet.addresses["10.0.0.4"] == ("b",)


@pytest.mark.parametrize(
    "interface",
    [
        {"tap": "a-name-of-16-let"},
        {"tap": "tap 0"},
        {"mark": -1},
        {"mark": 2**32},
        {"mac_address": "52-54-00-12-34-56"},
        {"mac_address": "52:54:00:AA:34:56"},
        {"subnet": "10.0.0.1/24"},
        {"subnet": "10.0.0"},
        {"ipv6_address": "10.0.0.1"},
        {"ipv6_address": "2001:DB8::1"},
        {"public_ip_address": "somewhere"},
        {"public_ip_address": "2001:db8::1"},
        {"subnet": "2001:db8::/64"},
    ],
)
def test_an_interface_is_written_in_one_way(interface: dict[str, object]) -> None:
    """It ends up in packet filters, which print one spelling only."""
    with pytest.raises(Refused):
        FleetHarness(FLEET).give(declare(vm("a", "", **interface)))


def test_an_interface_that_is_written_as_it_has_to_be_is_kept() -> None:
    """All of it."""
    interface = {
        "tap": "a-name-of-15-le",
        "mark": 2**32 - 1,
        "mac_address": "52:54:00:12:34:56",
        "subnet": "10.0.0.0/24",
        "ipv6_address": "2001:db8::1",
        "public_ip_address": "203.0.113.4",
    }
    harness = FleetHarness(FLEET)
    harness.give(declare(vm("a", "10.0.0.4", **interface)))

    assert harness.fleet.vms["a"].interface.mac_address == "52:54:00:12:34:56"


def test_a_wire_of_a_vm_that_leaves_is_free() -> None:
    """In the same change; so is one that its VM gives up, with its mark."""
    harness = FleetHarness(FLEET)
    harness.give(declare(vm("a", "10.0.0.4", tap="one"), vm("b", "10.0.0.4", mark=7)))
    harness.say("ann declares: no vm b")
    assert harness.fleet.marks[mark_key(7)] == ()
    harness.give(replace(declare(vm("c", "10.0.0.4", tap="one")), removed_vms=("a",)))

    assert harness.fleet.taps["one"] == ("c",)


def test_a_vm_without_a_tap_hides_no_other() -> None:
    """What comes after it is looked at too."""
    with pytest.raises(Refused, match="tap one belongs to VM 'b' already"):
        FleetHarness(FLEET).give(declare(vm("a", mark=7), vm("b", tap="one"), vm("c", tap="one")))


def test_a_tap_can_be_given_up_for_another_vm() -> None:
    """In one change, also where the VM that had it has none then."""
    harness = FleetHarness(FLEET)
    harness.give(declare(vm("a", tap="one", mark=7)))
    harness.give(declare(vm("a"), vm("b", tap="one", mark=7)))

    assert harness.fleet.taps["one"] == harness.fleet.marks["7"] == ("b",)
