"""What the doctor finds, and what it says to do."""

import errno
import os
import shutil
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forewarn import plugins
from forewarn.cli.doctoring import clock, storage
from forewarn.cli.doctoring.clock import examine_clock
from forewarn.cli.doctoring.finding import Findings, State
from forewarn.cli.doctoring.listening import examine_endpoint
from forewarn.cli.doctoring.storage import examine_storage
from forewarn.config.values import Endpoint
from forewarn.core.model import Vm
from forewarn.drivers.simulated import SimulatedDriver
from tests.cli.conftest import Forewarn, Ran
from tests.network.namespaces import hypervisor
from tests.network.test_link_local import FLEET
from tests.office import Office


@pytest.fixture(autouse=True)
def free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the service's listeners be on ports that are free."""
    monkeypatch.setenv("FOREWARN_METADATA", "127.0.0.1:0")
    monkeypatch.setenv("FOREWARN_CONTROL", "off")


def wrong(ran: Ran) -> list[tuple[str, str]]:
    """Return what is wrong, as the JSON tells it."""
    assert ran.json["ok"] == (ran.code == 0)
    return [(each["what"], each["said"]) for each in ran.json["findings"] if each["state"] == "wrong"]


def test_a_machine_on_which_all_is_well(forewarn: Forewarn) -> None:
    """One line for each look, and nothing is made on the way."""
    ran = forewarn("doctor")

    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()][:7] == [
        "settings", "data", "journal", "service", "metadata", "driver", "clock",
    ]  # fmt: skip
    assert list(Path().iterdir()) == []


def test_settings_that_cannot_be_read_are_the_only_finding(forewarn: Forewarn) -> None:
    """Without them nobody knows where to look."""
    Path("forewarn.toml").write_text("metdata = 1\n")
    ran = forewarn("doctor", "--json")

    assert ran.code == 1
    assert wrong(ran) == [
        ("settings", "forewarn.toml, line 1: there is no setting 'metdata'; did you mean 'metadata'?")
    ]
    assert len(ran.json["findings"]) == 1


def test_a_fleet_file_that_cannot_be_read_is_found(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the other looks go on."""
    monkeypatch.setenv("FOREWARN_FLEET", "nowhere.toml")
    ran = forewarn("doctor", "--json")

    assert [what for what, _ in wrong(ran)] == ["fleet"]
    assert "driver" in {each["what"] for each in ran.json["findings"]}


def test_a_running_service_is_asked(forewarn: Forewarn, office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows its VMs; where it should listen and does not, its settings are others."""
    monkeypatch.setenv("FOREWARN_METADATA", "127.0.0.1:65432")
    ran = forewarn("doctor", "--json")

    assert wrong(ran) == [
        ("metadata", "a service runs, but does not listen on 127.0.0.1:65432; restart it with these settings")
    ]
    (said,) = (each["said"] for each in ran.json["findings"] if each["what"] == "service")
    assert f"knows {len(office.node.fleet.vms)} VMs" in said


@pytest.mark.parametrize(("is_running", "state"), [(True, State.OK), (False, State.WRONG)])
def test_a_port_is_free_or_the_services_own(state: State, *, is_running: bool) -> None:
    """Whoever else listens there keeps the service from it."""
    findings = Findings()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        examine_endpoint("metadata", Endpoint("127.0.0.1", port), findings, is_running=is_running)

    assert [each.state for each in findings.all] == [state]


@pytest.mark.parametrize(
    ("code", "host", "state", "said"),
    [
        (errno.EADDRNOTAVAIL, "169.254.169.254", State.WRONG, "run 'forewarn network setup'"),
        (errno.EADDRNOTAVAIL, "10.0.0.1", State.WRONG, "no interface of this machine has the address 10.0.0.1"),
        (errno.EACCES, "127.0.0.1", State.UNSURE, "look as root"),
    ],
)
def test_what_keeps_the_service_from_its_address_is_said(
    monkeypatch: pytest.MonkeyPatch, code: int, host: str, state: State, said: str
) -> None:
    """With the remedy."""

    class Refusing(socket.socket):
        def bind(self, _: Any) -> None:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(socket, "socket", Refusing)
    findings = Findings()
    examine_endpoint("metadata", Endpoint(host, 80), findings, is_running=False)

    assert findings.all[0].state is state
    assert said in findings.all[0].said


@pytest.mark.parametrize("is_running", [True, False])
def test_taps_that_are_to_come_are_no_trouble(monkeypatch: pytest.MonkeyPatch, *, is_running: bool) -> None:
    """A service that listens on each tap by itself needs none to run, and the address comes with them."""
    findings = Findings()
    examine_endpoint("metadata", Endpoint("127.0.0.1", 0), findings, is_running=is_running, by_tap=True)

    class Refusing(socket.socket):
        def bind(self, _: Any) -> None:
            raise OSError(errno.EADDRNOTAVAIL, "")

    monkeypatch.setattr(socket, "socket", Refusing)
    examine_endpoint("metadata", Endpoint("127.0.0.1", 80), findings, is_running=is_running, by_tap=True)

    assert [each.state for each in findings.all] == [State.OK, State.OK]


def test_a_damaged_journal_is_found(forewarn: Forewarn) -> None:
    """Before a service refuses to start on it."""
    Path("journal.sqlite3").write_bytes(b"no journal at all" * 100)

    assert [what for what, _ in wrong(forewarn("doctor", "--json"))] == ["journal"]


def test_a_journal_from_the_future_is_found() -> None:
    """Its clock was set back, and events would wait for ever."""
    findings = Findings()
    storage._examine_times([datetime.now(UTC) + timedelta(hours=1)], findings)
    assert not findings.is_well

    findings = Findings()
    storage._examine_times([datetime.now(UTC)], findings)
    assert findings.is_well


class Usage(NamedTuple):
    """What a disk holds."""

    free: int


def test_a_disk_that_is_nearly_full_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is still room to mend it."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 20))
    findings = Findings()
    examine_storage(tmp_path, findings)

    assert not findings.is_well
    assert "free some" in findings.all[0].said


def test_a_data_directory_that_is_a_file_is_found(tmp_path: Path) -> None:
    """The remedy is a setting."""
    (tmp_path / "file").touch()
    findings = Findings()
    examine_storage(tmp_path / "file" / "data", findings)

    assert "is no directory; set data to one" in findings.all[0].said


@pytest.mark.parametrize(("state", "found"), [(0, State.OK), (5, State.UNSURE), (None, State.UNSURE)])
def test_a_clock_that_nobody_keeps_right_is_told(
    monkeypatch: pytest.MonkeyPatch, state: int | None, found: State
) -> None:
    """It is not wrong yet, so it does not fail the look."""
    monkeypatch.setattr(clock, "_state", lambda: state)
    findings = Findings()
    examine_clock(findings)

    assert [each.state for each in findings.all] == [found]


def test_a_driver_that_is_not_there_is_found(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those that are."""
    monkeypatch.setenv("FOREWARN_DRIVER", "simulted")

    ((what, said),) = wrong(forewarn("doctor", "--json"))
    assert (what, "did you mean 'simulated'?" in said) == ("driver", True)


def driven_by(driver: str, **settings: str) -> None:
    lines = [
        f'driver = "{driver}"',
        f"[drivers.{driver}]",
        *(f'{key} = "{value}"' for key, value in settings.items()),
    ]
    Path("forewarn.toml").write_text("\n".join(lines))


def test_what_a_program_is_run_by_is_looked_for(forewarn: Forewarn, tmp_path: Path) -> None:
    """A driver that only calls others tells whether they are there."""
    program = tmp_path / "program"
    program.write_text("#!/opt/python9\n")
    program.chmod(0o755)
    driven_by("command", program=str(program))
    assert [what for what, said in wrong(forewarn("doctor", "--json")) if "/opt/python9" in said] == ["driver"]

    program.write_text("#!/bin/sh\n")
    assert "command can be used, and what it calls is there" in forewarn("doctor").out


def test_the_callbacks_of_a_running_service_are_no_trouble(
    forewarn: Forewarn, office: Office, tmp_path: Path
) -> None:
    """Its port is taken because it works."""
    secret = tmp_path / "secret"
    secret.write_text("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    secret.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as receiver, socket.create_server(("127.0.0.1", 0)) as callbacks:
        url, callback = (f"127.0.0.1:{each.getsockname()[1]}" for each in (receiver, callbacks))
        driven_by("webhook", url=f"http://{url}", secret_file=str(secret), callback=callback)
        ran = forewarn("doctor", "--json")

    assert office.node.fleet.vms
    assert [what for what, _ in wrong(ran) if what == "driver"] == []


class Lost(SimulatedDriver):
    """A driver that cannot get at some of its machines."""

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(f"the monitor of {vm.name} does not answer; start the VM" for vm in vms)


def test_what_a_driver_says_of_its_machines_is_told(
    forewarn: Forewarn, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sentence is a line."""
    monkeypatch.setattr(plugins, "load", lambda *_: Lost)
    troubles = [said for what, said in wrong(forewarn("doctor", "--json")) if what == "driver"]

    assert sorted(troubles) == [
        f"the monitor of {vm} does not answer; start the VM" for vm in sorted(office.node.fleet.vms)
    ]


@pytest.mark.end_to_end
def test_a_hypervisor_is_ill_before_the_network_is_set_up_and_well_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first report says what to do, and once that is done there is nothing left to say."""
    monkeypatch.delenv("FOREWARN_METADATA")
    with hypervisor(tmp_path) as machine:
        machine.settings(FLEET, 'identity = "mark"\n')
        before = machine.forewarn("doctor", is_sure=False)
        assert "wrong   metadata  no interface of this machine has the address 169.254.169.254" in before
        assert "wrong   network   missing: the rules of the packet filter; run 'forewarn network setup'" in before

        machine.forewarn("network", "setup")
        guests = [machine.guest(number) for number in (1, 2)]
        machine.serve()
        after = machine.forewarn("doctor")
        assert "ok      network   guests reach the service, and none can pretend to be another" in after
        assert "ok      metadata  the service listens on 169.254.169.254:80" in after
        assert len(guests) == 2
