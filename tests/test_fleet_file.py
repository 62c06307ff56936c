"""A real service with a fleet file: killed, started again, and asked what it made of it."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

import pytest

from forewarn.clocks import ManualClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.bodies import TermsBody, VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.control.server.fleet_applier import TOPIC, FleetFileReport
from forewarn.core.commands import ChangeFleet, ImpactResult, OperateVm, ReportImpact, SetGroup, VmOperation
from forewarn.core.errors import BadInput, Unavailable
from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.model import NODE, Caller, CallerKind, GroupKind, GroupTerms, Vm
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleetfile.diff import FleetDiff
from forewarn.journal.port import Journal, MaintainedJournal, NotWritten
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.node.fleet_warnings import HELD_TOPIC as HELD
from forewarn.wiring import Assembly

ANN = Caller(CallerKind.OPERATOR, "ann")
VMS = tuple(f"web-{number}" for number in range(6))


def file_of(*vms: str, more: str = "") -> str:
    return (
        '[[group]]\nname = "web"\nkind = "availability-set"\n'
        + more
        + "".join(f'[[vm]]\nname = "{name}"\ngroup = "web"\n' for name in vms)
    )


class FleetFileHarness:
    """One directory in which a service starts again and again."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "fleet.toml"
        self.data = directory / "data"

    def start(self, story: Callable[[Assembly], Awaitable[None]], *, strict: bool = False) -> None:
        """Start, let a story happen, and stop without a word."""

        async def play() -> None:
            settings = Settings(metadata=ListenAddress("127.0.0.1", 0), fleet=self.file, strict=strict)
            clock = ManualClock()
            driver = SimulatedDriver.from_settings({}, clock, 1.0)
            journal: Journal = SqliteJournal(self.data)
            assembly = Assembly(settings, clock, journal, driver)
            async with asyncio.timeout(30):
                await assembly.start()
                try:
                    await story(assembly)
                finally:
                    await assembly.stop()

        asyncio.run(play())


@pytest.fixture
def harness(tmp_path: Path) -> FleetFileHarness:
    found = FleetFileHarness(tmp_path)
    found.data.mkdir()
    found.file.write_text(file_of(*VMS))
    return found


async def nothing(assembly: Assembly) -> None:
    """Let nothing happen."""


def test_what_was_done_at_run_time_survives_a_start(harness: FleetFileHarness) -> None:
    """Terms stay set, and deleted VMs gone."""

    async def change(assembly: Assembly) -> None:
        await assembly.node.submit(SetGroup(id=uuid4().hex, by=ANN, group="web", quiet_hours=("22:00-06:00",)))
        delete = OperateVm(id=uuid4().hex, by=ANN, operation=VmOperation.DELETE, vm="web-1")
        await assembly.node.submit(delete)
        (event,) = assembly.node.replica.fleet.events
        await assembly.node.submit(ReportImpact(id=uuid4().hex, by=NODE, event=event, result=ImpactResult.DONE))

    async def look(assembly: Assembly) -> None:
        assert assembly.node.replica.fleet.groups["web"].terms.policy.quiet_hours == ("22:00-06:00",)
        assert "web-1" not in assembly.node.replica.fleet.vms
        assert assembly.node.warnings == {}

    harness.start(change)
    harness.start(look)
    harness.file.write_text("# a remark\n" + file_of(*VMS))
    harness.start(look)


@pytest.mark.end_to_end
def test_a_held_removal_waits_over_restarts_and_snapshots(harness: FleetFileHarness) -> None:
    """It is named until the event ends, and then carried out in the same append."""

    async def restart(assembly: Assembly) -> None:
        await assembly.node.submit(OperateVm(id=uuid4().hex, by=ANN, operation=VmOperation.RESTART, vm="web-0"))

    async def look(assembly: Assembly) -> None:
        assert "web-0: removal waits until event" in assembly.node.warnings[HELD]
        assert isinstance(assembly.journal, MaintainedJournal)
        await asyncio.to_thread(assembly.journal.take_snapshot)

    async def end(assembly: Assembly) -> None:
        (event,) = assembly.node.replica.fleet.events
        await assembly.node.submit(ReportImpact(id=uuid4().hex, by=NODE, event=event, result=ImpactResult.DONE))
        assert "web-0" not in assembly.node.replica.fleet.vms
        assert assembly.node.warnings == {}

    harness.start(restart)
    harness.file.write_text(file_of(*VMS[1:]))
    harness.start(look)
    harness.start(look)
    harness.start(end)


def test_a_start_does_not_remove_more_than_a_fifth(harness: FleetFileHarness) -> None:
    """Health says what to do."""
    harness.start(nothing)
    harness.file.write_text(file_of(*VMS[2:]))

    async def look(assembly: Assembly) -> None:
        assert list(assembly.node.replica.fleet.vms) == list(VMS)
        assert "fleet apply FILE --yes" in assembly.node.warnings[HELD]

    harness.start(look)
    harness.start(look)


def test_a_wrong_file_does_not_keep_a_recorded_fleet_from_its_guests(harness: FleetFileHarness) -> None:
    """On an empty journal it is refused, and with strict always."""
    good = harness.file.read_text()
    harness.file.write_text(good.replace("kind", "kin"))
    with pytest.raises(BadInput, match="there is no key 'kin'"):
        harness.start(nothing)
    harness.file.write_text(good)
    harness.start(nothing)
    harness.file.write_text(good.replace("kind", "kin"))

    async def look(assembly: Assembly) -> None:
        assert list(assembly.node.replica.fleet.vms) == list(VMS)
        assert "there is no key 'kin'" in assembly.node.warnings[TOPIC]

    harness.start(look)
    with pytest.raises(BadInput, match="there is no key 'kin'"):
        harness.start(nothing, strict=True)
    harness.file.unlink()
    harness.start(lambda assembly: _says(assembly, "cannot be read"))


def test_a_file_that_cannot_be_recorded_does_not_keep_a_recorded_fleet_from_its_guests(
    harness: FleetFileHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full disk the service starts with what is recorded, and says so."""
    harness.start(nothing)
    harness.file.write_text(file_of(*VMS, "new"))

    def refuse(*_: object) -> None:
        raise NotWritten("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(SqliteJournal, "append", refuse)
        harness.start(lambda assembly: _says(assembly, "the disk is full"))

    async def look(assembly: Assembly) -> None:
        assert "new" in assembly.node.replica.fleet.vms
        assert TOPIC not in assembly.node.warnings

    harness.start(look)


async def _says(assembly: Assembly, said: str) -> None:
    assert said in assembly.node.warnings[TOPIC]


def test_an_unchanged_file_is_not_even_parsed(harness: FleetFileHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recognised by its digest."""
    harness.start(nothing)

    def wrong(_: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr("forewarn.control.server.fleet_applier.parse_fleet", wrong)

    async def again(assembly: Assembly) -> None:
        assert await assembly.apply_fleet_file(harness.file) == FleetFileReport(
            source=str(harness.file), is_unchanged=True
        )

    harness.start(again)


def test_an_entry_without_room_is_left_out_and_tried_again(harness: FleetFileHarness) -> None:
    """It is named at each start, until there is room."""
    taken = Vm("z", "web", address="10.0.0.1")

    async def take(assembly: Assembly) -> None:
        await assembly.node.submit(ChangeFleet(id=uuid4().hex, by=ANN, vms=(taken,)))

    async def give_back(assembly: Assembly) -> None:
        assert "address 10.0.0.1 belongs to VM 'z' already" in assembly.node.warnings[TOPIC]
        assert "b" not in assembly.node.replica.fleet.vms
        await assembly.node.submit(ChangeFleet(id=uuid4().hex, by=ANN, removed_vms=("z",)))

    async def look(assembly: Assembly) -> None:
        assert assembly.node.replica.fleet.vms["b"].address == "10.0.0.1"
        assert assembly.node.warnings == {}

    harness.start(take)
    harness.file.write_text(file_of(*VMS) + '[[vm]]\nname = "b"\naddress = "10.0.0.1"\n')
    harness.start(give_back)
    harness.start(look)


@contextmanager
def served(harness: FleetFileHarness) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the service as a process of its own, until it answers; kill it in the end."""
    command = [sys.executable, "-m", "forewarn", "--data", str(harness.data), "serve", "--fleet", str(harness.file)]
    process = subprocess.Popen([*command, "--metadata", "127.0.0.1:0", "--control", "off"])
    try:
        deadline = monotonic() + 60
        while True:
            try:
                with ControlClient.local(harness.data) as client:
                    client.me()
                break
            except Unavailable:
                assert process.poll() is None, "the service ended"
                assert monotonic() < deadline
                sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.end_to_end
def test_a_killed_service_starts_again_whatever_is_recorded(harness: FleetFileHarness) -> None:
    """A VM that was added and is being restarted is not in the file; it stays, and so does what was set."""
    with served(harness), ControlClient.local(harness.data) as client:
        client.change_fleet(FleetDiff(groups=(GroupTerms("x", GroupKind.STANDALONE),), vms=(Vm("x", "x"),)))
        client.operate_vm("x", VmOperationBody(operation="restart"))
        client.operate_vm("web-0", VmOperationBody(operation="restart"))
        client.set_terms("web", TermsBody(quiet_hours=("22:00-06:00",)))
    harness.file.write_text(file_of(*VMS[1:]))
    with served(harness), ControlClient.local(harness.data) as client:
        assert client.group("web").policy.quiet_hours == ("22:00-06:00",)
        assert {"x", "web-0"} <= {vm.name for vm in client.vms()}
        (warning,) = client.health().warnings
        assert "web-0: removal waits" in warning


def test_the_first_start_on_an_older_journal_records_the_file_and_logs_every_difference(
    harness: FleetFileHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a journal holds no declaration, so nothing is known to have changed in the file."""
    harness.file.write_text(file_of("web-0", "web-1"), encoding="utf-8")
    with closing(SqliteJournal(harness.data)) as journal:
        journal.load()
        web = GroupTerms("web", GroupKind.AVAILABILITY_SET)
        change = FleetChanged(groups=(web,), vms=(Vm("web-0", "web", zone="2"), Vm("x", "web")))
        journal.append(0, [Entry(1, ManualClock().now(), uuid4().hex, ANN, (change,))])

    async def story(assembly: Assembly) -> None:
        assert sorted(assembly.node.replica.fleet.vms) == ["web-0", "x"]
        assert "--exact" in assembly.node.warnings[TOPIC]

    harness.start(story)

    found = [line.partition("file=")[2].partition(" ")[2] for line in caplog.text.splitlines() if "differs" in line]
    assert sorted(found) == [
        'vm=web-0 zone=2 zone_in_file=""',
        'vm=web-1 reason="it is in the file only"',
        'vm=x reason="it is not in the file"',
    ]
