"""What the doctor finds, and what it says to do."""

import errno
import json
import os
import re
import shutil
import socket
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from forewarn import plugin_loader
from forewarn.audit.timeline import EventView
from forewarn.cli.doctoring import clock, storage
from forewarn.cli.doctoring.clock import examine_clock, examine_events
from forewarn.cli.doctoring.endpoints import examine_endpoint
from forewarn.cli.doctoring.finding import DoctorReport, FindingState
from forewarn.cli.doctoring.machines import ServiceState
from forewarn.cli.doctoring.storage import examine_storage
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.bodies import ListenerView
from forewarn.core.errors import Unavailable
from forewarn.core.model import Vm
from forewarn.drivers.simulated import SimulatedDriver
from tests.cli.conftest import Forewarn, Ran
from tests.harness import ApiHarness
from tests.network.namespaces import hypervisor
from tests.network.test_link_local import FLEET


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


def test_events_more_than_a_year_ahead_are_listed() -> None:
    """A clock that was ahead may have announced them; whoever wants them back gets the command."""
    findings = DoctorReport()
    near, far = (datetime.now(UTC) + timedelta(days=days) for days in (364, 3650))
    examine_events(
        [
            EventView(name, "Reboot", "Scheduled", when, ("web-0",))
            for name, when in (("A", near), ("B", far), ("C", None))
        ],
        findings,
    )

    (found,) = findings.all
    assert (found.state, found.what) == (FindingState.WRONG, "events")
    assert found.said.endswith("take it back with: forewarn event cancel B")


@pytest.mark.parametrize(
    ("where", "hosts", "is_told"),
    [("127.0.0.1:0", "*", False), ("0.0.0.0:0", "*", True), ("0.0.0.0:0", "meta.example.org", False)],
)
def test_a_service_that_takes_any_host_name_is_told_of(
    forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, where: str, hosts: str, *, is_told: bool
) -> None:
    """Where guests can reach it."""
    monkeypatch.setenv("FOREWARN_METADATA", where)
    monkeypatch.setenv("FOREWARN_ALLOWED_HOSTS", hosts)

    assert ("DNS rebinding" in forewarn("doctor", "--json").out) is is_told


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


def test_a_running_service_is_asked(forewarn: Forewarn, harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows its VMs; where it should listen and does not, its settings are others."""
    monkeypatch.setenv("FOREWARN_METADATA", "127.0.0.1:65432")
    ran = forewarn("doctor", "--json")

    assert wrong(ran) == [
        (
            "metadata",
            (
                "a service runs, but does not listen on 127.0.0.1:65432; restart it with these settings, or set"
                " metadata to the address in its .socket unit, if it has one"
            ),
        )
    ]
    (said,) = (each["said"] for each in ran.json["findings"] if each["what"] == "service")
    assert f"knows {len(harness.node.replica.fleet.vms)} VMs" in said


def test_what_the_service_warns_of_is_wrong(forewarn: Forewarn, harness: ApiHarness) -> None:
    """The doctor repeats what health says."""
    harness.node.warnings["restart"] = "hurry waits for a restart"

    assert wrong(forewarn("doctor", "--json"))[0] == ("service", "hurry waits for a restart")


def test_a_service_that_cannot_read_its_journal_is_not_said_to_be_down(
    forewarn: Forewarn, harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs, and says why it cannot answer: to start another one is no remedy."""

    async def after(*_: object) -> object:
        raise Unavailable("the disk is full: free some space")

    monkeypatch.setattr(harness.context.names, "after", after)

    place, said = wrong(forewarn("doctor", "--json"))[0]
    assert place == "service"
    assert re.fullmatch(r"it runs in \S+, but cannot answer: the disk is full: free some space", said)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_only_a_listener_that_the_service_calls_its_own_is_vouched_for(host: str) -> None:
    """The kernel's number of the socket counts: the address alone could be that of another network."""
    findings = DoctorReport()
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        endpoint = ListenAddress(host, int(listening.getsockname()[1]))
        own, other = (
            ListenerView(part="metadata", address=str(endpoint), inode=inode)
            for inode in (os.fstat(listening.fileno()).st_ino, 1)
        )
        for found in (
            ServiceState(is_running=True, listeners=(other, own)),
            ServiceState(is_running=True, listeners=(other,)),
            ServiceState(is_running=True, listeners=()),
            ServiceState(is_running=True),
            ServiceState(),
        ):
            examine_endpoint("metadata", endpoint, found, looked := DoctorReport())
            findings.all += looked.all

    assert [each.state for each in findings.all] == [
        FindingState.OK, FindingState.WRONG, FindingState.WRONG, FindingState.UNSURE, FindingState.WRONG,
    ]  # fmt: skip
    assert f"process {os.getpid()} (" in findings.all[1].said
    assert f"and the service listens on {endpoint}" in findings.all[1].said


def test_nothing_is_called_well_below_a_finding_about_it() -> None:
    """A clock that is behind the journal is not called synchronized afterwards."""
    findings = DoctorReport()
    findings.unsure("clock", "it is behind")
    findings.ok("clock", "synchronized")
    findings.ok("driver", "it can be used")

    assert [each.what for each in findings.all] == ["clock", "driver"]


@pytest.mark.parametrize(
    ("code", "host", "state", "said"),
    [
        (errno.EADDRNOTAVAIL, "169.254.169.254", FindingState.WRONG, "run 'forewarn network setup'"),
        (
            errno.EADDRNOTAVAIL,
            "10.0.0.1",
            FindingState.WRONG,
            "no interface of this machine has the address 10.0.0.1",
        ),
        (errno.EACCES, "127.0.0.1", FindingState.UNSURE, "look as root"),
    ],
)
def test_what_keeps_the_service_from_its_address_is_said(
    monkeypatch: pytest.MonkeyPatch, code: int, host: str, state: FindingState, said: str
) -> None:
    """With the remedy."""

    class Refusing(socket.socket):
        def bind(self, _: Any) -> None:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(socket, "socket", Refusing)
    findings = DoctorReport()
    examine_endpoint("metadata", ListenAddress(host, 80), ServiceState(), findings)

    assert findings.all[0].state is state
    assert said in findings.all[0].said


@pytest.mark.parametrize("is_running", [True, False])
def test_taps_that_are_to_come_are_no_trouble(monkeypatch: pytest.MonkeyPatch, *, is_running: bool) -> None:
    """A service that listens on each tap by itself needs none to run, and the address comes with them."""
    findings = DoctorReport()
    found = ServiceState(is_running=is_running)
    examine_endpoint("metadata", ListenAddress("127.0.0.1", 0), found, findings, by_tap=True)

    class Refusing(socket.socket):
        def bind(self, _: Any) -> None:
            raise OSError(errno.EADDRNOTAVAIL, "")

    monkeypatch.setattr(socket, "socket", Refusing)
    examine_endpoint("metadata", ListenAddress("127.0.0.1", 80), found, findings, by_tap=True)

    assert [each.state for each in findings.all] == [FindingState.OK, FindingState.OK]


def test_a_damaged_journal_is_found(forewarn: Forewarn) -> None:
    """Before a service refuses to start on it."""
    Path("journal.sqlite3").write_bytes(b"no journal at all" * 100)

    assert [what for what, _ in wrong(forewarn("doctor", "--json"))] == ["journal"]


def test_a_journal_from_the_future_is_found() -> None:
    """Its clock was set back, and events would wait for ever."""
    findings = DoctorReport()
    storage._examine_times([datetime.now(UTC) + timedelta(hours=1)], findings)
    assert not findings.is_well

    findings = DoctorReport()
    storage._examine_times([datetime.now(UTC)], findings)
    assert findings.is_well


class Usage(NamedTuple):
    """What a disk holds."""

    free: int


def test_a_disk_that_is_nearly_full_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is still room to mend it."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 20))
    findings = DoctorReport()
    examine_storage(Settings(data=tmp_path), findings)

    assert not findings.is_well
    assert "free some" in findings.all[0].said


def test_a_full_disk_does_not_hide_an_open_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is wrong with the directory is told at once."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 20))
    tmp_path.chmod(0o750)
    findings = DoctorReport()
    examine_storage(Settings(data=tmp_path), findings)

    assert [each.said.partition(" ")[0] for each in findings.all if each.what == "data"] == ["only", "others"]


def test_a_read_only_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another owner would not help."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    findings = DoctorReport()
    examine_storage(Settings(data=tmp_path), findings)

    assert "is read-only; mount it for writing" in findings.all[0].said


def test_a_data_directory_that_others_may_read_is_found(tmp_path: Path) -> None:
    """The journal holds secrets."""
    tmp_path.chmod(0o750)
    findings = DoctorReport()
    examine_storage(Settings(data=tmp_path), findings)

    assert findings.all[0].said == f"others may look into {tmp_path}, which holds secrets; chmod 700 it"


def test_a_data_directory_that_is_a_file_is_found(tmp_path: Path) -> None:
    """The remedy is a setting."""
    (tmp_path / "file").touch()
    findings = DoctorReport()
    examine_storage(Settings(data=tmp_path / "file" / "data"), findings)

    assert "is not a directory; set data to one" in findings.all[0].said


def test_a_journal_elsewhere_is_looked_at_there(tmp_path: Path) -> None:
    """Its directory, and whether it is whole."""
    tmp_path.chmod(0o700)
    (tmp_path / "file").touch()
    wrong, well = DoctorReport(), DoctorReport()
    examine_storage(Settings(data=tmp_path, journal="sqlite:file/journal"), wrong)
    examine_storage(Settings(data=tmp_path, journal="sqlite:other"), well)

    assert wrong.all[1].said == f"{tmp_path / 'file'} is not a directory; set journal to one"
    assert [each.what for each in well.all] == ["data", "journal", "journal"]
    assert well.all[1].said.startswith(f"{tmp_path / 'other'}, made at the first start; ")
    assert well.all[2].said == "none yet, made at the first start"


@pytest.mark.parametrize(
    ("journal", "state", "said"),
    [
        ("memory:", FindingState.UNSURE, "'memory' is installed, but not checked: only our own can be"),
        ("sqlit:", FindingState.WRONG, "did you mean 'sqlite'?"),
    ],
)
def test_a_journal_without_files_is_not_checked(tmp_path: Path, journal: str, state: FindingState, said: str) -> None:
    """One that is not installed is wrong."""
    tmp_path.chmod(0o700)
    findings = DoctorReport()
    examine_storage(Settings(data=tmp_path, journal=journal), findings)

    assert findings.all[-1].state is state
    assert said in findings.all[-1].said


@pytest.mark.parametrize(
    ("state", "found"), [(0, FindingState.OK), (5, FindingState.UNSURE), (None, FindingState.UNSURE)]
)
def test_a_clock_that_nobody_keeps_right_is_told(
    monkeypatch: pytest.MonkeyPatch, state: int | None, found: FindingState
) -> None:
    """It is not wrong yet, so it does not fail the look."""
    monkeypatch.setattr(clock, "_state", lambda: state)
    findings = DoctorReport()
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
    forewarn: Forewarn, harness: ApiHarness, tmp_path: Path
) -> None:
    """Its port is taken because it works."""
    secret = tmp_path / "secret"
    secret.write_text("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    secret.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as receiver, socket.create_server(("127.0.0.1", 0)) as callbacks:
        url, callback = (f"127.0.0.1:{each.getsockname()[1]}" for each in (receiver, callbacks))
        driven_by("webhook", url=f"http://{url}", secret_file=str(secret), callback=callback)
        ran = forewarn("doctor", "--json")

    assert harness.node.replica.fleet.vms
    assert [what for what, _ in wrong(ran) if what == "driver"] == []


class Lost(SimulatedDriver):
    """A driver that cannot get at some of its machines."""

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(f"the monitor of {vm.name} does not answer; start the VM" for vm in vms)


def test_what_a_driver_says_of_its_machines_is_told(
    forewarn: Forewarn, harness: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sentence is a line."""
    monkeypatch.setattr(plugin_loader, "load", lambda *_: Lost)
    troubles = [said for what, said in wrong(forewarn("doctor", "--json")) if what == "driver"]

    assert sorted(troubles) == [
        f"the monitor of {vm} does not answer; start the VM" for vm in sorted(harness.node.replica.fleet.vms)
    ]


class CheckedDriver(SimulatedDriver):
    """A driver that tells which hosts it would ask for a machine."""

    def know_hosts(self, names: tuple[str, ...]) -> None:
        self.names = names

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return self.names


@pytest.mark.parametrize("is_running", [False, True])
def test_a_driver_looks_for_machines_on_every_host_of_the_fleet(
    forewarn: Forewarn, harness: ApiHarness, monkeypatch: pytest.MonkeyPatch, *, is_running: bool
) -> None:
    """Also on one where no VM stands; else the advice would be to start what runs there."""
    monkeypatch.setattr(plugin_loader, "load", lambda *_: CheckedDriver)
    if not is_running:
        Path("fleet.toml").write_text('[[host]]\nname = "h8"\n\n[[host]]\nname = "h9"\n')
        monkeypatch.setenv("FOREWARN_FLEET", "fleet.toml")
        monkeypatch.setenv("FOREWARN_DATA", "elsewhere")
    ran = forewarn("doctor", "--json")

    hosts = sorted(said for what, said in wrong(ran) if what == "driver")
    assert hosts == (sorted(harness.node.replica.fleet.hosts) if is_running else ["h8", "h9"])


class Unclosable(SimulatedDriver):
    """A driver that raises where it is closed."""

    def close(self) -> None:
        raise RuntimeError("boom")


class Talkative(SimulatedDriver):
    """A driver whose look at its machines ends in a number."""

    def check(self, vms: tuple[Vm, ...]) -> int:
        return len(vms)


class Half:
    """A driver that lacks nearly everything."""

    @classmethod
    def from_settings(cls, *_: object) -> "Half":
        return cls()


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Unclosable, "raised RuntimeError: boom at"), (Talkative, "Expected `array`"), (Half, "lacks perform")],
)
def test_a_driver_that_is_wrong_ends_only_the_look_at_it(
    forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, kind: type, said: str
) -> None:
    """It is named, and everything else is looked at."""
    monkeypatch.setattr(plugin_loader, "load", lambda *_: kind)
    ran = forewarn("doctor", "--json")

    ((what, result),) = wrong(ran)
    assert what == "driver"
    assert result.startswith("driver 'simulated' ")
    assert said in result
    assert result.endswith("mend it, or name another")
    assert ran.json["findings"][-1]["what"] == "clock"


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
        assert "ok      network   the address of the service, the routes to VMs and the rules are in place" in after
        assert "ok      metadata  the service listens on 169.254.169.254:80" in after
        assert len(guests) == 2


@pytest.mark.end_to_end
def test_the_network_is_not_called_well_below_what_speaks_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VM without an address, and no route to it: it is named, and no line says that all is in place."""
    monkeypatch.delenv("FOREWARN_METADATA")
    with hypervisor(tmp_path) as machine:
        machine.settings(FLEET.replace('address = "10.0.0.2"\n', ""), 'identity = "mark"\n')
        machine.forewarn("network", "setup")
        honest, liar = (machine.guest(number) for number in (1, 2))
        machine.serve()
        assert (honest.ask(), liar.ask()) == ("honest", "")
        result = machine.forewarn("doctor")
        assert "liar: responses cannot reach it: no address is declared" in " ".join(result.split())
        assert "ok      network" not in result
        assert "note: liar: responses cannot reach it" in machine.forewarn("network", "check")

        machine.run("ip", "route", "add", "10.0.0.0/24", "dev", "forewarn0")
        assert liar.ask() == "liar"
        machine.forewarn("network", "setup")  # routes to single guests are needed no longer
        assert "responses cannot reach it" not in machine.forewarn("network", "check")
        machine.run("ip", "rule", "add", "fwmark", "17", "blackhole")
        assert honest.ask() == ""
        unanswered = "note: honest: responses cannot reach it: there is no route to 10.0.0.1"
        assert unanswered in machine.forewarn("network", "check")


@pytest.mark.end_to_end
def test_a_mistake_in_the_fleet_file_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which VMs there are is not known then, so that nothing is said of their network."""
    monkeypatch.delenv("FOREWARN_METADATA")
    with hypervisor(tmp_path) as machine:
        machine.settings(FLEET, 'identity = "mark"\n')
        machine.forewarn("network", "setup")
        machine.settings(FLEET.replace("mark = 17", "marc = 17"), 'identity = "mark"\n')
        result = machine.forewarn("doctor", "--json", is_sure=False)
        found = json.loads(result)["findings"]

        assert [each["what"] for each in found if each["state"] == "wrong"] == ["fleet"]
        assert "network" not in {each["what"] for each in found}


@pytest.mark.end_to_end
def test_another_program_on_the_metadata_port_is_not_vouched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service runs, but in another place: the program that VMs reach is named by its process."""
    monkeypatch.delenv("FOREWARN_METADATA")
    with hypervisor(tmp_path) as machine:
        machine.settings(FLEET, "")
        machine.forewarn("network", "setup")
        settings = tmp_path / "forewarn.toml"
        as_it_should_be = settings.read_text()
        settings.write_text(as_it_should_be.replace("169.254.169.254:80", "127.0.0.1:8254"))
        machine.serve()
        settings.write_text(as_it_should_be)
        with machine.running(sys.executable, "-m", "http.server", "--bind", "169.254.169.254", "80"):
            result = ""
            while "listens on 169.254.169.254:80" not in result:  # until that program is up
                result = " ".join(machine.forewarn("doctor", is_sure=False).split())
        assert re.search(
            r"wrong metadata process \d+ \(python\S*\) listens on 169.254.169.254:80, and the service"
            r" listens on 127.0.0.1:8254; stop that program",
            result,
        )
        assert "ok metadata" not in result


@pytest.mark.end_to_end
def test_rules_of_the_older_packet_filter_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed INPUT that nft does not list; where no program can read it, that is said."""
    monkeypatch.delenv("FOREWARN_METADATA")
    with hypervisor(tmp_path) as machine:
        machine.settings(FLEET, "")
        machine.forewarn("network", "setup")
        guest = machine.guest(1)
        machine.serve()
        machine.run("iptables-legacy", "-P", "INPUT", "DROP")
        assert guest.ask() == ""
        result = machine.forewarn("network", "check")
        assert (
            "note: iptables-legacy: its chain INPUT accepts only what its rules name, and none names guests" in result
        )
        machine.run("iptables-legacy", "-A", "INPUT", "-i", "forewarn0", "-p", "tcp", "--dport", "80", "-j", "ACCEPT")
        assert guest.ask() == "honest"
        assert "iptables-legacy" not in machine.forewarn("network", "check")

        bare = tmp_path / "bin"
        bare.mkdir()
        for program in ("ip", "nft", "sysctl", "unshare", "sh", "true"):
            (bare / program).symlink_to(str(shutil.which(program)))
        program = (
            f"from forewarn.network import system; system._path = lambda: {str(bare)!r}; "
            "print(system.legacy_filter('ip'))"
        )
        assert machine.run(sys.executable, "-c", program) == "(['filter'], None)\n"
