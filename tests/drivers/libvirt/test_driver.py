"""The libvirt driver on libvirt's own test hypervisor: the contract, what goes wrong, what is seen."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forewarn.core.errors import BadInput
from forewarn.core.model import EventType, Observation, ObservationKind, Vm
from forewarn.node.driver import (
    Driver,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactUnknown,
    SupportsObservation,
)
from forewarn.testing.driver_contract import DriverContract, DriverTrial
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.machines import FELT, URI, Machines, crash_at, wait_for


class LibvirtTrial(DriverTrial):
    """The contract with machines of libvirt's test hypervisor."""

    def __init__(self, machines: Machines, type: EventType) -> None:
        self._machines = machines
        self._type = type

    def make(self, **more: object) -> Driver:
        return self._machines.driver(**more)

    def times_done(self, event_id: str) -> int:
        return self._machines.times(self._machines.names[event_id], *FELT[self._type])

    def wait_until(self, at: datetime) -> None:
        threading.Event().wait(0.01)

    def crash_during(self, impact: Impact) -> None:
        crash_at(self._machines, impact, steps=1)

    def impact(self) -> Impact:
        return self._machines.impact(self._type, self._machines.define())


class TestLibvirtDriver(DriverContract):
    """It keeps the contract, whatever the impact, cut off half-way too."""

    @pytest.fixture(params=list(FELT), ids=str)
    def trial(self, request: pytest.FixtureRequest, machines: Machines) -> DriverTrial:
        return LibvirtTrial(machines, request.param)


def test_a_missing_machine_fails_by_its_name(machines: Machines) -> None:
    """A reboot of what libvirt does not have says so; its deletion is done already."""
    vm = machines.define()
    machines.domain(vm).destroy()
    machines.domain(vm).undefine()
    reboot = carried_out(machines.driver(), machines.impact(EventType.REBOOT, vm))
    delete = carried_out(machines.driver(), machines.impact(EventType.TERMINATE, vm, deletes=True))

    assert reboot == ImpactFailed(f"libvirt on h1 has no domain {vm.name}; list its domains with 'virsh list --all'")
    assert delete == ImpactDone(detail=f"{vm.name} was gone already")


def test_libvirt_that_is_not_there_fails_with_its_sentence(machines: Machines, tmp_path: Path) -> None:
    """The socket's own words, the address, and what to look at."""
    uri = f"qemu+unix:///system?socket={tmp_path}/none.sock"
    outcome = carried_out(machines.driver(hosts={"h1": uri}), machines.impact(EventType.REBOOT, machines.define()))

    assert isinstance(outcome, ImpactFailed)
    assert outcome.reason.startswith(f"libvirt on h1 ({uri}) cannot be reached: Failed to connect socket")
    assert outcome.reason.endswith(
        "No such file or directory; check that it runs and that Forewarn's user has access"
    )


def test_a_host_without_uri_fails_with_the_remedy(machines: Machines) -> None:
    """A machine that is on no other host either may be there, and nothing is guessed."""
    vm = Vm("nowhere", "web", host="h1")
    outcome = carried_out(machines.driver(hosts={"h2": URI, "h3": URI}), machines.impact(EventType.REBOOT, vm))

    assert outcome == ImpactFailed(
        "host 'h1' has no URI; name it in 'hosts' of driver 'libvirt', or set 'uri' for all"
    )


def test_a_pattern_stands_for_all_hosts(machines: Machines) -> None:
    """``{host}`` is replaced by the name."""
    driver = machines.driver(hosts={}, uri="test+{host}:///default")
    outcome = carried_out(driver, machines.impact(EventType.REBOOT, machines.define()))

    assert isinstance(outcome, ImpactFailed)
    assert "(test+h1:///default)" in outcome.reason


def test_what_cannot_be_written_down_is_not_done(machines: Machines) -> None:
    """The machine stays untouched, and the reason names the place."""
    vm = machines.define()
    (machines.place / "records").touch()
    failed = carried_out(machines.driver(), machines.impact(EventType.PREEMPT, vm))

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.endswith(f"free space in {machines.place}/records")
    assert machines.domain(vm).isActive()


def test_what_was_never_begun_is_not_begun(machines: Machines) -> None:
    """Unless it is so old that a page about it may be gone."""
    asked = machines.impact(EventType.REBOOT, machines.define())
    old = Impact(asked.event, asked.vms, datetime.now(UTC) - timedelta(days=31))

    assert machines.driver().outcome_of(asked) == ImpactNotBegun()
    assert isinstance(machines.driver().outcome_of(old), ImpactUnknown)


def test_what_others_do_to_machines_is_seen(machines: Machines) -> None:
    """A machine that somebody stops, starts or undefines is reported; what we do ourselves is not."""
    vm, ours = machines.define(), machines.define()
    machines.settle(vm, ours)
    driver = machines.driver()
    assert isinstance(driver, SupportsObservation)
    seen: list[Observation] = []
    driver.watch(seen.append)
    wait_for(lambda: bool(driver._hosts._open))
    carried_out(driver, machines.impact(EventType.PREEMPT, ours))
    machines.domain(vm).destroy()
    machines.domain(vm).create()
    machines.domain(vm).suspend()
    machines.domain(vm).destroy()
    machines.domain(vm).undefine()
    wait_for(lambda: len(seen) >= 4)

    assert {sight.vm for sight in seen} == {vm.name}
    assert [sight.what for sight in seen] == [
        ObservationKind.STOPPED,
        ObservationKind.STARTED,
        ObservationKind.STOPPED,
        ObservationKind.GONE,
    ]
    assert seen[0].detail == "it was destroyed, reported by libvirt on h1"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hosts": {}}, "driver 'libvirt' has no host; set 'hosts'"),
        (
            {"hosts": {"h1": "h1"}},
            "setting 'hosts.h1' of driver 'libvirt': 'h1' is not a valid URI; write it like qemu+ssh",
        ),
        ({"uri": "qemu:///system"}, "has no {host}; write it in place of the name"),
        ({"evict": "delete"}, "setting 'evict' of driver 'libvirt'"),
        ({"grace": "soon"}, "setting 'grace' of driver 'libvirt': expected a duration"),
        ({"host": {}}, "did you mean 'hosts'?"),
    ],
)
def test_a_wrong_setting_is_refused_at_start(machines: Machines, settings: dict[str, object], sentence: str) -> None:
    """Each mistake is one sentence with its remedy."""
    with pytest.raises(BadInput) as refused:
        machines.driver(**settings)

    assert sentence in str(refused.value)
