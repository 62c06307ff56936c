"""What the qemu driver does with machines that it leaves as they are; the others are in ``tests/guests``."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

from forewarn.clocks import SystemClock
from forewarn.core.model import EventType, Host, Vm
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.node.driver import (
    CandidateHost,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    fences_terms,
    has_local_records,
)
from forewarn.testing.driver_contract import in_term
from tests.drivers.impacts import carried_out, impact


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[QemuDriver]:
    driver = QemuDriver.from_settings({"qmp": f"{tmp_path}/{{vm}}.qmp"}, SystemClock(), 1.0, tmp_path / "driver")
    yield driver
    driver.close()


@pytest.mark.parametrize(
    ("type_", "operation"), [(EventType.REBOOT, "host reboot"), (EventType.FREEZE, "host freeze")]
)
def test_a_machine_that_is_off_stays_off_through_maintenance(
    driver: QemuDriver, type_: EventType, operation: str
) -> None:
    """Maintenance of its host is no reason to start it, and does not fail for it."""
    done = carried_out(driver, impact(type_, operation=operation))

    assert done == ImpactDone(detail="it did not run and stays off")


def test_a_machine_that_is_off_leaves_its_host_with_the_others(driver: QemuDriver) -> None:
    """It is recorded on another host, and starts there one day."""
    moved = impact(EventType.REDEPLOY, operation="host redeploy", candidates=(CandidateHost(Host("h2")),))

    assert carried_out(driver, moved) == ImpactDone({"web-0": "h2"}, "it did not run and stays off")


def test_a_restart_of_a_machine_that_is_off_fails(driver: QemuDriver) -> None:
    """Who asks for it wants it to run."""
    failed = carried_out(driver, impact(EventType.REBOOT, operation="vm restart"))

    assert isinstance(failed, ImpactFailed)
    assert "there is no machine at" in failed.reason


def test_a_machine_is_not_taken_for_off_where_its_monitor_cannot_be(tmp_path: Path) -> None:
    """A wrong path must not look like maintenance that went well."""
    settings: dict[str, object] = {"qmp": f"{tmp_path}/wrong/{{vm}}.qmp"}
    driver = QemuDriver.from_settings(settings, SystemClock(), 1.0, tmp_path / "driver")
    failed = carried_out(driver, impact(EventType.REBOOT, operation="host reboot"))
    driver.close()

    assert isinstance(failed, ImpactFailed)
    assert failed.reason == f"there is no directory {tmp_path}/wrong; check 'qmp' of driver 'qemu'"


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("vm fail", "there is no command to start web-0; set 'start' of driver 'qemu'"),
        ("host fail", "there is no other host to move web-0 to"),
    ],
)
def test_a_machine_that_failed_alone_may_start_on_its_own_host(
    driver: QemuDriver, operation: str, reason: str
) -> None:
    """It needs no other; the VMs of a host that failed do."""
    failed = carried_out(driver, impact(EventType.REDEPLOY, operation=operation))

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.startswith(reason)


@contextmanager
def machine(tmp_path: Path, *state: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an empty machine with the monitor of web-0."""
    monitor = tmp_path / "web-0.qmp"
    monitor.unlink(missing_ok=True)
    command = ["qemu-system-x86_64", "-nodefaults", "-machine", "none", "-display", "none", *state]
    with subprocess.Popen([*command, "-qmp", f"unix:{monitor},server=on,wait=off"]) as process:
        try:
            while not monitor.exists():
                assert process.poll() is None
            yield process
        finally:
            process.kill()


@pytest.mark.end_to_end
@pytest.mark.parametrize(("state", "status"), [((), "running"), (("-S",), "prelaunch")])
@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_machine_that_another_program_started_after_its_crash_is_left_alone(
    driver: QemuDriver, tmp_path: Path, state: tuple[str, ...], status: str, *, is_resumed: bool
) -> None:
    """The event that announces its failure ends Completed, and says so; its process goes on."""
    crashed: Queue[str] = Queue()
    asked = impact(EventType.REDEPLOY, operation="vm fail")
    driver.watch(lambda seen: crashed.put(seen.vm))
    with machine(tmp_path) as first:
        while not driver._monitors.knows(tmp_path / "web-0.qmp"):
            assert first.poll() is None
    assert crashed.get(timeout=60) == "web-0"
    if is_resumed:  # the service was lost before it started anything
        with driver._executor._progress_store.held(asked.event.id) as progress_file:
            progress_file.begin(asked)
            progress_file.note("rebuilding", "web-0", host="h7")
    with machine(tmp_path, *state) as second:
        done = carried_out(driver, asked)
        assert second.poll() is None

    assert done == ImpactDone(detail=f"it is {status}: another program started it, and it was left alone")


@contextmanager
def machine_of_two_nodes(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run an empty machine with a monitor for each of two nodes: QEMU talks to one client at a time."""
    monitors = [tmp_path / node / "web-0.qmp" for node in ("n1", "n2")]
    command = ["qemu-system-x86_64", "-nodefaults", "-machine", "none", "-display", "none"]
    for monitor in monitors:
        monitor.parent.mkdir()
        command += ["-qmp", f"unix:{monitor},server=on,wait=off"]
    with subprocess.Popen(command) as process:
        try:
            while not all(monitor.exists() for monitor in monitors):
                assert process.poll() is None
            yield process
        finally:
            process.kill()


def driver_of(tmp_path: Path, node: str) -> QemuDriver:
    settings: dict[str, object] = {"qmp": f"{tmp_path}/{node}/{{vm}}.qmp", "records": f"{tmp_path}/records"}
    return QemuDriver.from_settings(settings, SystemClock(), 1.0, tmp_path / node / "driver")


@pytest.mark.end_to_end
def test_a_leader_that_was_replaced_does_nothing_to_a_machine(tmp_path: Path) -> None:
    """The nodes of a host share the records: the next leader asks, and the earlier one is refused from then on."""
    first, second = driver_of(tmp_path, "n1"), driver_of(tmp_path, "n2")
    asked = impact(EventType.TERMINATE, operation="vm delete", attempted_at=SystemClock().now())
    with machine_of_two_nodes(tmp_path) as process:
        assert second.outcome_of(in_term(asked, 2, is_elsewhere=True)) == ImpactNotBegun()
        late = carried_out(first, in_term(asked, 1))
        assert isinstance(late, ImpactUnknown)
        assert "a leader of term 2 was here, and this call is of term 1" in late.reason
        assert isinstance(first.switch(asked.vms[0], on=False, term=1), ImpactFailed)
        assert process.poll() is None
        assert carried_out(second, in_term(asked, 2)) == ImpactDone()
        assert process.wait(60) == 0
        assert carried_out(first, in_term(asked, 1)) == ImpactDone()  # what came of it
    first.close()
    second.close()


def switched_off(driver: QemuDriver, vm: Vm, term: int) -> ImpactOutcome:
    """Have a VM stopped and return the end, as the node does."""
    outcome = driver.switch(vm, on=False, term=term)
    while isinstance(outcome, ImpactUnderway):
        outcome = driver.switch(vm, on=False, term=term)
    return outcome


def test_a_leader_that_was_replaced_switches_no_machine(driver: QemuDriver, tmp_path: Path) -> None:
    """Without shared records a term means nothing."""
    vm = impact().vms[0]
    shared = driver_of(tmp_path, "n1")
    (tmp_path / "n1").mkdir()

    assert switched_off(shared, vm, 2) == ImpactDone(detail="it did not run")
    refused = switched_off(shared, vm, 1)
    assert isinstance(refused, ImpactFailed)
    assert "a leader of term 2 was here, and this call is of term 1" in refused.reason
    assert switched_off(driver, vm, 2) == switched_off(driver, vm, 1) == ImpactDone(detail="it did not run")
    shared.close()


def test_without_shared_records_it_does_not_fence(driver: QemuDriver, tmp_path: Path) -> None:
    """It then knows only what was begun from its own node."""
    assert not fences_terms(driver)
    assert has_local_records(driver)
    shared = driver_of(tmp_path, "n1")
    assert fences_terms(shared)
    shared.close()
