"""Which VMs and hosts are meant."""

import pytest

from forewarn.core.label_selectors import parse_selector
from forewarn.core.model import Host, HostState, Vm
from forewarn.core.selectors import HostSelector, NamePatterns, VmSelector, VmState, state_of_vm
from tests.core.harness import FleetHarness

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group db standalone; "
    "vm web-0 in web on h1; vm web-1 in web on h2 spot; vm db-0 in db on h1"
)


@pytest.fixture
def here() -> FleetHarness:
    return FleetHarness(FLEET)


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        (VmSelector(), ["web-0", "web-1", "db-0"]),
        (VmSelector(names=NamePatterns(["web-*"])), ["web-0", "web-1"]),
        (VmSelector(names=NamePatterns(["db-0", "web-[1-9]"])), ["web-1", "db-0"]),
        (VmSelector(names=NamePatterns(["web"])), []),
        (VmSelector(group="web"), ["web-0", "web-1"]),
        (VmSelector(host="h1"), ["web-0", "db-0"]),
        (VmSelector(spot=True), ["web-1"]),
        (VmSelector(spot=False, group="web"), ["web-0"]),
        (VmSelector(state=VmState.DEALLOCATED), []),
        (VmSelector(labels=parse_selector("!rack")), ["web-0", "web-1", "db-0"]),
        (VmSelector(labels=parse_selector("rack")), []),
    ],
)
def test_all_of_what_is_given_must_hold(here: FleetHarness, selector: VmSelector, meant: list[str]) -> None:
    """Nothing given means all VMs. What an index offers holds all that match."""
    fleet = here.fleet
    assert [name for name, vm in fleet.vms.items() if selector.matches(fleet, vm)] == meant
    few = selector.candidates(fleet)
    assert few is None or set(meant) <= set(few)


def test_the_state_of_a_vm_is_that_of_its_machine(here: FleetHarness) -> None:
    """Deallocated goes before crashed."""
    fleet = here.fleet
    fleet.crashed |= {"web-0": None, "db-0": None}
    here.say("ann deallocates db-0")

    states = {name: state_of_vm(fleet, vm) for name, vm in fleet.vms.items()}
    assert states == {"web-0": VmState.CRASHED, "web-1": VmState.RUNNING, "db-0": VmState.DEALLOCATED}


def test_hosts_are_selected_by_state_cordon_and_labels(here: FleetHarness) -> None:
    """As VMs are."""
    fleet = here.fleet
    fleet.hosts["h2"] = Host("h2", {"rack": "r2"})
    here.say("ann cordons host h1")

    def meant(selector: HostSelector) -> list[str]:
        return [name for name, host in fleet.hosts.items() if selector.matches(fleet, host)]

    assert meant(HostSelector()) == ["h1", "h2"]
    assert meant(HostSelector(cordoned=True)) == ["h1"]
    assert meant(HostSelector(labels=parse_selector("rack in (r1,r2)"))) == ["h2"]
    assert meant(HostSelector(state=HostState.FAILED)) == []
    assert meant(HostSelector(names=NamePatterns(["h?"]), cordoned=False)) == ["h2"]


def test_a_vm_that_has_moved_is_on_its_new_host(here: FleetHarness) -> None:
    """Not where it was declared."""
    fleet = here.fleet
    assert not VmSelector(host="h2").matches(fleet, Vm("x", "web", "h2", moved_to="h1"))
